"""Terms that divide by the largest magnitude of a row, in its pass: rows and tiles of zeros, tiny and huge elements."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.lower.schedule_trace import show_trace
from andiron.codegen.lower.shared_loops import running_values
from andiron.codegen.verify import check_once
from andiron.dsl.errors import UserError
from andiron.dsl.errors.verify import PointNotOnce
from andiron.dsl.module import loads
from andiron.dsl.values import Apply
from andiron.runtime.compile import compile

from ....support.cpp.build import skip_unless_run_here
from ....support.programs.online_rows import (
    CPU_PARTS,
    CPU_PASSES,
    GPU_PARTS,
    GPU_PASSES,
    INF,
    SIZES,
    arrays,
    program_of,
    written,
)
from ....support.rotation import rotated

NORM = """
op f[M, N, D](X: f32[M, N], V: f32[N, D]) -> (y: f32[M], o: f32[M, D], top: f32[M]):
    m[i] = max(t) abs(X[i, t])
    p[i, t] = X[i, t] / {by}
    l[i] = sum(t) p[i, t] * p[i, t]
    y[i] = m[i] * sqrt(l[i])
    o[i, d] = (sum(t) p[i, t] * V[t, d]) / sqrt(l[i])
    top[i] = m[i]
"""
DIVISORS = {
    "m[i]": lambda m: m,
    "max(m[i], 1e-30)": lambda m: np.maximum(m, 1e-30),
    "where(m[i] == 0.0, 1.0, m[i])": lambda m: np.where(m == 0, 1, m),
    "(m[i] + 1e-6)": lambda m: m + 1e-6,
}
CPU, GPU = (
    {f"one {k}": v for k, v in CPU_PASSES.items()} | CPU_PARTS,
    {f"one {k}": v for k, v in GPU_PASSES.items()} | GPU_PARTS,
)
OF_CPUS = rotated([(name, target) for name in CPU for target in ("cpu:generic", "cpu:avx2", "cpu:avx512")], [*DIVISORS])


def text_of(lines: str, by: str = "m[i]") -> str:
    return NORM.format(by=by) + written(lines)


def special() -> tuple[np.ndarray, np.ndarray]:
    """Rows that have the word for it in a comment, and values."""
    x, v = arrays(14, 40, 3)
    x[0, :16] = 0  # the first two tiles are zeros
    x[1, :16], x[1, 16:] = 0, 1e-12 * x[1, 16:]  # as here, and the rest is tiny
    x[2] = 0  # all are
    x[3, 8:24] = 0  # the middle
    x[4, 9:] = -0.0  # the end
    x[5, 20] = INF
    x[6, 20] = np.nan
    x[7, 3], x[7, 30] = INF, -INF
    x[8] *= 1e30
    x[9] = np.geomspace(1e-12, 1e38, 40)  # each tile corrects by much
    x[10] = np.geomspace(1e38, 1e-12, 40)
    x[11] = -0.0
    x[12, 1:] = 0  # one element
    x[13, :8], x[13, 39] = 0, np.nan
    return x, v


def formula(x: np.ndarray, v: np.ndarray, by: str) -> tuple[np.ndarray, ...]:
    """Two passes in float64."""
    x, v = x.astype(float), v.astype(float)
    with np.errstate(all="ignore"):
        m = np.abs(x).max(1, initial=-INF)
        p = x / DIVISORS[by](m)[:, None]
        norm = np.sqrt((p * p).sum(1))
        return m * norm, (p[:, :, None] * v).sum(1) / norm[:, None], m


def agrees(got, x: np.ndarray, v: np.ndarray, by: str) -> None:
    for result, expected in zip(got, formula(x, v, by), strict=True):
        np.testing.assert_array_equal(np.isnan(result), np.isnan(expected))
        np.testing.assert_allclose(result.astype(float), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("case", "by"), OF_CPUS)
def test_on_cpus(case: tuple[str, str], by: str) -> None:
    name, target = case
    skip_unless_run_here(target)
    kernel = compile(text_of(CPU[name], by), op="f", schedule="s", target=target)
    for x, v in (*(arrays(*sizes) for sizes in SIZES), special()):
        agrees(kernel(x, v), x, v, by)


@pytest.mark.parametrize(("name", "by"), rotated(GPU, [*DIVISORS]))
def test_under_the_emulator(name: str, by: str) -> None:
    kernel = compile(text_of(GPU[name], by), op="f", schedule="s", target="emulate:sm_80")
    for x, v in (*(arrays(*sizes) for sizes in SIZES[:5]), special()):
        agrees(kernel(x, v), x, v, by)


@pytest.mark.parametrize("name", [*CPU, *GPU])
def test_in_the_interpreter_and_once(name: str) -> None:
    """Without races, and each element contributes once, by the right factor."""
    lines, device = (CPU[name], "cpu:avx2") if name in CPU else (GPU[name], "sm_80")
    text = text_of(lines)
    program, op = program_of(text, device).program, loads(text).ops["f"]
    units = {"core": 2} if name in CPU else None
    x, v = special()
    for rows in (x[:5], x[5:10], x[10:], x[:2, :0]):
        values = v[: rows.shape[1]]
        sizes = dict(zip("MND", (*rows.shape, 3), strict=True))
        agrees(interpret(program, {"X": rows, "V": values}, sizes, units).values(), rows, values, "m[i]")
    check_once(program, op, {"M": 3, "N": 19, "D": 2}, units)


@pytest.mark.parametrize("width", ["f16", "f64"])
def test_other_types(width: str) -> None:
    text = f"""
