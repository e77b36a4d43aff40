"""`tile ... online`: reductions that read a running value share its pass. On CPUs, under the emulator, in the interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.ir.printer import show
from andiron.codegen.lower.schedule_trace import show_trace
from andiron.codegen.lower.shared_loops import lower_online, running_values
from andiron.codegen.pipeline import compile_program
from andiron.dsl.errors import UserError
from andiron.dsl.errors.verify import PointNotOnce
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import specialise
from andiron.dsl.semantics.reference import reference
from andiron.runtime.compile import compile

from ....support.cpp.build import skip_unless_run_here
from ....support.programs.online_rows import (
    CPU_PASSES,
    EMPTY_OR_ONE,
    GPU_PASSES,
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


@pytest.mark.parametrize(("name", "target"), rotated(CPU_PASSES, ("cpu:generic", "cpu:avx2", "cpu:avx512")))
def test_on_cpus(name: str, target: str) -> None:
    skip_unless_run_here(target)
    text = text_of(CPU_PASSES[name])
    kernel = compile(text, op="f", schedule="s", target=target)
    kernel_agrees(kernel, text)
    assert np.isfinite(kernel(*special())[0][[0, 1, 3, 4, 8, 9, 10]]).all()


@pytest.mark.parametrize("name", GPU_PASSES)
def test_under_the_emulator(name: str) -> None:
    text = text_of(GPU_PASSES[name])
    kernel = compile(text, op="f", schedule="s", target="emulate:sm_80")
    kernel_agrees(kernel, text, SIZES[:5])


@pytest.mark.parametrize(
    ("lines", "device"),
    [(x, "cpu:avx2") for x in CPU_PASSES.values()] + [(x, "sm_80") for x in GPU_PASSES.values()],
    ids=[*CPU_PASSES, *GPU_PASSES],
)
def test_in_the_interpreter_and_once(lines: str, device: str) -> None:
    """Without races, and each element contributes once, by the right factor."""
    program_agrees(text_of(lines), device, ((5, 19, 2), (2, 0, 1), (1, 8, 4)))


@pytest.mark.parametrize(("name", "sizes"), [*rotated([*CPU_PASSES, *GPU_PASSES], EMPTY_OR_ONE), ("shared", (3, 0, 2))])
def test_sizes_that_are_fixed(name: str, sizes: tuple[int, int, int]) -> None:
    """Without elements too: no line is lowered then, and each side of a condition reads what a vector was loaded for."""
    lines, device = (CPU_PASSES[name], "cpu:avx2") if name in CPU_PASSES else (GPU_PASSES[name], "sm_80")
    text = text_of(lines).replace(" where D <= 8", "")
    module = loads(text)
    op = specialise(module.ops["f"], dict(zip("MND", sizes, strict=True)))
    program = compile_program(module, op, module.schedules["s"], module.device(device)).program
    x, v = arrays(*sizes)
    got = interpret(program, {"X": x, "V": v}, finite={level: 2 for level, _ in program.finite})
    agrees(tuple(got.values()), x, v, text)


def test_infinite_values_where_nothing_counts() -> None:
    text = text_of(CPU_PASSES["rows"])
    kernel = compile(text, op="f", schedule="s", target="cpu:generic")
    x, v = special()
    x[8:10] /= 100  # where exponentials underflow, the f64 of the reference has others
    v[2, 0], v[20, 1] = INF, np.nan
    agrees(kernel(x, v), x, v, text, finite=False)


@pytest.mark.parametrize("size", [8, 16, 64])
def test_powers_of_two_are_exact(size: int) -> None:
    """Integers, powers of two and their sums are exact, so the results are those of the reference, bit for bit."""
    rng = np.random.default_rng(size)
    text = text_of(CPU_PASSES["rows"].replace("t: 8", f"t: {size}"), "exp2")
    x = rng.integers(-4, 5, (6, 100)).astype(np.float32)
    v = rng.integers(-4, 5, (100, 5)).astype(np.float32)
    got = compile(text, op="f", schedule="s", target="cpu:generic")(x, v)
    want = reference(loads(text).ops["f"])(x, v)
    np.testing.assert_array_equal(got[1], want[1])


def test_the_number_of_threads_does_not_matter() -> None:
    text = text_of(CPU_PASSES["rows"])
    x, v = arrays(23, 60, 7)
    one, three = (compile(text, op="f", schedule="s", target="cpu:generic", threads=n)(x, v) for n in (1, 3))
    for a, b in zip(one, three, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.wrong_program
def test_a_factor_that_is_missing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def uncorrected(*args):
        computations, registers = running_values.iteration(*args)
        return tuple(w for w in computations if not getattr(w, "corrects", "")), registers

    monkeypatch.setattr(lower_online, "iteration", uncorrected)
    with pytest.raises(PointNotOnce):
        program_of(text_of(CPU_PASSES["rows"]), "cpu:avx2")


def test_one_launch_without_workspaces() -> None:
    program = program_of(text_of(GPU_PASSES["threads"]), "sm_80").program
    assert len(program.launches) == 1
    assert [b.name for b in program.buffers if b.kind == "workspace"] == []


def test_the_schedule_is_printed_with_the_word() -> None:
    text = text_of(CPU_PASSES["rows"])
    made = program_of(text, "cpu:avx2")
    assert "tile t: 8 online\n" in made.schedule
    again = program_of(ROWS.format(exp="exp") + made.schedule, "cpu:avx2")
    assert show(again.program) == show(made.program)


def test_explain_shows_the_correction() -> None:
    shown = show_trace(program_of(text_of(CPU_PASSES["rows"]), "cpu:avx2").trace)
    assert "# (N + 7)/8 tiles, one after another; l, o.sum1: times exp(m~ - m)\n" in shown
    assert "l[4] += p[4, 8] | * exp(m~ - m)" in shown


# ---------------------------------------------------------------- other ops

OPS = {
    "a nest after the pass": (
        "op f[M, N](X: f32[M, N]) -> (Y: f32[M, N]):\n    m[i] = max(t) X[i, t]\n    l[i] = sum(t) exp(X[i, t] - m[i])\n"
        "    Y[i, t] = exp(X[i, t] - m[i]) / l[i]\n",
        "tile i: 4 -> core / keep m, l in register / tile t: 8 online / compute",
    ),
    "two statistics, a maximum and a minimum": (
        "op f[M, N](X: f32[M, N], Z: f32[M, N]) -> (y: f32[M]):\n"
        "    m[i] = max(t) X[i, t]\n    l[i] = sum(t) exp(X[i, t] - m[i])\n"
        "    n[i] = min(t) Z[i, t]\n    r[i] = sum(t) exp2((n[i] - Z[i, t]) * 0.5)\n    y[i] = l[i] / r[i] + m[i] * n[i]\n",
        "tile i: 4 -> core / keep m, l, n, r in register / tile t: 8 online / compute",
    ),
    "cross entropy on top of a product": (
        "op f[M, N, K](A: f32[M, K], W: f32[N, K], c: i32[M]) -> (y: f32[M]):\n    z[i, t] = sum(k) A[i, k] * W[t, k]\n"
        "    m[i] = max(t) z[i, t]\n    l[i] = sum(t) exp(z[i, t] - m[i])\n    g[i] = sum(t) where(c[i] == t, z[i, t], 0.0)\n"
        "    y[i] = m[i] + log(l[i]) - g[i]\n",
        "tile i: 4 -> core / keep m, l, g in register / tile t: 8 online / keep z in register / compute",
    ),
    "two reduced indices": (
        "op f[M, N, K](X: f32[M, N, K]) -> (y: f32[M]):\n    m[i] = max(t, u) X[i, t, u]\n"
        "    l[i] = sum(t, u) exp(X[i, t, u] - m[i])\n    y[i] = m[i] + log(l[i])\n",
        "tile i: 4 -> core / keep m, l in register / tile t: 8 online / compute",
    ),
    "reduced indices that are fused": (
        "op f[M, N, K](X: f32[M, N, K]) -> (y: f32[M]):\n    m[i] = max(t, u) X[i, t, u]\n"
        "    l[i] = sum(t, u) exp(X[i, t, u] - m[i])\n    y[i] = m[i] + log(l[i])\n",
        "fuse t, u as w / tile i: 4 -> core / keep m, l in register / tile w: 8 online / compute",
    ),
    "free indices that are fused": (
        "op f[M, K, N](X: f32[M, K, N]) -> (y: f32[M, K]):\n    m[i, u] = max(t) X[i, u, t]\n"
        "    l[i, u] = sum(t) exp(X[i, u, t] - m[i, u])\n    y[i, u] = m[i, u] + log(l[i, u])\n",
        "fuse i, u as w / tile w: 4 -> core / keep m, l in register / tile t: 8 online / compute",
    ),
    "f16": (
        "op f[M, N](X: f16[M, N]) -> (y: f16[M]):\n    m[i] = max(t) X[i, t]\n    l[i] = sum(t) exp(X[i, t] - m[i])\n"
        "    y[i] = m[i] + log(l[i])\n",
        "tile i: 4 -> core / keep m, l in register / tile t: 8 online / compute",
    ),
    "f64": (
        "op f[M, N](X: f64[M, N]) -> (y: f64[M]):\n    m[i] = max(t) X[i, t]\n    l[i] = sum(t) exp(X[i, t] - m[i])\n"
        "    y[i] = m[i] + log(l[i])\n",
        "tile i: 4 -> core / keep m, l in register / tile t: 8 online / compute",
    ),
    "another name for the statistic": (
        "op f[M, N](X: f32[M, N]) -> (y: f32[M]):\n    m[i] = max(t) X[i, t]\n    n[i] = m[i] * 2.0\n"
        "    l[i] = sum(t) exp(X[i, t] * 2.0 - n[i])\n    y[i] = n[i] + log(l[i])\n",
        "tile i: 4 -> core / keep m, l in register / tile t: 8 online / compute",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("name", "target"), rotated(OPS, ("cpu:generic", "cpu:avx2")))
def test_ops(name: str, target: str) -> None:
    op, lines = OPS[name]
    text = op + written(lines).replace(" where D <= 8", "")
    kernel = compile(text, op="f", schedule="s", target=target)
    declared = loads(text).ops["f"]
    rng = np.random.default_rng(5)
    for sizes in ((5, 37, 3), (4, 16, 2), (1, 1, 1), (3, 0, 2), (2, 9, 5)):
        dims = {v.name: n for v, n in zip(declared.dims, sizes, strict=False)}
        shapes = [tuple(e.evaluate(dims) for e in t.shape) for t in declared.inputs]
        given = [(rng.standard_normal(s) * 3).astype(t.dtype.numpy) for s, t in zip(shapes, declared.inputs, strict=True)]
        value, bound = reference(declared, exact=True)(*given)
        result = kernel(*given).astype(float)
        np.testing.assert_array_equal(np.isfinite(result), np.isfinite(value))
        some = np.isfinite(value)
        assert (np.abs(result[some] - value[some]) <= bound[some]).all()


# ---------------------------------------------------------------- what is refused

LSE = (
    "op f[M, N](X: f32[M, N], W: f32[M], c: i32[N]) -> (y: f32[M]):\n    m[i] = max(t) {x}\n    e[i, t] = exp({e})\n"
    "    l[i] = {sum}(t) {l}\n    y[i] = m[i] + log(l[i])\n"
)
PLAIN = {"x": "X[i, t]", "e": "X[i, t] - m[i]", "sum": "sum", "l": "e[i, t]"}
KEPT = "tile i: 4 -> core / keep m, l in register / tile t: 8 online"
REFUSED = {
    "schedule-online: `l` cannot follow `m` in one pass: it makes a choice by the running value": (
        {"l": "where(X[i, t] < m[i], e[i, t], 0)"}, KEPT),
    "schedule-online: in this launch no reduction over `t` reads the result of another one over it": (
        {}, "tile i: 4 -> core / tile t: 8 online"),
    "schedule-not-yet: an element that does not count for `m` (-inf) is not known to add 0 to `l`": (
        {"e": "(X[i, t] - m[i]) * W[i]"}, KEPT),
    "schedule-not-yet: the correction of `l` is not known to be a number for each value of `m`": (
        {"l": "e[i, t] * m[i]"}, KEPT),
    "schedule-not-yet: an element that makes `m` nan is not known to make `l` nan, as its correction does": (
        {"l": "where(X[i, t] > 0.0, e[i, t], 0.0)"}, KEPT),
    "schedule-not-yet: an element that makes `m` inf is not known to make `l` nan, as its correction does": (
        {"x": "X[i, t] * X[i, t]"}, KEPT),
    "schedule-not-yet: `l` is a `max` of f32: as what follows a running value it is not lowered yet": (
        {"l": "(X[i, t] - m[i])", "sum": "max"}, KEPT),
    "schedule-not-yet: `l` is kept below the online tile: running values are kept around it": (
        {}, "tile i: 4 -> core / keep m in register / tile t: 8 online / keep l in register"),
    "schedule-not-yet: `online` tiles of several indices are not lowered yet": (
        {}, "tile i: 4 -> core / keep m, l in register / tile t: 8, i: 1 online"),
    "schedule-modifier-argument: no reduction over `i`: there are no running values": ({}, "tile i: 8 online"),
    "schedule-not-yet: units of `core` cannot combine running values here: accumulators are open above": (
        {}, "tile i: 4 / keep m, l in register / tile t: 64 -> core online by workspace"),
    "schedule-tile-size: an online tile has 8 elements or more, not 4": (
        {}, "tile i: 4 -> core / keep m, l in register / tile t: 4 online"),
    "schedule-unbounded-tile: `m` is open around the tiles of `t`, and the number of its elements is not known, or more than"
    " registers hold": ({}, "keep m, l in register / tile t: 8 online / tile i: 4 -> core"),
    "schedule-not-computed: `l` reads `e` in the pass that computes `m`, and no line below keeps it there": (
        {}, "tile i: 4 -> core / keep m, l in register / keep e in l2 / tile t: 8 online"),
}  # fmt: skip


@pytest.mark.parametrize("message", REFUSED)
def test_refused(message: str) -> None:
    changes, lines = REFUSED[message]
    text = LSE.format(**(PLAIN | changes)) + written(lines).replace("D <= 8", "N <= 64")
    with pytest.raises(UserError) as refused:
        program_of(text, "cpu:avx2")
    assert f"{refused.value.id}: {refused.value.message}" == message
    assert refused.value.span is not None
    assert refused.value.help


@pytest.mark.parametrize(
    ("line", "where"), [("tile t: 8 online", "above"), ("tile t: 64 -> core online by workspace", "below")]
)
def test_where_the_results_of_a_pass_are_kept(line: str, where: str) -> None:
    text = LSE.format(**PLAIN) + written(line).replace("D <= 8", "N <= 64")
    with pytest.raises(UserError, match="no reduction over `t` reads the result of another one") as refused:
        program_of(text, "cpu:avx2")
    assert f"{where} this line" in (refused.value.help or "")


def test_a_running_value_is_not_stored() -> None:
    """The exponentials are an output, so they need the statistic of the whole row."""
    text = (
        "op f[M, N](X: f32[M, N]) -> (Y: f32[M, N]):\n    m[i] = max(t) X[i, t]\n    e[i, t] = exp(X[i, t] - m[i])\n"
        "    l[i] = sum(t) e[i, t]\n    Y[i, t] = e[i, t] / l[i]\n"
    ) + written("tile i: 4 -> core / keep m, l in register / tile t: 8 online / keep e in register").replace(
        " where D <= 8", ""
    )
    with pytest.raises(UserError) as refused:
        program_of(text, "cpu:avx2")
    assert refused.value.message == "`e` is computed from a running value of `m`, and read outside of the pass"


@pytest.mark.parametrize("shape", [(5, 37), (1, 1), (3, 0), (0, 4)], ids=str)
def test_a_root_is_corrected(shape):
    text = """
op f[M, N](X: f32[M, N]) -> (Y: f32[M]):
    m[i] = max(t) X[i, t]
    Y[i] = sum(t) sqrt(exp(X[i, t] - m[i]))
schedule s for f:
    tile i: 2 -> core
    keep m, Y in register
    tile t: 8 online
"""
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32) * 3
    expected = np.sqrt(np.exp(x - x.max(1, initial=-np.inf)[:, None])).sum(1)
    np.testing.assert_allclose(compile(text, target="cpu:generic")(x), expected, rtol=1e-5)
