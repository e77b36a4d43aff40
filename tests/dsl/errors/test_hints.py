"""What newcomers write from habit is told what it is called here."""

from __future__ import annotations

import andiron
import pytest
from andiron.dsl.errors import UserError
from andiron.tools.checks.compile_schedules import check_schedules

VECTOR = "op f[N](X: f32[N]) -> (Y: f32[N]):\n    Y[i] = {}\n"


@pytest.mark.parametrize(
    ("text", "way"),
    [
        (VECTOR.format("X[i] if X[i] > 0 else 0"), "`where(condition, a, b)`"),
        (VECTOR.format("X[i]**2"), "`pow(x, 2.0)`"),
        (VECTOR.format("X[i] * X[k]"), "as in `sum(k) ...`"),
        ("op f(X: f32[N]) -> (Y: f32[N]):\n    Y[i] = X[i]\n", "`op f[N](...)`"),
        ("op f[N](X: float32[N]) -> (Y: f32[N]):\n    Y[i] = X[i]\n", "did you mean `f32`?"),
        ("op f[N](X: f32[N]) -> (Y: f32[]):\n    Y[] += X[i]\n", "`C[m, n] = sum(k) A[m, k] * B[k, n]`"),
        ("device d extends sm_8:\n    units 4\n", "did you mean `sm_8"),
        ("device d extends sm_80:\n    levl block: at most 512 threads\n", "did you mean `level`?"),
        ("device d extends sm_80:\n    memory shared of block: 128 kilobytes\n", "write `128 KiB`"),
        ("device d extends sm_80:\n    level block: 4\n", "`finite 8`"),
    ],
)
def test_the_help_names_it(text, way):
    with pytest.raises(UserError) as found:
        andiron.loads(text)
    assert way in str(found.value)


def test_an_instruction_of_other_types_says_which():
    text = "op g[M, N, K](A: f16[M, K], B: f16[K, N]) -> (C: f32[M, N]):\n    C[m, n] = sum(k) f32(A[m, k]) * f32(B[k, n])\n"
    text += "schedule s for g on sm_80:\n    tile m: 16, n: 8 -> block\n    compute with mma_m16n8k8_tf32\n"
    with pytest.raises(UserError, match="it takes tf32; the operands here are f16"):
        andiron.compile(text, schedule="s", target="cuda:sm_80")


def test_a_long_line_shows_that_it_goes_on():
    many = " + ".join(["X[i]"] * 40)
    with pytest.raises(UserError) as caught:
        andiron.loads(f"op f[N](X: f32[N]) -> (Y: f32[N]):\n    Y[i] = {many} + Q[i] + {many}\n")
    line, carets = str(caught.value).splitlines()[2:4]
    assert line.startswith("2 | ...")
    assert line.endswith("...")
    assert line[carets.index("^")] == "Q"
    assert len(line) < 130


def test_a_reduction_inside_a_statement_is_named():
    text = "import std.ops.norm\nschedule s for layernorm on sm_80 where N <= 1024:\n    tile i: 1 -> block\n"
    module = andiron.loads(text + "    keep mean in register by shuffle\n    tile j: 1 every 128 -> thread\n")
    (error,) = check_schedules(module)
    assert error.help == "the reduction in its statement is `mean.sum1`: keep that"
