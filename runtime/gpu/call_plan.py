"""The launches of a GPU kernel and their parameters for one set of shapes, computed once."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..variant import Variant
from .arrays import Arrays


@dataclass(frozen=True)
class LaunchCall:
    """One launch for known sizes. `slots`: where in a plan's values each parameter stands."""

    function: int
    blocks: int
    threads: int
    shared: int
    slots: tuple[int, ...]


class ParameterBlock:
    """Parameters of all launches of one call, in memory that stays: 64 bits each, addresses first, then sizes."""

    def __init__(self, launches: Sequence[LaunchCall], pointers: int, sizes: Sequence[int]) -> None:
        self.values = (ctypes.c_uint64 * (pointers + len(sizes)))(*[0] * pointers, *sizes)
        start = ctypes.addressof(self.values)
        self.calls = []
        for x in launches:
            parameters = (ctypes.c_void_p * len(x.slots))(*(start + 8 * i for i in x.slots))
            numbers = (x.blocks, 1, 1, x.threads, 1, 1, x.shared)
            self.calls.append(((ctypes.c_void_p(x.function), *map(ctypes.c_uint, numbers)), parameters))


@dataclass(frozen=True)
class ProgramCall:
    """The launches of one program, the variant's own or what it is given up for, at known sizes."""

    launches: tuple[LaunchCall, ...]
    sizes: tuple[int, ...]
    pointers: int
    free: list[ParameterBlock] = field(default_factory=list)  # for calls that do not run at the same time

    def block(self) -> ParameterBlock:
        try:
            return self.free.pop()
        except IndexError:
            return ParameterBlock(self.launches, self.pointers, self.sizes)


@dataclass(frozen=True)
class DeviceCallPlan:
    """What a call needs to know about shapes on a device, once they were checked."""

    variant: Variant
    library: Arrays
    env: dict[str, int]  # sizes by name
    mask: int  # the bits of addresses on which it depends which program is launched
    program_calls: dict[tuple[int, ...], ProgramCall]  # by those bits of the arguments' addresses; () where all are 0
    outputs: tuple[tuple[tuple[int, ...], Any], ...]
    only: tuple[tuple[int, ...], Any] | None  # shape and type of the output when there is one
    order: tuple[int, ...] | None
    nbytes: tuple[int, ...]  # of the inputs, then of the outputs
    spaces: tuple[int, ...]  # where each workspace begins, and how many bytes all have
    pack: Callable[..., None]
