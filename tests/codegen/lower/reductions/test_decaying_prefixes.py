"""`tile i: ... carry` where terms depend on the row: what goes on is multiplied by a correction.

On CPUs, under the emulator, in the interpreter, against loops over rows and terms.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import pytest
from andiron.codegen.interpret.machine import Fault, interpret
from andiron.codegen.lower.reductions import carried_totals, lower_carry
from andiron.codegen.pipeline import compile_program
from andiron.codegen.plan.derived_names import EarlierRow, LastRow
from andiron.codegen.verify import check_once
from andiron.codegen.verify.field_elements import ValueBudgetExceeded
from andiron.dsl.errors import UserError
from andiron.dsl.module import loads
from andiron.dsl.semantics.reference import reference
from andiron.runtime.compile import compile

from ....support.cpp.build import skip_unless_run_here
from ....support.interpreted import WORK, written
from ....support.rotation import rotated

Arrays = dict[str, np.ndarray]
SCALED = carried_totals.scaled_before


@dataclass(frozen=True)
class Case:
    """`sum(j where ...) term`, the factor of X[j] in row i, and the shift of the domain."""

    term: str
    factor: Callable[[Arrays, int, int], float]
    shift: int = 0

    @property
    def statement(self) -> str:
        bound = f"j <= i + {self.shift}" if self.shift >= 0 else f"j <= i - {-self.shift}"
        return f"sum(j where {bound}) {self.term}"


def log_gates(v: Arrays, i: int, j: int) -> float:
    return np.exp(v["g"][i] - v["g"][j])


def powers(v: Arrays, i: int, j: int) -> float:
    return float(v["c"]) ** (i - j)


def quotient(v: Arrays, i: int, j: int) -> float:
    return v["a"][i] / v["a"][j]


DECAYS = {
    "log gates": Case("exp(g[i] - g[j]) * X[j]", log_gates),
    "log gates, not the own term": Case("exp(g[i] - g[j]) * X[j]", log_gates, -1),
    "log gates, later": Case("exp(g[i] - g[j]) * X[j]", log_gates, -13),
    "log gates, ahead": Case("X[j] * exp(g[i] - g[j])", log_gates, 3),
    "two exponentials": Case("exp(g[i]) / exp(g[j]) * X[j]", log_gates),
    "base 2": Case("exp2((g[i] - g[j]) * 0.5) * X[j]", lambda v, i, j: 2.0 ** ((v["g"][i] - v["g"][j]) / 2)),
    "powers": Case("pow(c, i - j) * X[j]", powers),
    "powers, ahead": Case("pow(c, i - j) * X[j]", powers, 11),
    "a rate": Case("exp(-(c * (i - j))) * X[j]", lambda v, i, j: np.exp(-float(v["c"]) * (i - j))),
    "a quotient": Case("a[i] / a[j] * X[j]", quotient),
    "a quotient, not the own term": Case("a[i] * X[j] / a[j]", quotient, -1),
    "a quotient, later": Case("a[i] / a[j] * X[j]", quotient, -2),
    "a function of the row": Case("tanh(a[i]) * X[j]", lambda v, i, j: np.tanh(v["a"][i])),
    "in the exponent": Case(
        "exp(tanh(g[i]) - tanh(g[j])) * X[j]", lambda v, i, j: np.exp(np.tanh(v["g"][i]) - np.tanh(v["g"][j]))
    ),
    "the row's number": Case("(-(X[j] * (i + 1)))", lambda v, i, j: -(i + 1.0)),
    "a factor of a sum": Case("(a[i] * X[j] - X[j] * a[i] * a[j])", lambda v, i, j: v["a"][i] * (1 - v["a"][j])),
    "all of them": Case(
        "a[i] * exp(g[i] - g[j]) * pow(c, i - j) * X[j]", lambda v, i, j: v["a"][i] * log_gates(v, i, j) * powers(v, i, j)
    ),
}  # fmt: skip


def text_of(case: Case, lines: str = "", rows: bool = False) -> str:
    head = "op f[M, N](X: f32[M, N], g: f32[N], a: f32[N], c: f32[]) -> (P: f32[M, N]):\n    P[r, i] = "
    if not rows:
        head = head.replace("[M, N]", "[N]").replace("[r, i]", "[i]")
    body = case.statement.replace("X[j]", "X[r, j]") if rows else case.statement
    used = [t for t in ("g", "a") if f"{t}[" in body] + (["c"] if "(c" in body else [])
    for t, declared in (("g", ", g: f32[N]"), ("a", ", a: f32[N]"), ("c", ", c: f32[]")):
        head = head if t in used else head.replace(declared, "")
    return f"{head}{body}\n" + (f"schedule s for f:\n{written(lines)}" if lines else "")


def arrays_of(text: str, shape: tuple[int, ...], seed: int = 0) -> Arrays:
    """Decreasing log gates, as cumulative sums of logarithms are; factors near 1; positive and negative terms."""
    rng, n = np.random.default_rng(seed), shape[-1]
    found = {
        "X": rng.standard_normal(shape),
        "g": -np.cumsum(rng.uniform(0, 0.4, n)),
        "a": rng.uniform(0.5, 2, n),
        "c": np.array(0.9),
    }
    return {t.name: found[t.name].astype(np.float32) for t in loads(text).ops["f"].inputs}


def expected(case: Case, v: Arrays) -> tuple[np.ndarray, np.ndarray]:
    """Row by row and term by term, and the sum of the terms' sizes."""
    x = v["X"].astype(np.float64)
    wide = {n: a.astype(np.float64) for n, a in v.items()}
    out, size = np.zeros_like(x), np.zeros_like(x)
    for i in range(x.shape[-1]):
        for j in range(min(i + case.shift + 1, x.shape[-1])):
            term = case.factor(wide, i, j) * x[..., j]
            out[..., i] += term
            size[..., i] += np.abs(term)
    return out, size


