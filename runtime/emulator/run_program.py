"""`emulate`: a tile program under the emulator, as `codegen.interpret.machine.interpret` runs one in NumPy."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping

import numpy as np

from ...codegen.emit.printers import emit
from ...codegen.ir.program import Program
from ...codegen.targets import FAMILIES, Target
from ...dsl.index.expr import Expr, Var
from .variant import EmulatedVariant


def emulated_variant(program: Program) -> EmulatedVariant:
    """The program, printed for the emulator."""
    device = program.device.name
    return EmulatedVariant(
        program, emit(program, "emulate"), program.head, Target(f"emulate:{device}", FAMILIES["emulate"], device)
    )


def emulate(
    program: Program, arrays: Mapping[str, np.ndarray], sizes: Mapping[str, int] | None = None, threads: int = 2
) -> dict[str, np.ndarray]:
    """The outputs by name.

    sizes    the program's dims; those left out are inferred from the shapes of the inputs
    threads  OS threads that may take part

    Raises an EmulatorFault or several, ValueError for arrays or sizes that do not fit, NoCompiler, CompilerFailed.
    """
    return run_variant(emulated_variant(program), arrays, sizes, threads)


def run_variant(
    variant: EmulatedVariant, arrays: Mapping[str, np.ndarray], sizes: Mapping[str, int] | None = None, threads: int = 2
) -> dict[str, np.ndarray]:
    """As `emulate`, of a program that is printed already."""
    program = variant.program
    known = _sizes(program, arrays, sizes or {})
    buffers = [b for b in program.buffers if b.kind != "workspace"]
    held: dict[str, np.ndarray] = {}
    for b in buffers:
        shape = tuple(int(e.evaluate(known)) for e in b.shape)
        if b.kind == "input":
            held[b.name] = np.ascontiguousarray(arrays[b.name], b.dtype.numpy).reshape(arrays[b.name].shape)
            if held[b.name].shape != shape:
                raise ValueError(f"{b.name} has shape {arrays[b.name].shape}, needs {shape}")
        else:
            held[b.name] = np.empty(shape, b.dtype.numpy)
    args = (ctypes.c_void_p * len(buffers))(*(held[b.name].ctypes.data for b in buffers))
    dims = (ctypes.c_int64 * len(program.dims))(*(known[v.name] for v in program.dims))
    status = variant.load().call(args, dims, threads)
    if status >= 100:
        raise ValueError(program.conditions[status - 100][1])
    if status:
        raise ValueError("no memory" if status == 1 else "too many blocks")
    return {b.name: held[b.name] for b in buffers if b.kind == "output"}


def _sizes(program: Program, arrays: Mapping[str, np.ndarray], sizes: Mapping[str, int]) -> dict[str, int]:
    known = {name: int(n) for name, n in sizes.items()}
    for b in program.buffers:
        if b.kind != "input":
            continue
        for extent, n in zip(b.shape, arrays[b.name].shape, strict=True):
            if len(extent.terms) == 1 and isinstance(v := extent.terms[0][0], Var) and extent == Expr(((v, 1),)):
                known.setdefault(v.name, n)
    missing = [v.name for v in program.dims if v.name not in known]
    if missing:
        raise ValueError(f"no size for {', '.join(missing)}")
    known |= {v.name: 1 for _, v in program.finite}
    return program.with_derived(known)
