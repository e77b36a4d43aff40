"""What a request to `compile` is for, as measurements name it: the task, the machine, the toolchain."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from ....dsl import syntax
from ....dsl.errors import UserError
from ....dsl.text.print_node import format_node
from ...devices import extended_devices
from ...gpu.driver import find_driver
from ...native import cpu_features
from ...native.cpu_name import cpu_name
from ...native.cxx_compiler import find_compiler
from ...random_inputs import default_sizes
from ..tuning_store import op_text
from .measurement import Task

if TYPE_CHECKING:
    from ...compile import CompileRequest


def task_of(request: CompileRequest, dims: Mapping[str, int] | None = None) -> Task:
    """The task of a request; `dims` has the value of each size of the op, by default `default_sizes`."""
    op, module = request.op, request.module
    dims = default_sizes(op, request.sizes) if dims is None else dims
    # The op's own parameters are numbers by now; those of a schedule are part of its text.
    fixed = {**{name: request.given.get(name, n) for name, n in module.ops[op.name].params}, **request.sizes}
    names = extended_devices(request.device, module)
    if request.target.device is None:  # the rates of the machine at hand are measured anew: its model is in the fingerprint
        names = names[1:]
    declared = [module.device(name).decl for name in names]
    device = "\n".join(_device_text(decl) if decl is not None else name for decl, name in zip(declared, names, strict=True))
    sizes = {name: int(value) for name, value in fixed.items() if value is not None}
    open_sizes = {name: int(n) for name, n in dims.items() if name not in fixed}
    return Task(op_text(request), op.name, sizes, request.target.name, device, open_sizes)


def fingerprint_of(request: CompileRequest) -> str:
    """The machine that runs the target's kernels: the model of its CPU with the threads that take part, or of its GPU.

    Raises NoDevice for a GPU that is not there.
    """
    family = request.target.family
    if family.launcher == "driver":
        return find_driver(family.name).model(0)
    return cpu_name(request.threads or cpu_features.usable_cores())


def toolchain_of(request: CompileRequest) -> str:
    """The compiler of the emitted text; empty where there is none."""
    try:
        if request.target.family.launcher == "driver":
            from ...gpu.toolchains import toolchain_versions

            return next(iter(toolchain_versions(request.target.family.name)), "")
        return find_compiler().version
    except UserError:
        return ""


@lru_cache(maxsize=64)
def _device_text(decl: syntax.DeviceDecl) -> str:
    return format_node(decl)