def close(got: np.ndarray, case: Case, v: Arrays) -> None:
    want, size = expected(case, v)
    n = want.shape[-1] if want.ndim else 0
    assert got.shape == want.shape
    assert (np.abs(got - want) <= (10 * n + 40) * 2.0**-24 * (size + 1e-30) * 4).all()


CPU = {
    "a tile": "tile i: 8 carry",
    "elements": "tile i: 1 carry",
    "peeled": "tile i: 5 carry peel",
    "lanes": "tile i: 8 carry unroll 2 / tile i: 1 -> lane",
    "kept": "tile i: 16 carry / keep P in register / tile j: 4 / tile i: 1 -> lane",
    "parts": "tile i: 16 carry / tile j: 1 -> lane",
}
GPU = {
    "threads": "tile i: 64 carry / tile i: 1 -> thread",
    "parts in warps": "tile i: 32 carry / tile i: 2 -> warp / tile j: 1 -> thread",
}
CPU_ROWS = {
    "rows in lanes": "tile r: 8 -> core / tile i: 1 carry / tile r: 1 -> lane",
    "staged": "tile r: 8 -> core / tile i: 8 carry / move X -> l1 / tile i: 1 / tile r: 1 -> lane",
    "in a cache": "tile r: 4 -> core / tile i: 16 carry / keep P in l1 / tile j: 4 / tile i: 1 -> lane",
}
GPU_ROWS = {
    "a row a thread": "tile r: 32 -> block / tile i: 4 carry / tile r: 1 -> thread",
    "threads have parts": "tile r: 1 -> block / tile i: 64 carry / tile j: 1 -> thread",
    "kept in shared": "tile r: 32 -> block / tile i: 8 carry / move X -> shared / keep P in shared / tile r: 1 -> thread",
    "copies run ahead": "tile r: 32 -> block / tile i: 8 carry / move X -> shared pipeline 3 / tile r: 1 -> thread",
}
GATES_STAGED = {
    "on a GPU": "tile r: 32 -> block / tile i: 8 carry / move g -> shared / tile r: 1 -> thread",
    "ahead": "tile r: 32 -> block / tile i: 8 carry / move g -> shared pipeline 2 / tile r: 1 -> thread",
    "on a CPU": "tile r: 8 -> core / tile i: 8 carry / move g -> l1 / tile r: 1 -> lane",
}
SIZES = (0, 1, 7, 8, 37)
SHAPES = ((0, 3), (3, 0), (1, 1), (9, 41))


def interpreted(case: Case, lines: str, device: str, shape: tuple[int, ...]) -> None:
    rows = len(shape) == 2
    text = text_of(case, lines, rows)
    module = loads(text)
    program = compile_program(module, module.ops["f"], module.schedules["s"], module.device(device)).program
    v = arrays_of(text, shape)
    sizes = dict(zip("MN" if rows else "N", shape, strict=True))
    close(interpret(program, v, sizes, {"core": 2})["P"], case, v)
    with suppress(ValueBudgetExceeded):
        check_once(program, module.ops["f"], sizes, {"core": 2}, work=WORK)


@pytest.mark.parametrize(("name", "lines"), rotated(DECAYS, [*CPU, *GPU]))
def test_right(name: str, lines: str) -> None:
    for n in SIZES:
        interpreted(DECAYS[name], {**CPU, **GPU}[lines], "cpu:avx2" if lines in CPU else "sm_80", (n,))


