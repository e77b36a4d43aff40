"""Values with several readers: computed once, named, the same results; time and text in proportion to the program."""

from __future__ import annotations

import andiron
import numpy as np
import pytest
from andiron.codegen.pipeline import compile_program
from andiron.codegen.plan import inlining
from andiron.codegen.plan.group_launches import group_launches
from andiron.dsl.module import loads
from andiron.dsl.values import Shared, walk

from ...support.count_calls import calls
from ...support.cpp.build import run_here, skip_unless_run_here
from ...support.library.cases import library
from ...support.rotation import rotated

TARGETS = (*run_here("cpu:generic", "cpu:avx2"), "emulate:sm_80", "emulate:gfx90a")
SIZES = [(3, 37), (1, 1), (5, 64), (0, 3), (2, 130)]


def squares(n: int, last: str, out: str = "i32[M, N]") -> str:
    """v0 = X * X, then v = v * v + v, n times; `last` ends it."""
    lines = ["v0[i, j] = X[i, j] * X[i, j]"]
    lines += [f"v{k}[i, j] = v{k - 1}[i, j] * v{k - 1}[i, j] + v{k - 1}[i, j]" for k in range(1, n)]
    lines.append(last.replace("@", f"v{n - 1}[i, j]"))
    return f"op g[M, N](X: i32[M, N]) -> (Y: {out}):\n" + "".join(f"    {x}\n" for x in lines)


def square(x: np.ndarray, n: int = 14) -> np.ndarray:
    v = x * x
    for _ in range(n - 1):
        v = v * v + v
    return v


def diamonds(n: int) -> str:
    lines = ["v0[i, j] = X[i, j] + 1"]
    for k in range(1, n):
        lines += [f"b{k}[i, j] = v{k - 1}[i, j] * 3", f"c{k}[i, j] = v{k - 1}[i, j] + 5"]
        lines.append(f"v{k}[i, j] = b{k}[i, j] - c{k}[i, j] * 2")
    lines.append(f"Y[i, j] = v{n - 1}[i, j]")
    return "op g[M, N](X: i32[M, N]) -> (Y: i32[M, N]):\n" + "".join(f"    {x}\n" for x in lines)


CASES = {
    "stored": (squares(14, "Y[i, j] = @ + 1"), lambda x: square(x) + 1),
    "summed": (squares(14, "Y[i] = sum(j) @ * 3", "i32[M]"), lambda x: (square(x) * 3).sum(1, dtype=np.int32)),
    "placed": (squares(14, "Y[i] = argmax(j) @", "i64[M]"), lambda x: square(x).argmax(1)),
    "diamonds": (diamonds(25), lambda x: None),
}
EPILOGUE = """
op g[M, N](X: i32[M, N], Z: i32[M]) -> (Y: i32[M]):
    s[i] = sum(j) X[i, j]
    a[i] = s[i] * s[i] + Z[i]
    b[i] = a[i] * a[i] + a[i]
    c[i] = b[i] * b[i] + b[i]
    Y[i] = c[i] * c[i] + c[i]
"""
QUOTIENTS = """
op g[M, N](X: i32[M, N]) -> (Y: i32[M, N], Z: i32[M]):
    a[i, j] = (X[i, j] * 3 + 1) / X[i, j]
    b[i, j] = (a[i, j] * a[i, j] + 7) / X[i, j] + a[i, j]
    Y[i, j] = b[i, j] * b[i, j] + b[i, j]
    Z[i] = sum(j) b[i, j] * b[i, j]
"""
TRUTH = """
op g[M, N](X: i32[M, N]) -> (Y: bool[M, N], Z: bool[M]):
    a[i, j] = (X[i, j] * X[i, j] + 3 * X[i, j] > 4) or (X[i, j] < -5)
    b[i, j] = (a[i, j] and X[i, j] > 0) or (not a[i, j] and X[i, j] < -1)
    c[i, j] = (b[i, j] and a[i, j]) or (not b[i, j] and not a[i, j])
    Y[i, j] = (c[i, j] and b[i, j]) or (not c[i, j] and a[i, j])
    Z[i] = any(j) (c[i, j] and not b[i, j])
"""
HALVES = """
op g[M, N](X: f16[M, N]) -> (Y: f16[M, N]):
    a[i, j] = f16(f32(X[i, j]) * 1.1 + f32(X[i, j]) * f32(X[i, j]))
    b[i, j] = f16(f32(a[i, j]) * 0.3 + f32(a[i, j]) * 0.7 - f32(X[i, j]))
    Y[i, j] = f16(f32(b[i, j]) * f32(b[i, j]) + f32(a[i, j]))
"""


