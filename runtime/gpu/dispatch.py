"""Targets that are chosen by the place of the arrays, or by the GPU of this machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...codegen.targets import FAMILIES
from ...dsl.errors.target import NoDevice
from .arch import nearest_device
from .arrays import kind_of
from .driver import find_driver

if TYPE_CHECKING:
    from ..kernel import Kernel


def attached_target(family: str, known: Mapping[str, Sequence[str]], number: int = 0) -> str:
    """The target for a GPU of this machine, of the devices `known` (each with those that it extends). Raises NoDevice."""
    arch = find_driver(family).arch(number)
    root = FAMILIES[family].root
    device = nearest_device(arch, (n for n in known if root in known[n]))
    if device is None:
        raise NoDevice(
            f"no device is known that the GPU at hand ({arch}) could be", help="describe it, and name it as the target"
        )
    return f"{family}:{device}"


class DeviceKernels:
    """Kernels of one op by the GPU that arrays are on. `compile(target)` makes one."""

    def __init__(self, compile: Callable[[str], Kernel]) -> None:
        self._compile = compile
        self._kernels: dict[tuple[str, int], Kernel] = {}

    def __call__(self, args: Sequence[Any]) -> Kernel | None:
        """The kernel for the GPU in whose memory the first array that is in one lies; None when all are the host's."""
        for x in args:
            place = kind_of(x)
            if place is not None:
                kernel = self._kernels.get(place)
                if kernel is None:
                    kernel = self._kernels.setdefault(place, self._compile(place[0]))
                return kernel
        return None