@pytest.mark.parametrize(
    ("lines", "name"), rotated([*CPU_ROWS, *GPU_ROWS], ["log gates", "powers", "a quotient", "all of them"])
)
def test_rows_are_right(lines: str, name: str) -> None:
    for shape in SHAPES:
        interpreted(DECAYS[name], {**CPU_ROWS, **GPU_ROWS}[lines], "cpu:avx2" if lines in CPU_ROWS else "sm_80", shape)


@pytest.mark.parametrize("lines", GATES_STAGED)
def test_gates_are_staged_with_that_of_the_row_before_the_tile(lines: str) -> None:
    for shape in SHAPES:
        interpreted(DECAYS["log gates"], GATES_STAGED[lines], "cpu:avx2" if "CPU" in lines else "sm_80", shape)


def kernel_of(case: Case, lines: str, target: str, rows: bool = False):
    return compile(text_of(case, lines, rows), op="f", schedule="s", target=target)


@pytest.mark.parametrize(("name", "lines"), rotated(DECAYS, [*CPU]))
def test_on_cpus(name: str, lines: str) -> None:
    """With outputs that hold no number before, and within the bound that `andiron run` states."""
    target = "cpu:avx2"
    skip_unless_run_here(target)
    case = DECAYS[name]
    kernel, op = kernel_of(case, CPU[lines], target), loads(text_of(case)).ops["f"]
    for n in (0, 1, 9, 67):
        v = arrays_of(text_of(case), (n,))
        out = np.full((n,), np.nan, np.float32)
        kernel(*v.values(), out=out)
        close(out, case, v)
        exact, bound = reference(op, exact=True)(*v.values())
        assert (np.abs(out - exact) <= bound).all()


@pytest.mark.parametrize(("lines", "name"), rotated([*GPU, *GPU_ROWS], ["log gates", "powers", "a quotient, not the own term"]))
def test_under_the_emulator(lines: str, name: str) -> None:
    rows, case = lines in GPU_ROWS, DECAYS[name]
    kernel = kernel_of(case, {**GPU, **GPU_ROWS}[lines], "emulate:sm_80", rows)
    for shape in ((3, 0), (1, 1), (35, 41)) if rows else ((0,), (1,), (131,)):
        v = arrays_of(text_of(case, rows=rows), shape)
        close(kernel(*v.values()), case, v)


def test_bounds_count_a_correction_for_each_term() -> None:
    """A tile may have one row."""
    case, n = DECAYS["log gates"], 60
    v = arrays_of(text_of(case), (n,))
    _, bound = reference(loads(text_of(case)).ops["f"], exact=True)(*v.values())
    assert (bound >= 10 * n * 2.0**-24 * expected(case, v)[1]).all()


def test_gates_that_fall_out_of_the_range_of_their_exponentials() -> None:
    """Neither `exp(g[i])` nor `exp(-g[j])` is a number that f32 has, their product is."""
    skip_unless_run_here("cpu:generic")
    case, n = DECAYS["log gates"], 200
    kernel = kernel_of(case, CPU["a tile"], "cpu:generic")
    v = {"X": np.ones(n, np.float32), "g": (-3.0 * np.arange(n)).astype(np.float32)}
    close(kernel(*v.values()), case, v)


def test_integers_have_factors_of_the_row() -> None:
    """They leave the sum, which wraps as its terms do."""
    skip_unless_run_here("cpu:generic")
    op = "op f[N](X: i32[N], a: i32[N]) -> (P: i32[N]):\n    P[i] = sum(j where j <= i) a[i] * X[j]\n"
    text = f"{op}schedule s for f:\n{written(CPU['a tile'])}"
    kernel = compile(text, op="f", schedule="s", target="cpu:generic")
    rng = np.random.default_rng(0)
    x, a = (rng.integers(-(2**31), 2**31, 41).astype(np.int32) for _ in range(2))
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(kernel(x, a), a * np.cumsum(x, dtype=np.int32))


def test_a_factor_that_is_zero_is_not_divided_by() -> None:
    """Row 8 belongs to what the second tile goes on from."""
    skip_unless_run_here("cpu:generic")
    case = DECAYS["a factor of a sum"]
    kernel = kernel_of(case, CPU["a tile"], "cpu:generic")
    v = arrays_of(text_of(case), (30,))
    v["a"][[0, 7, 8, 15]] = 0
    close(kernel(*v.values()), case, v)


def test_a_quotient_is_not_of_rows_that_no_term_divides_by() -> None:
    """There are eight terms and more rows: `a` of the others may be 0."""
    skip_unless_run_here("cpu:generic")
    op = "op f(X: f32[8], a: f32[40]) -> (P: f32[20]):\n    P[i] = sum(j where j <= i) a[2*i] / a[2*j] * X[j]\n"
    kernel = compile(f"{op}schedule s for f:\n{written(CPU['elements'])}", op="f", schedule="s", target="cpu:generic")
    x, a = np.ones(8, np.float32), np.ones(40, np.float32)
    a[[22, 30]] = 0
    np.testing.assert_array_equal(kernel(x, a), np.minimum(np.arange(20) + 1, 8) * a[::2])


