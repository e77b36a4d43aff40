"""Rows of which softmax and attention take maxima, sums and products: an op, its schedules, arrays and results."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.pipeline import compile_program
from andiron.codegen.verify import check_once
from andiron.dsl.module import loads
from andiron.dsl.op import Op
from andiron.dsl.semantics.reference import reference

ROWS = """
op f[M, N, D](X: f32[M, N], V: f32[N, D]) -> (y: f32[M], o: f32[M, D]):
    m[i] = max(t) X[i, t]
    p[i, t] = {exp}(X[i, t] - m[i])
    l[i] = sum(t) p[i, t]
    y[i] = m[i] + log(l[i])
    o[i, d] = (sum(t) p[i, t] * V[t, d]) / l[i]
"""
SIZES = ((5, 37, 7), (4, 16, 8), (1, 1, 1), (3, 0, 2), (9, 130, 5), (0, 9, 3), (2, 9, 0))
EMPTY_OR_ONE = [(0, 9, 3), (2, 9, 0), (3, 0, 2), (1, 1, 1)]
INF = float("inf")

# Schedules of a pass, and of one whose parts a later launch combines.
CPU_PASSES = {
    "rows": "tile i: 4 -> core / keep m, l in register / keep o in l1 / tile t: 8 online / keep p in l1 / tile i: 1 / compute",
    "inlined": "tile i: 4 -> core / keep m, l in register / tile d: 8 / keep o in register / tile t: 16 online / compute",
    "tile in tile": "tile i: 4 -> core / keep m, l, o in register / tile t: 48 online / tile t: 16 / keep p in register",
    "lanes": "tile i: 8 -> core / keep m, l, o in register / tile t: 8 online / keep p in register / tile i: 1 -> lane",
    "whole": "tile i: 2 -> core / keep m, l, o in register / tile t: 64 online unroll 2 / tile d: 4 / compute",
    "lanes of a vector": "tile i: 2 -> core / keep m, l, o in register / tile t: 32 online / tile t: 1 -> lane",
    "two cores": "tile i: 2 / keep m, l, o in register / tile t: 64 online / tile t: 32 -> core online / tile t: 8 online",
    "tiles of tiles": "tile i: 4 -> core / keep m, l, o in register / tile t: 32 online / tile t: 8 online / tile i: 1",
    "result in registers": "tile i: 8 -> core / keep m, l in register / keep o in l1 layout (d, i) / tile t: 16 online"
    " / keep p in l1 layout (t, i) / tile d: 4 / keep o in register / tile t: 1 / tile i: 1 -> lane",
    "peeled": "tile i: 4 -> core / keep m, l in l1 / keep o in l2 / tile t: 8 online peel / tile i: 1 / tile t: 4 / compute",
}
GPU_PASSES = {
    "threads": "tile i: 32 -> block / tile i: 1 -> thread / keep m, l, o in register / tile t: 16 online / keep p in register",
    "staged": "tile i: 32 -> block / keep m, l, o in register / tile t: 8 online pipeline 2 / move V -> shared"
    " / tile i: 1 -> thread / keep p in register",
    "features": "tile i: 16 -> block / keep m, l, o in register / tile t: 16 online / keep p in shared"
    " / tile i: 1, d: 4 -> thread",
    "warps of lanes": "tile i: 2 -> block / tile i: 1 -> warp / keep m, l, o in register / tile t: 64 online"
    " / tile t: 2 -> thread",
    "lanes apart": "tile i: 4 -> block / tile i: 1 -> warp / keep m, l, o in register / tile t: 64 online"
    " / tile t: 1 every 32 -> thread",
    "lanes of their own": "tile i: 1 -> block / keep m, l, o in register / tile t: 256 online / tile t: 8 -> thread online"
    " / tile t: 8 online / keep p in register",
    "warps": "tile i: 2 -> block / keep m, l, o in register / tile t: 64 online / tile t: 16 -> warp"
    " / tile i: 1, t: 1 -> thread",
    "warps of their own": "tile i: 1 -> block / keep m, l in register / tile d: 4 / keep o in register / tile t: 256 online"
    " / tile t: 64 -> warp online / tile t: 8 online / tile t: 1 -> thread",
    "tiles of a shared result": "tile i: 16 -> block / keep m, l in shared / keep o in shared / tile t: 16 online"
    " / keep p in shared / tile i: 1, d: 4 -> thread / keep o in register / compute",
    "shared": "tile i: 16 -> block / keep m, l in shared / keep o in shared / tile t: 16 online / keep p in shared"
    " / tile i: 1, d: 4 -> thread / compute",
}
CPU_PARTS = {
    "parts": "tile i: 4 / tile t: 16 -> core online by workspace / keep m, l, o in register / tile t: 8 online",
    "in caches": "tile i: 4 -> core / tile t: 16 -> core online by workspace / keep m, l in register / keep o in l1"
    " / tile t: 8 online / keep p in l1 / tile i: 1 / compute",
    "lanes": "tile i: 2 -> core / tile t: 64 -> core online by workspace / keep m, l, o in register / tile t: 32 online"
    " / tile t: 1 -> lane",
    "peeled rows": "tile i: 2 peel / tile t: 24 -> core online by workspace / keep m, l, o in register / tile t: 8 online",
}
GPU_PARTS = {
    "threads": "tile i: 32 -> block / tile t: 24 -> block online by workspace / tile i: 1 -> thread"
    " / keep m, l, o in register / tile t: 8 online / keep p in register",
    "staged": "tile i: 32 -> block / tile t: 16 -> block online by workspace / keep m, l, o in register"
    " / tile t: 8 online pipeline 2 / move V -> shared / tile i: 1 -> thread / keep p in register",
    "warps": "tile i: 2 -> block / tile t: 64 -> block online by workspace / keep m, l, o in register / tile t: 64 online"
    " / tile t: 16 -> warp / tile i: 1, t: 1 -> thread",
    "lanes of their own": "tile i: 1 -> block / tile t: 128 -> block online by workspace / keep m, l, o in register"
    " / tile t: 128 online / tile t: 8 -> thread online / tile t: 8 online / keep p in register",
    "shared": "tile i: 16 -> block / tile t: 32 -> block online by workspace / keep m, l in shared / keep o in shared"
    " / tile t: 16 online / keep p in shared / tile i: 1, d: 4 -> thread / compute",
}


def written(lines: str) -> str:
    indented = (f"    {x[2:].strip()}" if x.startswith("> ") else x for x in map(str.strip, lines.split(" / ")))
    return "schedule s for f where D <= 8:\n" + "".join(f"    {x}\n" for x in indented)


def text_of(lines: str, exp: str = "exp") -> str:
    return ROWS.format(exp=exp) + written(lines)


def program_of(text: str, device: str, op: Op | None = None):
    """`op`: with sizes that are fixed."""
    module = loads(text)
    return compile_program(module, op or module.ops["f"], module.schedules["s"], module.device(device))


def formula(x: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two passes in float64."""
    x, v = x.astype(float), v.astype(float)
    with np.errstate(all="ignore"):
        m = x.max(1, initial=-INF)
        p = np.exp(x - m[:, None])
        total = p.sum(1)
        return m + np.log(total), (p[:, :, None] * v).sum(1) / total[:, None]


