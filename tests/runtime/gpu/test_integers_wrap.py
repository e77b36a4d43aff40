"""Integers wrap on GPUs too, whose compilers take it that signed ones do not overflow. The fake GPU is compiled like that."""

from __future__ import annotations

import andiron
import numpy as np
import pytest

from ...support.gpu import fake_gpu
from ...support.gpu.fake_gpu import on

pytestmark = pytest.mark.skipif(fake_gpu.CXX is None, reason="no g++")

VALUES = {
    "where({a} + 1 > {a}, 1, 0)": lambda a, one: np.where(a + one > a, 1, 0),
    "where({a} - 1 < {a}, 1, 0)": lambda a, one: np.where(a - one < a, 1, 0),
    "{a} * 2 / 2": lambda a, one: (a * (one + one)) // (one + one),
    "where(-{a} <= 0, 1, where({a} >= 0, 2, 3))": lambda a, one: np.where(-a <= 0, 1, np.where(a >= 0, 2, 3)),
    "where(abs({a}) >= 0, 1, 0)": lambda a, one: np.where(np.abs(a) >= 0, 1, 0),
    "{a} / -1": lambda a, one: -a,
}


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_arithmetic(gpu, dtype: type[np.signedinteger], value: str) -> None:
    name = f"i{np.dtype(dtype).itemsize * 8}"
    text = f"op f[M](A: {name}[M]) -> (Y: {name}[M]):\n    Y[m] = {value.format(a='A[m]')}\n"
    end = np.iinfo(dtype)
    a = np.array([5, end.max, end.min, -1, 0, end.max // 2 + 1, end.min + 1], dtype)
    with np.errstate(over="ignore"):
        want = VALUES[value](a, dtype(1)).astype(dtype)
    (x,) = on(a)
    np.testing.assert_array_equal(andiron.compile(text, target="cuda:sm_80")(x).host, want)


@pytest.mark.parametrize("kind", ["sum", "prod"])
def test_reductions_over_lanes(gpu, kind: str) -> None:
    text = f"op f[M, N](A: i32[M, N]) -> (Y: i32[M]):\n    Y[m] = {kind}(n) A[m, n]\n"
    text += "schedule s for f:\n    tile m: 1 -> block\n    keep Y in register by shuffle\n    tile n: 32\n"
    text += "    tile n: 1 -> thread\n    compute\n"
    a = np.random.default_rng(1).integers(-(2**31), 2**31, (3, 70)).astype(np.int32)
    (x,) = on(a)
    kernel = andiron.compile(text, schedule="s", target="cuda:sm_80")
    assert f"m_{'add' if kind == 'sum' else 'mul'}(" in kernel.source
    np.testing.assert_array_equal(kernel(x).host, getattr(a, kind)(1, dtype=np.int32))
