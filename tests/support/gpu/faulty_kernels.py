"""Kernels of sketches, as they are or broken on purpose, under the emulator."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache

import numpy as np
from andiron.codegen import abi
from andiron.codegen.emit.printers import emit
from andiron.codegen.ir.program import Program
from andiron.codegen.ir.tile_ir import Stmt
from andiron.codegen.ir.tile_visitors import map_bodies, statements
from andiron.codegen.pipeline import compile_program
from andiron.codegen.targets import target_of
from andiron.dsl.errors import UserError, UserErrors
from andiron.dsl.module import Module, loads
from andiron.dsl.op import Op
from andiron.dsl.ops.specialise import bind_params
from andiron.dsl.semantics.reference import reference
from andiron.runtime.emulator.variant import EmulatedVariant
from andiron.runtime.kernel import Kernel

from ..paths import DEVICES

FILES = {
    "simt": ("simt.sched", "simt_sketches.sched"),
    "gpu": ("gpu_sketches.sched",),
}


@lru_cache(maxsize=2)
def module(of: str) -> Module:
    return loads("".join((DEVICES / name).read_text(encoding="utf-8") for name in FILES[of]))


# schedule -> sizes at which each of its barriers matters
SIZES = {
    ("gpu", "turing"): dict(M=64, N=32, K=64),
    ("gpu", "mfma_half"): dict(M=64, N=32, K=96),
    ("gpu", "dp4a"): dict(M=32, N=32, K=64),
    ("gpu", "ampere_nt"): dict(M=64, N=32, K=96),
    ("simt", "tiled"): dict(M=37, N=45),
    ("simt", "row"): dict(M=3, N=1500),
    ("simt", "maxwell"): dict(M=40, N=150, K=40),
}


@lru_cache(maxsize=30)
def _compiled(of: str, name: str) -> tuple[Op, Program]:
    mod = module(of)
    schedule = mod.schedules[name]
    op = bind_params(mod.ops[schedule.op], {})
    return op, compile_program(mod, op, schedule, mod.devices[schedule.device or ""]).program


def compiled(of: str, name: str, **sizes: int) -> tuple[Op, Program]:
    """The op and the tile program of a schedule of `FILES[of]`: that of its programs which is for the sizes (`SIZES`), so that
    what is broken in it is what runs."""
    op, program = _compiled(of, name)
    known = dict(sizes or SIZES[of, name])
    for v, e in program.lets:
        known[v.name] = int(e.evaluate(known))
    return op, replace(abi.chosen(program, known, {}), needs=None, instead=None)


def emulated(op: Op, program: Program, edit: Callable[[str], str] = lambda text: text) -> Kernel:
    """`edit` may change the emitted text, line by line."""
    text = emit(program, "emulate")
    broken = edit(text)
    assert len(broken.splitlines()) == len(text.splitlines()), "lines would be told wrongly"
    target = target_of(f"emulate:{program.device.name}", {program.device.name: ()})
    return Kernel(op, [EmulatedVariant(program, broken, "", target)], {}, 2)


def small_numbers(op: Op, sizes: Mapping[str, int]) -> list[np.ndarray]:
    """Whole numbers whose products and sums are exact."""
    rng = np.random.default_rng(3)
    return [rng.integers(-4, 5, [e.evaluate(sizes) for e in t.shape]).astype(t.dtype.numpy) for t in op.inputs]


def faults_of(kernel: Kernel, op: Op, sizes: Mapping[str, int]) -> list[UserError]:
    """The faults of a call; AssertionError when the result is right and nothing is reported."""
    arrays = small_numbers(op, sizes)
    try:
        out = kernel(*arrays)
    except UserErrors as several:
        return list(several.errors)
    except UserError as one:
        return [one]
    want = np.asarray(reference(op)(*arrays), "f8")
    np.testing.assert_allclose(np.asarray(out, "f8"), want, rtol=1e-5, atol=1e-6)
    return []


def wrong(kernel: Kernel, op: Op, sizes: Mapping[str, int]) -> bool:
    """Whether a call gives wrong numbers, or is reported."""
    try:
        return bool(faults_of(kernel, op, sizes))
    except AssertionError:
        return True


def edited(program: Program, edit: Callable[[Stmt], list[Stmt]]) -> Program:
    """`edit` gives the statements in place of one."""

    def body(stmts: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return tuple(y for s in stmts for y in edit(map_bodies(s, body)))

    return replace(program, launches=tuple(replace(x, body=body(x.body)) for x in program.launches))


def each_without(program: Program, kind: type[Stmt]) -> Iterator[tuple[Stmt, Program]]:
    """Each statement of a kind, and the program without it."""
    count = sum(isinstance(s, kind) for x in program.launches for s in statements(x.body))
    for n in range(count):
        seen: list[Stmt] = []

        def drop(s: Stmt, n: int = n, seen: list[Stmt] = seen) -> list[Stmt]:
            if isinstance(s, kind):
                seen.append(s)
                if len(seen) == n + 1:
                    return []
            return [s]

        less = edited(program, drop)
        yield seen[n], less


def line_of(error: UserError) -> str:
    """The line of the schedule that an error points to."""
    assert error.span is not None, str(error)
    return error.span.source.line(error.span.line).strip()
