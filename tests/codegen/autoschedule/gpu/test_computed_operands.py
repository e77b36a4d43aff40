"""Operands that are computed where they are staged, or in fragments: what they cost, and which of both is chosen."""

from __future__ import annotations

import pytest
from andiron.codegen.autoschedule.access_model import calls
from andiron.codegen.enumerate_schedules import candidate_schedules
from andiron.dsl.module import loads
from andiron.dsl.text.print_node import format_node

from ....support.library.unscheduled import library, op_of


@pytest.mark.parametrize(("dtype", "operations"), [("tf32", 5), ("bf16", 5), ("f16", 0)])
def test_conversions_have_a_cost(dtype: str, operations: int) -> None:
    (op,) = loads(f"op f[N](X: f32[N]) -> (Y: f32[N]):\n    Y[i] = f32({dtype}(X[i])) + 1\n").ops.values()
    assert sum(c.operations for c in calls(op.statements[0].value, {})) == 1 + operations


@pytest.mark.parametrize(
    ("value", "device", "operations"),
    [
        ("exp(X[i])", "sm_80", 6),
        ("exp(X[i])", "gfx942", 6),
        ("exp(f64(X[i]))", "gfx942", 16),
        ("gelu(X[i])", "sm_90a", 29),
        ("tanh(X[i])", "cpu:avx2", 35),
        ("log(X[i])", "sm_80", 26),
        ("f32(bf16(X[i]))", "sm_80", 1),
        ("f32(bf16(X[i]))", "sm_75", 5),
        ("f32(tf32(X[i]))", "sm_80", 5),
        ("f32(tf32(X[i]))", "sm_90a", 1),
        ("exp(f64(X[i]))", "sm_80", 16),
    ],
)
def test_functions_of_a_device_cost_less(value: str, device: str, operations: int) -> None:
    kind = "f64" if "f64" in value else "f32"
    (op,) = loads(f"op f[N](X: f32[N]) -> (Y: {kind}[N]):\n    Y[i] = {value}\n").ops.values()
    made = calls(op.statements[0].value, {}, library().device(device).computes)
    assert sum(c.operations for c in made) == operations


def test_operands_are_rounded_where_they_are_staged() -> None:
    """Once for a block, and ahead, not by each warp that reads them."""
    op = op_of("gemm_tf32", {"M": 4096, "N": 4096, "K": 4096})
    text = format_node(next(candidate_schedules(op, library().device("sm_80"))).schedule)
    for line in ("move C.left -> shared", "move C.right -> shared", "pipeline 2"):
        assert line in text


@pytest.mark.parametrize("device", ["sm_80", "sm_86", "sm_90a"])
def test_integers_are_converted_once(device: str) -> None:
    """Where they are staged: in fragments, each warp would convert all that it reads, with a slow instruction."""
    op = op_of("gemm_f16_i8", {"M": 4096, "N": 4096, "K": 4096})
    text = format_node(next(candidate_schedules(op, library().device(device))).schedule)
    assert "move C.right1 -> shared" in text
    assert "move C.right1 -> register with ldmatrix" in text


@pytest.mark.parametrize(
    ("device", "n", "memory"), [("sm_80", 4096, "global"), ("sm_86", 4096, "shared"), ("sm_80", 1024, "shared")]
)
def test_narrow_floats_are_converted_once(device: str, n: int, memory: str) -> None:
    """Before the product, or where they are staged: not by each warp that reads them."""
    op = op_of("gemm_f8", {"M": n, "N": n, "K": n})
    text = format_node(next(candidate_schedules(op, library().device(device))).schedule)
    assert f"C.left {'in' if memory == 'global' else '->'} {memory}" in text
    assert "move C.left -> register with ldmatrix" in text
