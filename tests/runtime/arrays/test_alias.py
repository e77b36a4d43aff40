"""Which inputs `out` may be: those read only where the result is written."""

import pytest
from andiron.runtime.arrays.alias import may_alias

CASES = [
    ("op f[N](X: f32[N], Y: f32[N]) -> (Z: f32[N]):\n    Z[i] = X[i] + Y[i]\n", "X", True),
    # The epilogue of a product reads C once, where it is written; A and B are read again and again.
    (
        "op f[M, N, K](A: f32[M, K], B: f32[K, N], C: f32[M, N]) -> (D: f32[M, N]):\n"
        "    D[m, n] = (sum(k) A[m, k] * B[k, n]) + 2.0 * C[m, n]\n",
        "C",
        True,
    ),
    ("op f[N](A: f32[N, N], B: f32[N, N]) -> (D: f32[N, N]):\n    D[m, n] = sum(k) A[m, k] * B[k, n]\n", "A", False),
    # Under a reduction the element is read again after others were written.
    ("op f[N](X: f32[N, N], C: f32[N, N]) -> (D: f32[N, N]):\n    D[m, n] = sum(k) X[m, k] * C[m, n]\n", "C", False),
    ("op f[N](X: f32[N, N]) -> (Y: f32[N, N]):\n    Y[i, j] = X[j, i]\n", "X", False),
    ("op f[N](X: f32[N]) -> (Y: f32[N]):\n    Y[i] = X[i] + X[i + 1 else 0.0]\n", "X", False),
    ("op f[N](X: f32[N]) -> (Y: f32[N]):\n    Y[i] = X[N - 1 - i]\n", "X", False),
    # Other element, other type, other shape.
    ("op f[N](X: f16[N]) -> (Y: f32[N]):\n    Y[i] = f32(X[i])\n", "X", False),
    ("op f[N](X: i32[N]) -> (Y: f32[N]):\n    Y[i] = f32(X[i])\n", "X", False),
    ("op f[N](X: f32[N]) -> (Y: f32[N, N]):\n    Y[i, j] = X[i]\n", "X", False),
    # Through a pointwise intermediate at the same index, and at another one.
    ("op f[N](X: f32[N]) -> (Y: f32[N]):\n    H[i] = X[i] * 2.0\n    Y[i] = H[i] + 1.0\n", "X", True),
    ("op f[N](X: f32[N, N]) -> (Y: f32[N, N]):\n    H[i, j] = X[i, j] * 2.0\n    Y[i, j] = H[j, i] + 1.0\n", "X", False),
    # A reduced intermediate reads it too: when is the schedule's choice.
    (
        "op f[M, N](X: f32[M, N]) -> (Y: f32[M, N]):\n"
        "    top[i] = max(j) X[i, j]\n    e[i, j] = exp(X[i, j] - top[i])\n    Y[i, j] = e[i, j] / (sum(j2) e[i, j2])\n",
        "X",
        False,
    ),
    # Another output reads it.
    ("op f[N](X: f32[N]) -> (Y: f32[N], Z: f32[N]):\n    Y[i] = X[i]\n    Z[i] = X[i] + 1.0\n", "X", False),
    ("op f[N](X: f32[N], W: f32[N]) -> (Y: f32[N], Z: f32[N]):\n    Y[i] = X[i]\n    Z[i] = W[i] + 1.0\n", "X", True),
    # Not read at all.
    ("op f[N](X: f32[N], W: f32[N]) -> (Y: f32[N]):\n    Y[i] = W[i]\n", "X", True),
]


@pytest.mark.parametrize(("text", "input", "allowed"), CASES)
def test_may_alias(fakes, text, input, allowed):
    op = fakes.op(text)
    assert may_alias(op, op.outputs[0].name, input) is allowed
