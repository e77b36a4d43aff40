"""A partial tile along lanes, of values that are the same in all of them: lanes past the end add nothing."""

from __future__ import annotations

import andiron
import numpy as np
import pytest

from ....support.cpp.build import COMPILERS

OPS = {
    "loaded": ("B[n]", lambda a, b: a.size * b),
    "computed": ("(B[n] * 2 + 1)", lambda a, b: a.size * (b * 2 + 1)),
    "kept": ("c[n]", lambda a, b: a.size * (b + 3)),
}
NUMPY = {"f32": "f4", "i32": "i4", "i64": "i8", "f64": "f8"}


@pytest.mark.every_second
@pytest.mark.skipif(not COMPILERS, reason="no C++ compiler")
@pytest.mark.parametrize("target", ["cpu:generic", "cpu:avx2"])
@pytest.mark.parametrize("dtype", NUMPY)
@pytest.mark.parametrize("name", OPS)
def test_right(name: str, dtype: str, target: str) -> None:
    value, expected = OPS[name]
    text = (
        f"op o[M, N](A: {dtype}[M], B: {dtype}[N]) -> (Y: {dtype}[N]):\n"
        f"    c[n] = B[n] + 3\n    Y[n] = sum(i: M) {value}\n"
        "schedule s for o:\n    tile n: 1\n"
        + ("    keep c in register\n" if name == "kept" else "")
        + "    keep Y in register\n    tile i: 4 vector 4\n"
    )
    kernel = andiron.compile(text, target=target, schedule="s")
    for m in (0, 1, 3, 4, 5, 11):
        for n in (0, 1, 3):
            a = np.ones(m, NUMPY[dtype])
            b = np.arange(1, n + 1).astype(NUMPY[dtype])
            out = np.full(n, 99, NUMPY[dtype])
            np.testing.assert_array_equal(kernel(a, b, out=out), expected(a, b), str((m, n)))
