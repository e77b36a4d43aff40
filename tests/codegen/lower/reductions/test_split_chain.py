"""`tile ... -> block online by workspace`: parts of a pass, corrected and combined by the launch that follows."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.lower.reductions import split_reduction
from andiron.codegen.lower.schedule_trace import show_trace
from andiron.dsl.errors import UserError
from andiron.dsl.errors.verify import PointNotOnce
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import specialise
from andiron.dsl.semantics.reference import reference
from andiron.runtime.compile import compile

from ....support.cpp.build import skip_unless_run_here
from ....support.programs.online_rows import (
    CPU_PARTS,
    EMPTY_OR_ONE,
    GPU_PARTS,
    INF,
    ROWS,
    SIZES,
    agrees,
    arrays,
    kernel_agrees,
    program_agrees,
    program_of,
    special,
    text_of,
    written,
)
from ....support.rotation import rotated


@pytest.mark.parametrize(("name", "target"), rotated(CPU_PARTS, ("cpu:generic", "cpu:avx2", "cpu:avx512")))
def test_on_cpus(name: str, target: str) -> None:
    skip_unless_run_here(target)
    text = text_of(CPU_PARTS[name])
    kernel = compile(text, op="f", schedule="s", target=target)
    kernel_agrees(kernel, text)
    assert np.isfinite(kernel(*special())[0][[0, 1, 3, 4, 8, 9, 10]]).all()


@pytest.mark.parametrize(("name", "device"), rotated(GPU_PARTS, ("sm_80", "gfx942", "sm_75")))
def test_under_the_emulator(name: str, device: str) -> None:
    text = text_of(GPU_PARTS[name].replace("-> warp", "-> wave") if "gfx" in device else GPU_PARTS[name])
    kernel = compile(text, op="f", schedule="s", target=f"emulate:{device}")
    kernel_agrees(kernel, text, SIZES[:5])


@pytest.mark.parametrize(
    ("lines", "device"),
    [(x, "cpu:avx2") for x in CPU_PARTS.values()] + [(x, "sm_80") for x in GPU_PARTS.values()],
    ids=[*CPU_PARTS, *GPU_PARTS],
)
def test_in_the_interpreter_and_once(lines: str, device: str) -> None:
    """Without races, and each element contributes once, by the right factor. What nothing wrote is not read."""
    program_agrees(text_of(lines), device, ((3, 67, 1), (2, 0, 1), (1, 8, 4)))


@pytest.mark.parametrize(("name", "sizes"), rotated([*CPU_PARTS, *GPU_PARTS], EMPTY_OR_ONE))
def test_sizes_that_are_fixed(name: str, sizes: tuple[int, int, int]) -> None:
    lines, device = (CPU_PARTS[name], "cpu:avx2") if name in CPU_PARTS else (GPU_PARTS[name], "sm_80")
    text = text_of(lines).replace(" where D <= 8", "")
    module = loads(text)
    op = specialise(module.ops["f"], dict(zip("MND", sizes, strict=True)))
    program = program_of(text, device, op).program
    x, v = arrays(*sizes)
    got = interpret(program, {"X": x, "V": v}, finite={level: 2 for level, _ in program.finite})
    agrees(tuple(got.values()), x, v, text)


@pytest.mark.parametrize("size", [8, 24, 64, 128])
def test_powers_of_two_are_exact(size: int) -> None:
    """Integers, powers of two and their sums are exact, so the results are those of the reference, for each number of parts."""
    rng = np.random.default_rng(size)
    text = text_of(GPU_PARTS["threads"].replace("t: 24", f"t: {size}"), "exp2")
    kernel = compile(text, op="f", schedule="s", target="emulate:sm_80")
    for n in (1, 7, 24, 100):
        x = rng.integers(-4, 5, (6, n)).astype(np.float32)
        v = rng.integers(-4, 5, (n, 5)).astype(np.float32)
        np.testing.assert_array_equal(kernel(x, v)[1], reference(loads(text).ops["f"])(x, v)[1])


def test_two_launches() -> None:
    program = program_of(text_of(GPU_PARTS["threads"]), "sm_80").program
    assert len(program.launches) == 2
    assert {b.name for b in program.buffers if b.kind == "workspace"} == {"m_parts", "l_parts", "o_sum1_parts"}


@pytest.mark.wrong_program
def test_a_factor_that_is_missing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def uncorrected(ctx, chain, plain, later):
        return (*plain.values(), *later)

    monkeypatch.setattr(split_reduction, "combined_chain", uncorrected)
    with pytest.raises(PointNotOnce):
        program_of(text_of(CPU_PARTS["parts"]), "cpu:avx2")


def test_explain_shows_both_corrections() -> None:
    shown = show_trace(program_of(text_of(GPU_PARTS["threads"]), "sm_80").trace)
    assert "tiles, one after another; l, o.sum1: times exp(m~ - m)\n" in shown
    assert "* exp(m_parts[max(1, (N + 23)/24), M] - where(m[M] == -inf, 0.0, m[M]))" in shown


# ---------------------------------------------------------------- other ops

LSE = "    l[i] = sum(t) exp(X[i, t] - m[i])\n    y[i] = m[i] + log(l[i])\n"
PARTS = "tile i: 4 -> core / tile t: 16 -> core online by workspace / keep {0} in register / tile t: 8 online / compute"
OPS = {
    "two statistics, a maximum and a minimum": (
        "op f[M, N](X: f32[M, N], Z: f32[M, N]) -> (y: f32[M]):\n"
        "    m[i] = max(t) X[i, t]\n    l[i] = sum(t) exp(X[i, t] - m[i])\n"
        "    n[i] = min(t) Z[i, t]\n    r[i] = sum(t) exp2((n[i] - Z[i, t]) * 0.5)\n    y[i] = l[i] / r[i] + m[i] * n[i]\n",
        PARTS.format("m, l, n, r"),
    ),
    "cross entropy on top of a product": (
        "op f[M, N, K](A: f32[M, K], W: f32[N, K]) -> (y: f32[M]):\n    z[i, t] = sum(k) A[i, k] * W[t, k]\n"
        "    m[i] = max(t) z[i, t]\n    l[i] = sum(t) exp(z[i, t] - m[i])\n    y[i] = m[i] + log(l[i])\n",
        PARTS.format("m, l").replace(" / compute", " / keep z in register / compute"),
    ),
    "two reduced indices": (
        "op f[M, N, K](X: f32[M, N, K]) -> (y: f32[M]):\n    m[i] = max(t, u) X[i, t, u]\n"
        "    l[i] = sum(t, u) exp(X[i, t, u] - m[i])\n    y[i] = m[i] + log(l[i])\n",
        PARTS.format("m, l"),
    ),
    "reduced indices that are fused": (
        "op f[M, N, K](X: f32[M, N, K]) -> (y: f32[M]):\n    m[i] = max(t, u) X[i, t, u]\n"
        "    l[i] = sum(t, u) exp(X[i, t, u] - m[i])\n    y[i] = m[i] + log(l[i])\n",
        "fuse t, u as w / " + PARTS.format("m, l").replace("t:", "w:"),
    ),
    "free indices that are fused": (
        "op f[M, K, N](X: f32[M, K, N]) -> (y: f32[M, K]):\n    m[i, u] = max(t) X[i, u, t]\n"
        "    l[i, u] = sum(t) exp(X[i, u, t] - m[i, u])\n    y[i, u] = m[i, u] + log(l[i, u])\n",
        "fuse i, u as w / " + PARTS.format("m, l").replace("tile i: 4", "tile w: 4"),
    ),
    "f16": ("op f[M, N](X: f16[M, N]) -> (y: f16[M]):\n    m[i] = max(t) X[i, t]\n" + LSE, PARTS.format("m, l")),
    "f64": ("op f[M, N](X: f64[M, N]) -> (y: f64[M]):\n    m[i] = max(t) X[i, t]\n" + LSE, PARTS.format("m, l")),
    "another name for the statistic": (
        "op f[M, N](X: f32[M, N]) -> (y: f32[M]):\n    m[i] = max(t) X[i, t]\n    n[i] = m[i] * 2.0\n"
        "    l[i] = sum(t) exp(X[i, t] * 2.0 - n[i])\n    y[i] = n[i] + log(l[i])\n",
        PARTS.format("m, l"),
    ),
    "another result of both": (
        "op f[M, N, D](X: f32[M, N], V: f32[N, D]) -> (o: f32[M, D], y: f32[M]):\n    m[i] = max(t) X[i, t]\n"
        "    l[i] = sum(t) exp(X[i, t] - m[i])\n    o[i, d] = (sum(t) exp(X[i, t] - m[i]) * V[t, d]) / l[i]\n"
        "    y[i] = m[i] + log(l[i])\n",
        PARTS.format("m, l, o").replace(" / compute", " / tile d: 4 / compute"),
    ),
    "a domain": (
        "op f[M, N](X: f32[M, N]) -> (y: f32[M]):\n    x[i, t] where t <= i = X[i, t] * 2.0\n"
        "    m[i] = max(t) x[i, t]\n    l[i] = sum(t) exp(x[i, t] - m[i])\n    y[i] = m[i] + log(l[i])\n",
        PARTS.format("m, l"),
    ),
    "a root": (
        "op f[M, N](X: f32[M, N]) -> (y: f32[M]):\n    m[i] = max(t) X[i, t]\n    y[i] = sum(t) sqrt(exp(X[i, t] - m[i]))\n",
        PARTS.format("m, y"),
    ),
    "a row": (
        "op f[N](X: f32[N]) -> (y: f32[]):\n    m = max(t) X[t]\n    l = sum(t) exp(X[t] - m)\n    y = m + log(l)\n",
        PARTS.format("m, l").replace("tile i: 4 -> core / ", ""),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("name", "target"), rotated(OPS, ("cpu:generic", "cpu:avx2", "emulate:sm_80", "emulate:gfx90a")))
def test_ops(name: str, target: str) -> None:
    op, lines = OPS[name]
    lines = lines.replace("-> core", "-> block") if "emulate" in target else lines
    text = op + written(lines).replace(" where D <= 8", " where D <= 8" if "[M, N, D]" in op else "")
    kernel = compile(text, op="f", schedule="s", target=target)
    declared = loads(text).ops["f"]
    rng = np.random.default_rng(5)
    for sizes in ((5, 37, 3), (40, 50, 2), (1, 1, 1), (3, 0, 2), (2, 9, 5)):
        names = [v.name for v in declared.dims]
        dims = {v: n for v, n in zip("MN", sizes, strict=False) if v in names} | {v: sizes[2] for v in names if v in "KD"}
        shapes = [tuple(e.evaluate(dims) for e in t.shape) for t in declared.inputs]
        given = [(rng.standard_normal(s) * 3).astype(t.dtype.numpy) for s, t in zip(shapes, declared.inputs, strict=True)]
        found, results = reference(declared, exact=True)(*given), kernel(*given)
        several = len(declared.outputs) > 1
        for result, (value, bound) in zip(results if several else [results], found if several else [found], strict=True):
            result = np.asarray(result).astype(float)
            np.testing.assert_array_equal(np.isnan(result), np.isnan(value))
            np.testing.assert_array_equal(np.isfinite(result), np.isfinite(value))
            some = np.isfinite(value)
            assert (np.abs(result[some] - value[some]) <= bound[some]).all()


# ---------------------------------------------------------------- what is refused

REFUSED = {
    "schedule-online: parts of a pass are corrected before they are added, and atomics add them as they are": (
        "tile i: 4 -> core / tile t: 16 -> core online by atomic / keep m, l, o in register / tile t: 8 online"),
    "schedule-online: no line below has the loop of each part of `t`": (
        "tile i: 4 -> core / tile t: 16 -> core online by workspace / keep m, l, o in register / tile t: 8"),
    "schedule-online: `o` and `m` of a part have loops of their own: a pass has one": (
        "tile i: 4 -> core / tile t: 16 -> core online by workspace / keep m, l in register / tile d: 4 / keep o in register"
        " / tile t: 8 online"),
    "schedule-not-yet: units of `core` cannot combine running values here: accumulators are open above": (
        "tile i: 4 / keep m, l, o in register / tile t: 64 online / tile t: 16 -> core online by workspace / tile t: 8 online"),
    "schedule-tile-size: an online tile has 8 elements or more, not 4": (
        "tile i: 4 -> core / tile t: 4 -> core online by workspace / keep m, l, o in register / tile t: 8 online"),
    "schedule-cannot-meet: `l` reads `m` in the launch that makes parts of it, before they are combined": (
        "tile i: 4 -> core / tile t: 16 -> core by workspace / keep m, l, o in register / tile t: 8 online"),
}  # fmt: skip


@pytest.mark.parametrize("message", REFUSED)
def test_refused(message: str) -> None:
    with pytest.raises(UserError) as refused:
        program_of(text_of(REFUSED[message]), "cpu:avx2")
    assert f"{refused.value.id}: {refused.value.message}" == message
    assert refused.value.span is not None
    assert refused.value.help


def test_what_reads_results_of_a_whole_row_has_another_launch() -> None:
    text = (
        "op f[M, N](X: f32[M, N]) -> (Y: f32[M, N]):\n    m[i] = max(t) X[i, t]\n    l[i] = sum(t) exp(X[i, t] - m[i])\n"
        "    Y[i, t] = exp(X[i, t] - m[i]) / l[i]\n"
    ) + written(PARTS.format("m, l")).replace(" where D <= 8", "")
    with pytest.raises(UserError) as refused:
        program_of(text, "cpu:avx2")
    assert refused.value.message == (
        "`Y` reads results of the pass in the launch that makes parts of them, before they are combined"
    )


def test_masked_parts() -> None:
    """Parts in which nothing counts have the factor 0, wherever they are, also where the others are far below 0."""
    text = text_of(CPU_PARTS["parts"])
    kernel = compile(text, op="f", schedule="s", target="cpu:generic")
    x, v = arrays(8, 80, 3)
    x[0, :64], x[1, 16:], x[2, 16:48], x[3] = -INF, -INF, -INF, -INF
    x[4, :16], x[4, 16:] = -INF, -200
    v[:16] *= 1e6
    agrees(kernel(x, v), x, v, text, finite=False)


def test_the_lines_are_printed_and_read_again() -> None:
    made = program_of(text_of(GPU_PARTS["threads"]), "sm_80")
    assert "tile t: 24 -> block online by workspace\n" in made.schedule
    again = program_of(ROWS.format(exp="exp") + made.schedule, "sm_80")
    assert again.schedule == made.schedule


def test_tiles_that_the_pass_has_not() -> None:
    """They are tiles of what reads its results, and another nest of the same line."""
    text = """op f[K, M, N](A: f32[K, M], C: f32[M, N]) -> (y: f32[N, M]):
    m = min(j, k) A[k, j]
    l = sum(j, k) exp(m - A[k, j])
    y[g, d] = l + C[d, g]
schedule s for f:
    tile d: 8 -> core
    tile k: 16 -> core online by workspace
    keep m in register
    keep l in register
    tile k: 8 online
    auto
"""
    op = specialise(loads(text).ops["f"], {"K": 5, "M": 17, "N": 3})
    program = program_of(text, "cpu:generic", op).program
    a, c = np.random.default_rng(0).standard_normal((5, 17)), np.zeros((17, 3))
    got = interpret(program, {"A": a.astype(np.float32), "C": c.astype(np.float32)}, finite={"core": 3})
    np.testing.assert_allclose(got["y"], np.full((3, 17), np.exp(a.min() - a).sum()), rtol=1e-5)