def agrees(got, x: np.ndarray, v: np.ndarray, text: str, finite: bool = True) -> None:
    """With the formula in where there are infinities and no numbers, and with the reference within its bound."""
    exact = reference(loads(text).ops["f"], exact=True)(x, v)
    for result, expected, (value, bound) in zip(got, formula(x, v), exact, strict=True):
        for oracle in (expected, value):
            np.testing.assert_array_equal(np.isnan(result), np.isnan(oracle))
            np.testing.assert_array_equal(np.isposinf(result), np.isposinf(oracle))
            np.testing.assert_array_equal(np.isneginf(result), np.isneginf(oracle))
        some = np.isfinite(value)
        assert not finite or some.all() or not x.shape[1]
        assert (np.abs(result.astype(float)[some] - value[some]) <= bound[some]).all()
        np.testing.assert_allclose(result[some], expected[some], rtol=1e-4, atol=1e-5)


def kernel_agrees(kernel, text: str, sizes: Iterable[tuple[int, int, int]] = SIZES) -> None:
    """At these sizes, and with infinities and no numbers."""
    for m, n, d in sizes:
        x, v = arrays(m, n, d)
        agrees(kernel(x, v), x, v, text)
    x, v = special()
    agrees(kernel(x, v), x, v, text, finite=False)


def program_agrees(text: str, device: str, sizes: Iterable[tuple[int, int, int]]) -> None:
    """In the interpreter, without races; and each element contributes once, by the right factor."""
    program, op = program_of(text, device).program, loads(text).ops["f"]
    units = {"core": 2} if device.startswith("cpu") else None
    for m, n, d in sizes:
        x, v = arrays(m, n, d)
        agrees(tuple(interpret(program, {"X": x, "V": v}, {"M": m, "N": n, "D": d}, units).values()), x, v, text)
        check_once(program, op, {"M": m, "N": n, "D": d}, units)


def arrays(m: int, n: int, d: int, scale: float = 3.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(m + n + d)
    x, v = rng.standard_normal((m, n)) * scale, rng.standard_normal((n, d))
    return x.astype(np.float32), v.astype(np.float32)


def special() -> tuple[np.ndarray, np.ndarray]:
    """Rows that have the word for it in a comment, and values."""
    x, v = arrays(12, 40, 3)
    x[0, :16] = -INF  # the first two tiles do not count
    x[1, :16], x[1, 16:] = -INF, -200 + x[1, 16:]  # nor here, and the rest is far below 0
    x[2] = -INF  # nothing counts
    x[3, 8:24] = -INF  # the middle
    x[4, 9:] = -INF  # the end
    x[5, 20] = INF
    x[6, 20] = np.nan
    x[7, 3], x[7, 30] = INF, -INF
    x[8] = np.linspace(-300, 300, 40)  # each tile corrects by much
    x[9] = np.linspace(300, -300, 40)
    x[10, 1:] = -INF  # one element
    x[11, :8], x[11, 39] = -INF, np.nan
    return x, v