op f[M, N](X: {width}[M, N]) -> (y: {width}[M]):
    m[i] = max(t) abs(X[i, t])
    l[i] = sum(t) (X[i, t] / m[i]) * (X[i, t] / m[i])
    y[i] = m[i] * sqrt(l[i])
""" + written("tile i: 4 -> core / keep m, l in register / tile t: 8 online / compute").replace(" where D <= 8", "")
    x = np.random.default_rng(3).standard_normal((9, 37)).astype(loads(text).ops["f"].inputs[0].dtype.numpy)
    x[2], x[3, :24], x[4] = 0, 0, 6e-8 if width == "f16" else 1e-310
    got = compile(text, op="f", schedule="s", target="cpu:generic")(x).astype(float)
    expected = np.linalg.norm(x.astype(np.longdouble), axis=1).astype(float)
    expected[2] = np.nan
    np.testing.assert_allclose(got, expected, rtol=2e-2 if width == "f16" else 1e-9)


@pytest.mark.wrong_program
@pytest.mark.parametrize("guard", ["corrected", "read_as_number", "result_at_the_end"])
def test_zeros_need_each_guard(monkeypatch: pytest.MonkeyPatch, guard: str) -> None:
    """Without one, rows with zeros have another result."""

    def plain(d, held, *rest):
        return Apply("mul", (held, *rest), held.dtype) if guard == "corrected" else held

    monkeypatch.setattr(running_values, guard, plain)
    program = program_of(text_of(CPU_PASSES["rows"]), "cpu:avx2").program
    x, v = special()
    got = interpret(program, {"X": x, "V": v}, {"M": 14, "N": 40, "D": 3}, {"core": 2})
    expected = formula(x, v, "m[i]")
    assert not np.allclose(got["y"][:5], expected[0][:5], rtol=1e-4, equal_nan=True)


@pytest.mark.wrong_program
def test_a_correction_that_is_missing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_values, "corrected", lambda d, held, factor: held)
    with pytest.raises(PointNotOnce):
        program_of(text_of(CPU_PASSES["rows"]), "cpu:avx2")


def test_explain_shows_the_correction() -> None:
    shown = show_trace(program_of(text_of(CPU_PASSES["rows"]), "cpu:avx2").trace)
    assert "l: times (m~ / m) * (m~ / m); o.sum1: times m~ / m" in shown


def test_a_row_whose_terms_read_zero_too_is_refused() -> None:
    """They would read 1 in its place."""
    text = NORM.format(by="m[i]").replace("top[i] = m[i]", "top[i] = sum(t) exp(abs(X[i, t]) - m[i])")
    lines = CPU_PASSES["rows"].replace("keep m, l in", "keep m, l, top in")
    with pytest.raises(UserError) as refused:
        program_of(text + written(lines), "cpu:avx2")
    assert refused.value.id == "schedule-not-yet"
    assert "`l` divides by `m`, which may be 0, and `top` reads that 0" in refused.value.message
