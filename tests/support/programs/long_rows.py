"""Ops on rows that follow each other, and rows with what sums and maxima may meet."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.passes import CompiledProgram
from andiron.codegen.pipeline import compile_program
from andiron.codegen.verify import check_once
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import specialise
from andiron.runtime.compile import compile

from .attention_rows import within_bounds

OPS = """import std.ops.norm
import std.ops.attention
import std.ops.reduce
op vector_softmax[N](X: f32[N]) -> (Y: f32[N]):
    top = max(j) X[j]
    total = sum(j) exp(X[j] - top)
    Y[j] = exp(X[j] - top) / total

op vector_logsumexp[N](X: f32[N]) -> (Y: f32[]):
    top = max(j) X[j]
    Y = top + log(sum(j) exp(X[j] - top))

op softmin[N](X: f32[N]) -> (low: f32[], Y: f32[N]):
    low = min(j) X[j]
    total = sum(j) exp(low - X[j])
    Y[j] = exp(low - X[j]) / total

op cross_entropy[M, N](X: f32[M, N], T: i32[M]) -> (Y: f32[M]):
    top[i] = max(j) X[i, j]
    total[i] = sum(j) exp(X[i, j] - top[i])
    hit[i] = sum(j) where(j == T[i], X[i, j], 0)
    Y[i] = top[i] + log(total[i]) - hit[i]
"""


def compiled(name: str, device: str, sizes: Mapping[str, int], schedule: str = "") -> CompiledProgram:
    module = loads(OPS + schedule)
    chosen = next(iter(module.schedules.values())) if schedule else None
    return compile_program(module, specialise(module.ops[name], sizes), chosen, module.device(device))


def sizes_of(name: str, m: int, n: int) -> dict[str, int]:
    sizes = {"M": m, "N": n}
    return {v.name: sizes[v.name] for v in loads(OPS).ops[name].dims}


SPECIAL = ((-1, np.nan), (0, np.inf), (slice(None), -np.inf), (slice(None), -200))


def row_inputs(name: str, m: int, n: int) -> list[np.ndarray]:
    """Rows with infinities, with what is no number, and of which a part, or all, is -inf."""
    rng = np.random.default_rng(n)
    op = loads(OPS).ops[name]
    shapes = [[{"M": m, "N": n}[str(e)] for e in t.shape] for t in op.inputs]
    out = [rng.standard_normal(shape).astype(t.dtype.numpy) for t, shape in zip(op.inputs, shapes, strict=True)]
    if n > 2 and m > 1:
        x = out[0].reshape(-1, n)
        x[1 % len(x), : n // 2] = -np.inf  # the first parts of a vector
        for row, (place, value) in enumerate(SPECIAL):
            if 2 + row < len(x):
                x[2 + row, place] = value
    if name == "cross_entropy" and n:
        out[1] = rng.integers(0, n, m).astype(np.int32)
    return out


APART = ("layernorm", "rmsnorm", "row_moments")  # no statistic is a maximum, and no elements have no mean


def check_each_element_once(name: str, device: str, lines: str, cores: Mapping[str, int]) -> None:
    """Results, and how often each element counts, of these lines at small sizes."""
    for m, n in ((7, 200), (1, 63), (3, 1), (0, 5), (2, 0)):
        sizes = sizes_of(name, m, n)
        op = specialise(loads(OPS).ops[name], sizes)
        made = compiled(name, device, sizes, lines)
        if n > 0 or name not in APART:
            arrays = row_inputs(name, m, n)
            got = interpret(made.program, {t.name: x for t, x in zip(op.inputs, arrays, strict=True)}, finite=dict(cores))
            within_bounds(op, got.values(), arrays)
        check_once(made.program, op, {})


def check_softmax_of_any_size(lines: str, target: str, n: int) -> None:
    """Lines that were chosen for one size, for open ones: rows without elements among them."""
    kernel = compile(OPS + lines, op="softmax", schedule="softmax_auto", target=target)
    assert "online by workspace" in kernel.schedule
    for m in (0, 1, 4, 6):
        x = row_inputs("softmax", m, n)
        out = np.full((m, n), 7, np.float32)
        kernel(*x, out=out)
        within_bounds(specialise(loads(OPS).ops["softmax"], {"M": m, "N": n}), [out], x)