def test_what_goes_on_is_explained() -> None:
    module = loads(text_of(DECAYS["log gates"], CPU["lanes"]))
    compiled = compile_program(module, module.ops["f"], module.schedules["s"], module.device("cpu:avx2"))
    assert any("P: from tile to tile, times exp(g[i] - g[i~])" in str(x) for x in compiled.trace)


@pytest.mark.wrong_program
@pytest.mark.parametrize("broken", ["no correction", "another row", "terms of another row"])
def test_a_correction_that_is_wrong_is_found(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    around = lower_carry.rows_around

    def scaled(before, factors, own, earlier):
        return SCALED(before, [], own, earlier)

    def moved(tile, rows, row):
        found = around(tile, rows, row)
        name, by = (EarlierRow(row), -1) if broken == "another row" else (LastRow(row), -1)
        return {**found, name: replace(found[name], base=found[name].base + by)}

    if broken == "no correction":
        monkeypatch.setattr(carried_totals, "scaled_before", scaled)
    else:
        monkeypatch.setattr(lower_carry, "rows_around", moved)
    module = loads(text_of(DECAYS["log gates"], CPU["lanes"]))
    with pytest.raises((UserError, Fault)):
        compile_program(module, module.ops["f"], module.schedules["s"], module.device("cpu:avx2"))


REFUSED = {
    "added": ("sum(j where j <= i) (X[j] + g[i])", "adds what the value of the row scales and what it does not scale alike"),
    "multiplied by a distance": (
        "sum(j where j <= i) (i - j) * X[j]",
        "`P` has a factor that subtracts what the value of the row scales and what it does not scale alike",
    ),
    "rounded": ("sum(j where j <= i) f32(i32(g[i] - X[j]))", "rounds a value of the row to i32"),
    "narrowed": ("sum(j where j <= i) f32(f16(exp(g[i] - g[j]))) * X[j]", "rounds a value of the row to f16"),
    "a narrow exponent": ("sum(j where j <= i) exp(f32(f16(g[i] - g[j]))) * X[j]", "rounds a value of the row to f16"),
    "compared": ("sum(j where j <= i) where(g[i] > X[j], X[j], 0.0)", "makes a choice by the value of the row"),
    "by its number": ("sum(j where j <= i) (X[j] + where(i > 5, X[j], 0.0))", "makes a choice by the value of the row"),
    "multiplied": ("sum(j where j <= i) exp(g[i] * X[j])", "shifts the value of the row by a factor that varies with `j`"),
    "another function": ("sum(j where j <= i) sigmoid(g[i] - X[j])", "takes `sigmoid` of a value of the row"),
    "both": ("sum(j where j <= i) T[i, j] * X[j]", "reads a value of the row at each `j`, over which it goes itself"),
    "inside": ("sum(j where j <= i) pow(X[j] * g[i] + g[i], 2.0)", "is scaled by a value of the row, which may be 0"),
    "a maximum": ("max(j where j <= i) (X[j] + g[i] - g[j])", "depend on `i`, and it is a `max`: only sums are corrected yet"),
    "an absolute value": ("sum(j where j <= i) abs(exp(g[i] - g[j]) * X[j])", "is scaled inside of `abs`"),
    "a minimum": ("sum(j where j <= i) min(exp(g[i] - g[j]) * X[j], exp(g[i]))", "is scaled inside of `min`"),
    "one of two": ("sum(j where j <= i) where(X[j] > 0.0, exp(g[i] - g[j]), 0.0)", "is scaled inside of `where`"),
    "halves": (
        "sum(j where j <= i) pow(0.5, i/2 - j/2) * X[j]",
        "has a number of the row and of `j` that is not the sum of one",
    ),
    "integers": ("f32(sum(j where j <= i) (i32(X[j]) - i32(g[i])))", "only floats are divided"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_words(name: str) -> None:
    statement, why = REFUSED[name]
    text = f"op f[N](X: f32[N], g: f32[N], T: f32[N, N]) -> (P: f32[N]):\n    P[i] = {statement}\n"
    if "T[" not in statement:
        text = text.replace(", T: f32[N, N]", "")
    if "g[" not in statement:
        text = text.replace(", g: f32[N]", "")
    module = loads(f"{text}schedule s for f:\n    tile i: 8 carry\n")
    with pytest.raises(UserError) as e:
        compile_program(module, module.ops["f"], module.schedules["s"], module.device("cpu:avx2"))
    assert why in str(e.value)
    assert "help:" in str(e.value)
