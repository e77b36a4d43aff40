"""An index and an integer of a tensor are compared in 32 bits where the index fits, and right at the ends of these."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.emit.printers import emit
from andiron.codegen.pipeline import compile_program
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import specialise
from andiron.runtime.compile import compile

OPS = """
op chosen[M, N](Z: f32[M, N], L: {type}[M]) -> (Y: f32[M]):
    Y[i] = sum(j) where(j == L[i], Z[i, j], 0)
op above[M, N](Z: f32[M, N], L: {type}[M]) -> (Y: f32[M]):
    Y[i] = sum(j) where(j + {more} > L[i], Z[i, j], 0)
"""
LABELS = (0, 4, -1, 2**31 - 1, -(2**31), 5, 2)


def text(op: str, type: str, more: int, sizes: dict[str, int]) -> str:
    module = loads(OPS.format(type=type, more=more))
    program = compile_program(module, specialise(module.ops[op], sizes), None, module.device("cpu:avx2")).program
    return emit(program, "cpp")


def test_numbers_of_32_bits() -> None:
    known = {"M": 40, "N": 70}
    assert "i64x" not in text("chosen", "i32", 0, known)
    assert "i64x" not in text("above", "i32", 2**30, known)
    assert "i64x" in text("above", "i32", 2**31 - 5, known)  # the index may be too large
    assert "i64x" in text("chosen", "i64", 0, known)


@pytest.mark.every_second
@pytest.mark.parametrize("target", ["cpu:generic", "cpu", "emulate:sm_80"])
@pytest.mark.parametrize("more", [0, 2**31 - 5])
def test_results(target: str, more: int) -> None:
    """Of labels that no element has, and of the least and the largest numbers."""
    rng = np.random.default_rng(0)
    labels = np.array(LABELS, np.int32)
    for n in (0, 1, 5, 37):
        z = rng.standard_normal((len(labels), n), dtype=np.float32)
        at = np.arange(n)[None, :]
        chosen, above = (compile(OPS.format(type="i32", more=more), op=op, target=target) for op in ("chosen", "above"))
        np.testing.assert_array_equal(chosen(z, labels), np.where(at == labels[:, None].astype(int), z, 0).sum(1))
        want = np.where(at + more > labels[:, None].astype(int), z.astype(float), 0).sum(1)
        np.testing.assert_allclose(above(z, labels), want, rtol=1e-5, atol=1e-5)
