"""Ops in Python text: as a decorator, and as a string.

python examples/embed.py
"""

import andiron
import numpy as np


@andiron.kernel("""
op blur[M, N](X: f32[M, N]) -> (Y: f32[M, N]):
    Y[i, j] = (X[i, j - 1 else 0] + 2.0 * X[i, j] + X[i, j + 1 else 0]) / 4
""")
def blur(X):
    """Smooths the rows of a picture. The function's name, signature and docstring stay; its body is the op."""


rmsnorm = andiron.op("""
op rmsnorm[M, N](X: f32[M, N], gain: f32[N]) -> (Y: f32[M, N]):
    square[i] = (sum(j) X[i, j] * X[i, j]) / N
    Y[i, j] = X[i, j] * rsqrt(square[i] + 0.000001) * gain[j]

schedule rows for rmsnorm:
    tile i: 1 -> core
    keep square in register
    auto
""")

X = np.random.default_rng(0).random((4, 9), dtype=np.float32)
Y = blur(X)
padded = np.pad(X, ((0, 0), (1, 1)))
assert np.allclose(Y, (padded[:, :-2] + 2 * padded[:, 1:-1] + padded[:, 2:]) / 4)
print(blur.__name__, "-", blur.__doc__)

gain = np.ones(9, np.float32)
assert np.allclose(rmsnorm(X, gain), X / np.sqrt((X**2).mean(1, keepdims=True) + 1e-6), atol=1e-5)
print(rmsnorm)

# The output may be an input that the op reads only at the place being written.
scale = andiron.op("op scale[N](X: f32[N]) -> (Y: f32[N]):\n    Y[i] = 2.0 * X[i]\n")
x = np.arange(5, dtype=np.float32)
scale(x, out=x)
print(x)