def quotients(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    a = (x * 3 + 1) // x
    b = (a * a + 7) // x + a
    return b * b + b, (b * b).sum(1, dtype=np.int32)


def truth(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    a = (x * x + 3 * x > 4) | (x < -5)
    b = (a & (x > 0)) | (~a & (x < -1))
    c = (b & a) | (~b & ~a)
    return (c & b) | (~c & a), np.any(c & ~b, axis=1)


def halves(x: np.ndarray) -> np.ndarray:
    def f(y):
        return y.astype(np.float32)

    a = (f(x) * np.float32(1.1) + f(x) * f(x)).astype(np.float16)
    b = (f(a) * np.float32(0.3) + f(a) * np.float32(0.7) - f(x)).astype(np.float16)
    return (f(b) * f(b) + f(a)).astype(np.float16)


def folded(x: np.ndarray) -> np.ndarray:
    v = x + 1
    for _ in range(24):
        v = v * 3 - (v + 5) * 2
    return v


def numbers(m: int, n: int) -> np.ndarray:
    return np.random.default_rng(m + n).integers(-6, 6, (m, n)).astype(np.int32)


def equal(target: str, text: str, formula, inputs, sizes=SIZES) -> None:
    if target.startswith("cpu:"):
        skip_unless_run_here(target)
    kernel = andiron.compile(text, target=target)
    for size in sizes:
        args = inputs(*size)
        wants = formula(*args)
        got = kernel(*args)
        pairs = zip(got, wants, strict=True) if isinstance(wants, tuple) else [(got, wants)]
        for x, want in pairs:
            assert np.array_equal(x, want), (target, size)


@pytest.mark.parametrize(("case", "target"), rotated(CASES, TARGETS))
def test_right(case, target):
    text, formula = CASES[case]
    sizes = [s for s in SIZES if s[1] and s[0]] if case == "placed" else SIZES
    equal(target, text, folded if case == "diamonds" else formula, lambda m, n: (numbers(m, n),), sizes)


@pytest.mark.parametrize("target", TARGETS)
def test_right_behind_a_reduction(target):
    def formula(x, z):
        v = x.sum(1, dtype=np.int32)
        v = v * v + z
        for _ in range(3):
            v = v * v + v
        return v

    equal(target, EPILOGUE, formula, lambda m, n: (numbers(m, n), numbers(m, 1)[:, 0]))


@pytest.mark.parametrize("target", TARGETS)
def test_nothing_is_divided_beyond_the_edge(target):
    equal(target, QUOTIENTS, quotients, lambda m, n: (np.where(numbers(m, n) == 0, 7, numbers(m, n)).astype(np.int32),))


@pytest.mark.parametrize("target", TARGETS)
def test_truth_values(target):
    equal(target, TRUTH, truth, lambda m, n: (numbers(m, n),))


@pytest.mark.parametrize("target", TARGETS)
def test_rounded_where_the_op_rounds(target):
    equal(target, HALVES, halves, lambda m, n: (numbers(m, n).astype(np.float16),))


# ---------------------------------------------------------------- how much


def compiled(text: str, device: str):
    module = loads(text)
    return compile_program(module, module.ops["g"], None, module.device(device)).program


@pytest.mark.every_second
@pytest.mark.parametrize("device", ["cpu:avx2", "sm_80"])
@pytest.mark.parametrize("form", [lambda n: squares(n, "Y[i, j] = @"), diamonds], ids=["squares", "diamonds"])
def test_statements_cost_alike(form, device):
    """Four times the statements take about four times the calls, and the program is about four times as long."""
    compiled(form(8), device)  # what is done once is done
    work = {n: calls(lambda n=n: compiled(form(n), device)) for n in (20, 80)}
    text = {n: sum(len(line.strip()) for line in str(compiled(form(n), device)).splitlines()) for n in (20, 80)}
    assert work[80] < 6 * work[20]
    assert text[80] < 6 * text[20]


def test_long_chains_are_no_deep_ones():
    text = squares(700, "Y[i, j] = @")
    program = compiled(text, "sm_80")
    assert len(program.launches) > 1
    longest = max(len(line) for line in str(program).splitlines())
    assert longest < 1000


def test_parts_have_a_limit():
    op = loads(squares(300, "Y[i, j] = @")).ops["g"]
    parts = [
        len(v.parts) for group in group_launches(op, frozenset()) for w in group for v in walk(w.value) if isinstance(v, Shared)
    ]
    assert parts
    assert max(parts) <= inlining.MOST_PARTS


def test_the_library_shares_nothing_so_that_its_texts_stay():
    shared = [
        op.name
        for op in library().ops.values()
        for group in group_launches(op, frozenset())
        for w in group
        for value in (w.value, *(o.value for o in w.outputs))
        if any(isinstance(v, Shared) for v in walk(value))
    ]
    assert not shared


def test_what_is_read_at_its_own_indices_is_taken_as_it_is(monkeypatch):
    """A statement is read again for each value that is materialised for its readers: copies of it would be most of the work."""
    monkeypatch.setattr(inlining, "substitute", None)
    module = loads(squares(6, "Y[i, j] = @"))
    program = compile_program(module, module.ops["g"], None, module.device("cpu:avx2")).program
    assert len(program.launches) == 1
