"""Plans that calls of a kernel remember: one for each shape, and a function for calls like earlier ones."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..dsl.errors import InternalError
from ..dsl.errors.run import SizeRefused
from .native.fast_call import FastCaller
from .variant import KernelVariants, Variant

MOST_PLANS = 512  # shapes remembered per kernel


@dataclass(frozen=True)
class CallPlan:
    """What a call needs to know about shapes, once they were checked. `order` is None when arguments are in the op's order."""

    call: Callable[..., int]
    dims: ctypes.Array
    outputs: tuple[tuple[tuple[int, ...], np.dtype], ...]
    pointers: Any
    order: tuple[int, ...] | None
    variant: Variant
    only: Any  # shape and type of the output when there is one
    nbytes: tuple[int, ...]  # of the inputs, then of the outputs

    def apart(self, addresses: Sequence[int]) -> bool:
        """Whether an only output, contiguous at its address, surely shares no memory with the inputs."""
        start = addresses[-1]
        end = start + self.nbytes[-1]
        for at, size in zip(addresses[:-1], self.nbytes):  # noqa: B905 - the output is left out
            if start < at + size and at < end:
                return False
        return self.only is not None

    def failure(self, op: str, status: int) -> Exception:
        """Why a call ended with this status, which is not 0."""
        if status == 1:
            return SizeRefused("no memory for the kernel's own buffers")
        if status >= 100 and status - 100 < len(self.variant.program.conditions):
            return SizeRefused(f"`{self.variant.program.conditions[status - 100][1]}` does not hold")
        return InternalError(f"the kernel {op} ended with the unknown status {status}")


class CallMemory:
    """What calls by some variants of a kernel remember. A call takes it at its start and keeps it to its end.

    REPLACED  Where a kernel goes on with other variants, or with nothing remembered, it gets a new one of these: nothing is
              taken from a call that runs. What such a call finds out, it adds to the old one, and that is forgotten with it.
    ADDED     Plans are only added, and `caller` is replaced, by who has the kernel's lock. Calls read without it.
    """

    def __init__(self, variants: Sequence[Variant]) -> None:
        self.variants: Sequence[Variant] = variants if isinstance(variants, KernelVariants) else tuple(variants)
        self.plans: dict[Any, Any] = {}
        self.caller: FastCaller | None = None  # for calls like earlier ones
