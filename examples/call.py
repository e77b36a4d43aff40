"""Compile an op and call it: NumPy arrays in, NumPy arrays out; `out=` reuses memory; sizes open or fixed.

python examples/call.py
"""

from pathlib import Path

import andiron
import numpy as np

HERE = Path(__file__).parent
rng = np.random.default_rng(0)

# Sizes left out stay open: one kernel takes any.
gemm = andiron.compile(HERE / "gemm.sched")
for m, n, k in [(512, 512, 512), (7, 5, 3), (1, 100, 0)]:
    A, B = rng.random((m, k), dtype=np.float32), rng.random((k, n), dtype=np.float32)
    C = gemm(A, B)
    assert np.allclose(C, A @ B, atol=1e-4)
    print(f"{m} x {n} x {k}: right")

# A size given here is built in: for any other the kernel is refused, and says why.
fixed = andiron.compile(HERE / "gemm.sched", M=64, N=64, K=64)
A, B = rng.random((64, 64), dtype=np.float32), rng.random((64, 64), dtype=np.float32)
C = np.empty((64, 64), np.float32)
assert fixed(A, B, out=C) is C  # no memory is allocated
assert np.allclose(C, A @ B, atol=1e-4)
try:
    fixed(A[:32], B)
except andiron.AndironError as error:
    print(error)

# An op means what its reference says, in higher precision.
reference = andiron.reference(andiron.load(HERE / "gemm.sched").ops["gemm"])
print("largest difference from the reference:", f"{np.abs(C - reference(A, B)).max():.1e}")

# Several results come as a tuple, and `out=` takes one.
moments = andiron.compile(HERE / "reductions.sched", op="row_moments")
mean, variance = moments(A)
assert np.allclose(mean, A.mean(1))
assert np.allclose(variance, A.var(1), atol=1e-5)
