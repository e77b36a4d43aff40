"""A tensor multiplied with itself: both operands are one tensor, read at different subscripts."""

from __future__ import annotations

import andiron
import numpy as np
import pytest
from andiron.dsl.errors import UserError

from ..support.cpp.build import run_here, skip_unless_run_here
from ..support.rotation import rotated

pytestmark = pytest.mark.usefixtures("first_choices")

CPUS = ("cpu:generic", "cpu:avx2", "cpu:avx512")
ROWS = "C[i, j] = sum(k) A[i, k] * A[j, k]"
OPS = {
    "rows": ("A: f32[M, K]", "f32[M, M]", [ROWS], lambda a: a @ a.T),
    "columns": ("A: f32[M, K]", "f32[K, K]", ["C[i, j] = sum(m) A[m, i] * A[m, j]"], lambda a: a.T @ a),
    "square": ("A: f32[M, M]", "f32[M, M]", ["C[i, j] = sum(k) A[i, k] * A[k, j]"], lambda a: a @ a),
    "batch": (
        "A: f32[2, M, K]",
        "f32[2, M, M]",
        ["C[b, i, j] = sum(k) A[b, i, k] * A[b, j, k]"],
        lambda a: a @ a.transpose(0, 2, 1),
    ),
    "epilogue": (
        "A: f32[M, K]",
        "f32[M, M]",
        [ROWS.replace("C", "s"), "C[i, j] = max(s[i, j], 0.0) + 1.0"],
        lambda a: np.maximum(a @ a.T, 0) + 1,
    ),
    "a copy": (
        "A: f32[M, K]",
        "f32[M, M]",
        ["B[j, k] = A[j, k]", "C[i, j] = sum(k) A[i, k] * B[j, k]"],
        lambda a: a @ a.T,
    ),
    "a turned copy": (
        "A: f32[M, K]",
        "f32[M, M]",
        ["B[k, j] = A[j, k]", "C[i, j] = sum(k) A[i, k] * B[k, j]"],
        lambda a: a @ a.T,
    ),
    "halves": (
        "A: f16[M, K]",
        "f32[M, M]",
        ["C[i, j] = sum(k) f32(A[i, k]) * f32(A[j, k])"],
        lambda a: a.astype("f4") @ a.T.astype("f4"),
    ),
    "both ways": (
        "A: f32[M, M]",
        "f32[M, M]",
        [ROWS.replace("C", "s"), "t[i, j] = sum(k) A[k, i] * A[k, j]", "C[i, j] = s[i, j] - t[i, j]"],
        lambda a: a @ a.T - a.T @ a,
    ),
}


def text(name: str) -> str:
    inputs, result, lines, _ = OPS[name]
    sizes = ", ".join(n for n in ("M", "K") if n in inputs)
    return f"op g[{sizes}]({inputs}) -> (C: {result}):\n" + "".join(f"    {x}\n" for x in lines)


def checked(name: str, kernel, sizes=((1, 1), (37, 53), (64, 96), (130, 7), (5, 0), (0, 3))) -> None:
    inputs, *_, formula = OPS[name]
    for m, k in sizes:
        k = k if "K" in inputs else m
        a = np.random.default_rng(m + k).integers(-4, 5, (2, m, k) if "2, M" in inputs else (m, k))
        a = a.astype(np.float16 if "f16" in inputs else np.float32)
        want = formula(a)
        got = np.full(want.shape, np.nan, np.float32)
        kernel(a, out=got)
        assert np.array_equal(got, want), (name, m, k)


@pytest.mark.parametrize(("name", "target"), rotated(OPS, run_here(*CPUS)))
def test_cpus(name, target):
    skip_unless_run_here(target)
    checked(name, andiron.compile(text(name), target=target))


@pytest.mark.parametrize("lines", ["tile k: 4\n    compute", "tile i: 4, j: 8\n    compute", "tile i: 8 -> core\n    compute"])
def test_a_second_product_is_chosen_where_lines_schedule_the_first(lines):
    """The factors of the one that is chosen have names, although the lines speak of none."""
    skip_unless_run_here("cpu:avx2")
    text = "op f[N, K](A: f32[N, K], B: f32[N, K]) -> (C: f32[N, N]):\n"
    text += "    C[i, j] = (sum(k) A[i, k] * A[j, k]) + (sum(k) B[i, k] * B[j, k])\n"
    kernel = andiron.compile(text + f"schedule s for f:\n    {lines}\n", schedule="s", target="cpu:avx2")
    rng = np.random.default_rng(0)
    for n, k in [(37, 19), (1, 1), (0, 3), (3, 0)]:
        a, b = (rng.integers(-3, 4, (n, k)).astype(np.float32) for _ in "ab")
        np.testing.assert_array_equal(kernel(a, b), a @ a.T + b @ b.T)
    again = andiron.compile(text + kernel.schedule, schedule="s", target="cpu:avx2")
    assert again.source == kernel.source


@pytest.mark.every_second
@pytest.mark.parametrize("target", ["emulate:sm_80", "emulate:gfx90a"])
@pytest.mark.parametrize("name", ["rows", "columns", "square", "halves"])
def test_gpus(name, target):
    checked(name, andiron.compile(text(name), target=target), [(37, 19)])


@pytest.mark.parametrize("target", ["cpu:avx2", "emulate:sm_80"])
def test_the_schedule_is_one(target):
    """What was chosen is text, and that text is taken again and says the same."""
    if target.startswith("cpu:"):
        skip_unless_run_here(target)
    kernel = andiron.compile(text("rows"), target=target)
    assert "move C.right" in kernel.schedule
    again = andiron.compile(text("rows") + kernel.schedule.split("schedule g_auto_few")[0], target=target)
    checked("rows", again, [(37, 53)])


STAGED = """
schedule staged for g on sm_80:
    tile i: 32, j: 32 -> block
    keep C in register
    tile k: 16
    LINES
    tile i: 4, j: 4 -> thread
    compute
"""


def test_lines_say_which_of_the_two():
    lines = "move C.left -> shared\n    move C.right -> shared"
    kernel = andiron.compile(text("rows") + STAGED.replace("LINES", lines), target="emulate:sm_80", schedule="staged")
    assert kernel.source.count("__shared__") or "c_left" in kernel.source.lower()
    checked("rows", kernel, [(37, 53), (1, 1)])


def test_one_name_for_both_is_refused_where_it_is_written():
    with pytest.raises(UserError) as found:
        andiron.compile(text("rows") + STAGED.replace("LINES", "move A -> shared"), target="cuda:sm_80", schedule="staged")
    error = found.value
    assert error.id == "schedule-layout"
    assert error.span is not None
    assert error.span.source.line(error.span.line).strip() == "move A -> shared"
    assert "C.left" in (error.help or "")
