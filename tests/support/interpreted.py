"""One op under one schedule, interpreted with all checks, against a NumPy formula that is written beside it.

Inputs are small integers, so that every partial sum is exact and results are bit-equal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.ir.program import Program
from andiron.codegen.pipeline import compile_program
from andiron.codegen.verify import check_once
from andiron.codegen.verify.field_elements import ValueBudgetExceeded
from andiron.dsl.module import loads
from andiron.dsl.op import Op
from andiron.dsl.ops.specialise import specialise

# A GPU whose warps have any number of lanes.
OWN_GPU = """
device own:
    level grid: finite 1, siblings nothing
    level block: open, siblings nothing, at most 1024 threads
    level warp: shaped, siblings barrier, at most {warps} units
    level thread: shaped, siblings lockstep, at most {width} units, width {width}
    memory global of grid: 1555 GB/s, transaction 32 B
    memory shared of block: 163 KiB, banks 32 x 4 B
    memory register of thread: 255 x 4 B
"""

Sizes = Mapping[str, int]
WORK = 20_000  # values computed to count points, at most: some milliseconds


@dataclass(frozen=True)
class Formula:
    """An op `f`, and the formula of its results."""

    text: str
    result: Callable[..., np.ndarray | tuple[np.ndarray, ...]]


GEMM = Formula(
    "op f[M, N, K](A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]):\n    C[m, n] = sum(k) A[m, k] * B[k, n]\n",
    lambda a, b: a @ b,
)
ROWS = Formula("op f[M, K](X: f32[M, K]) -> (Y: f32[M]):\n    Y[m] = sum(k) X[m, k]\n", lambda x: x.sum(1))
HIGHEST = Formula("op f[M, K](X: f32[M, K]) -> (Y: f32[M]):\n    Y[m] = max(k) X[m, k]\n", lambda x: x.max(1, initial=-np.inf))
TOTALS = Formula("op f[N, C, S](X: f32[N, C, S]) -> (Y: f32[N]):\n    Y[n] = sum(c, s) X[n, c, s]\n", lambda x: x.sum((1, 2)))
CENTRED = Formula(
    "op f[M, K](X: f32[M, K]) -> (Y: f32[M, K]):\n    t[m] = sum(k) X[m, k]\n    Y[m, k] = X[m, k] - t[m]\n",
    lambda x: x - x.sum(1, keepdims=True),
)
TURNED = Formula("op f[M, N](X: f32[M, N]) -> (Y: f32[N, M]):\n    Y[n, m] = X[m, n]\n", lambda x: x.T)


def program_of(
    formula: Formula, lines: str, device: str, fixed: Sizes | None = None, where: str = "", devices: str = ""
) -> Program:
    """The tile program. `lines`: of the schedule (`written`); `fixed`: sizes given when it is compiled."""
    text = f"{formula.text}\nschedule s for f{where and ' where ' + where}:\n{written(lines)}\n{devices}"
    return _program_of(text, device, tuple((fixed or {}).items()))


@lru_cache(maxsize=16)
def _program_of(text: str, device: str, fixed: tuple[tuple[str, int], ...]) -> Program:
    """Consecutive tests ask for one program at many sizes."""
    module = loads(text)
    op = specialise(module.ops["f"], dict(fixed))
    return compile_program(module, op, module.schedules["s"], module.device(device)).program


def written(lines: str) -> str:
    """Lines of a schedule that stand apart by " / "; those of a nested block begin with "> "."""
    indented = (f"    {x[2:].strip()}" if x.startswith("> ") else x for x in map(str.strip, lines.split(" / ")))
    return "".join(f"    {x}\n" for x in indented)


@lru_cache(maxsize=64)
def op_of(formula: Formula) -> Op:
    """A text is parsed once for all sizes and schedules of a test."""
    return loads(formula.text).ops["f"]


def inputs_of(formula: Formula, sizes: Sizes, seed: int = 0) -> dict[str, np.ndarray]:
    """Integers from -4 to 4."""
    rng = np.random.default_rng(seed)
    op = op_of(formula)
    shapes = {t.name: tuple(e.evaluate(dict(sizes)) for e in t.shape) for t in op.inputs}
    return {name: rng.integers(-4, 5, shape).astype(np.float32) for name, shape in shapes.items()}


def agrees(formula: Formula, program: Program, sizes: Sizes, finite: Sizes | None = None) -> None:
    """Each output of the program is what the formula says, and each point counts once."""
    arrays = inputs_of(formula, sizes)
    dims = {v.name: sizes[v.name] for v in program.dims}
    want = formula.result(*arrays.values())
    for got, expected in zip(
        interpret(program, arrays, dims, finite).values(), want if isinstance(want, tuple) else (want,), strict=True
    ):
        np.testing.assert_array_equal(got, expected)
    with suppress(ValueBudgetExceeded):
        check_once(program, op_of(formula), sizes, finite, work=WORK)
