"""Whether kernels of a target can be timed on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...dsl.errors import UserError
from ...dsl.errors.run import CannotTune
from ..gpu.driver import find_driver

if TYPE_CHECKING:
    from ..compile import CompileRequest


def why_not_measured(request: CompileRequest) -> UserError | None:
    """Why candidates for the request cannot be measured here; None: they can."""
    target = request.target
    if target.family.launcher == "emulator":
        help = "tune on a machine that has such a GPU"
        return CannotTune(f"{target.name} is emulated: its times say nothing about the GPU", help=help)
    if target.family.launcher == "driver":
        try:
            find_driver(target.family.name)
        except UserError as error:
            return error
    return None
