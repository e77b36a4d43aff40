"""Passes (`online`) over rows of which the op's own conditions leave some elements, or none: whole, and in parts.

The count of points must take them for right. It finds wrong ones: "cpu masked" in `tests/codegen/verify/test_mutations.py`.
"""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.pipeline import compile_program
from andiron.codegen.verify import check_once
from andiron.dsl.module import loads
from andiron.dsl.op import Op
from andiron.dsl.semantics.reference import reference
from andiron.runtime.compile import compile

from ....support.cpp.build import skip_unless_run_here
from ....support.rotation import rotated

# `{0}`: what a masked element is, so that it does not count
MASKS = {
    "later rows": "where(t >= i + 4, X[i, t], {0})",
    "steep": "where(t >= 4*i, X[i, t], {0})",
    "all rows": "where(t < 0, X[i, t], {0})",
    "every other row": "where(i % 2 == 0, X[i, t], {0})",
    "one element": "where(t / 5 == i, X[i, t], {0})",
    "by data": "where(t < c[i], X[i, t], {0})",
    "two conditions": "where(t >= 2*i and t < c[i], X[i, t] * 0.5, {0})",
    "a mask in a mask": "where(i != 1, where(t % 3 == i, X[i, t], {0}), {0})",
    "scaled": "where(t > 3*i, X[i, t], {0}) * 0.5",
    "shifted": "where(t > 3*i, X[i, t], {0}) + 1.0",
    "of exponentials": "where(t > i, exp(X[i, t]), {0})",
    "of a product": "where(t != i, X[i, t] * X[i, t], {0})",
}
ENDS = {"max": ("-inf", "x[i, t] - m[i]"), "min": ("inf", "(m[i] - x[i, t]) * 0.5")}
OP = """op f[M, N, D](X: f32[M, N], c: i32[M], V: f32[N, D]) -> (y: f32[M], o: f32[M, D], z: f32[M]):
    x[i, t] = {x}
    m[i] = {kind}(t) x[i, t]
    p[i, t] = exp({distance})
    l[i] = sum(t) p[i, t]
    y[i] = m[i] * 0.5 + log(l[i])
    o[i, d] = (sum(t) p[i, t] * V[t, d]) / l[i]
    z[i] = f32(c[i])
"""
CPU = {
    "rows": "tile i: 4 -> core / keep m, l, o in register / tile t: 8 online / compute",
    "vectors of rows": "tile i: 8 -> core / keep m, l, o in register / tile t: 8 online / keep p in register"
    " / tile i: 1 -> lane",
    "lanes of a row": "tile i: 2 -> core / keep m, l, o in register / tile t: 32 online / tile t: 1 -> lane",
    "cores": "tile i: 2 / keep m, l, o in register / tile t: 64 online / tile t: 32 -> core online / tile t: 8 online",
    "parts": "tile i: 4 / tile t: 16 -> core online by workspace / keep m, l, o in register / tile t: 8 online",
    "parts, lanes": "tile i: 2 -> core / tile t: 64 -> core online by workspace / keep m, l, o in register"
    " / tile t: 32 online / tile t: 1 -> lane",
}
GPU = {
    "threads": "tile i: 32 -> block / tile i: 1 -> thread / keep m, l, o in register / tile t: 16 online / keep p in register",
    "warps of lanes": "tile i: 2 -> block / tile i: 1 -> warp / keep m, l, o in register / tile t: 64 online"
    " / tile t: 2 -> thread",
    "warps": "tile i: 2 -> block / keep m, l, o in register / tile t: 64 online / tile t: 16 -> warp"
    " / tile i: 1, t: 1 -> thread",
    "shared": "tile i: 16 -> block / keep m, l in shared / keep o in shared / tile t: 16 online / keep p in shared"
    " / tile i: 1, d: 1 -> thread / compute",
    "parts": "tile i: 32 -> block / tile t: 24 -> block online by workspace / tile i: 1 -> thread"
    " / keep m, l, o in register / tile t: 8 online / keep p in register",
    "parts, warps": "tile i: 2 -> block / tile t: 64 -> block online by workspace / keep m, l, o in register"
    " / tile t: 64 online / tile t: 16 -> warp / tile i: 1, t: 1 -> thread",
}
LINES = {**{("cpu:avx2", n): x for n, x in CPU.items()}, **{("sm_80", n): x for n, x in GPU.items()}}
KINDS = [(mask, kind) for mask in MASKS for kind in ENDS]
SIZES = ((5, 37, 3), (1, 1, 1), (9, 19, 2), (3, 0, 2), (0, 4, 1))
COUNTED = ((3, 19, 1), (1, 1, 1), (3, 0, 2), (0, 4, 1))  # to count a point takes far longer than to compute it


def text_of(mask: str, kind: str, lines: str) -> str:
    neutral, distance = ENDS[kind]
    op = OP.format(x=MASKS[mask].format(neutral), kind=kind, distance=distance)
    return op + "schedule s for f where D <= 8:\n" + "".join(f"    {x.strip()}\n" for x in lines.split(" / "))


def arrays(m: int, n: int, d: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(m + n + d)
    x, v = rng.standard_normal((m, n)) * 2, rng.standard_normal((n, d))
    return x.astype(np.float32), rng.integers(-3, n + 3, m).astype(np.int32), v.astype(np.float32)


def agrees(op: Op, got: tuple[np.ndarray, ...], given: tuple[np.ndarray, ...]) -> None:
    for result, (value, bound) in zip(got, reference(op, exact=True)(*given), strict=True):
        result = result.astype(float)
        for of in (np.isnan, np.isposinf, np.isneginf):
            np.testing.assert_array_equal(of(result), of(value))
        some = np.isfinite(value)
        assert (np.abs(result[some] - value[some]) <= bound[some]).all()


@pytest.mark.parametrize(("mask", "kind", "lines"), [(*a, b) for a, b in rotated(KINDS, list(LINES))])
def test_in_the_interpreter_and_once(mask: str, kind: str, lines: tuple[str, str]) -> None:
    module = loads(text_of(mask, kind, LINES[lines]))
    op, device = module.ops["f"], lines[0]
    program = compile_program(module, op, module.schedules["s"], module.device(device)).program
    units = {"core": 3} if device.startswith("cpu") else None
    for sizes in SIZES:
        given, dims = arrays(*sizes), dict(zip("MND", sizes, strict=True))
        got = interpret(program, dict(zip("XcV", given, strict=True)), dims, units)
        agrees(op, tuple(got.values()), given)
    for sizes in COUNTED:
        check_once(program, op, dict(zip("MND", sizes, strict=True)), units)


@pytest.mark.parametrize(("lines", "target"), rotated(CPU, ("cpu:generic", "cpu:avx2", "cpu:avx512")))
def test_on_cpus(lines: str, target: str) -> None:
    skip_unless_run_here(target)
    right(text_of("later rows", "max", CPU[lines]), target)


@pytest.mark.parametrize(("lines", "target"), rotated(GPU, ("emulate:sm_80", "emulate:gfx942")))
def test_under_the_emulator(lines: str, target: str) -> None:
    text = GPU[lines].replace("-> warp", "-> wave") if "gfx" in target else GPU[lines]
    right(text_of("two conditions", "max", text), target)


def right(text: str, target: str) -> None:
    op, kernel = loads(text).ops["f"], compile(text, op="f", schedule="s", target=target)
    for sizes in SIZES:
        given = arrays(*sizes)
        agrees(op, kernel(*given), given)
