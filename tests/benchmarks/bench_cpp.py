# ruff: noqa: B023 - the closures are called before the loop goes on
"""Hand-written tile programs in C++ against NumPy, interleaved. Run as a script:

python tests/benchmarks/bench_cpp.py [avx2|avx512]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np
from andiron.codegen.abi import symbol
from andiron.codegen.emit.printers import emit

sys.path.insert(0, __file__.rpartition("/benchmarks/")[0])

from cpp_build import build, machine_has
from cpp_programs import elementwise, gemm, transpose


def timed(ways: dict[str, Callable[[], object]], times: int = 7) -> dict[str, float]:
    """Seconds, the median of interleaved runs. A pause before each lets the threads of the one before go to sleep."""
    seen: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(times):
        for name, f in ways.items():
            time.sleep(0.05)
            f()
            start = time.perf_counter()
            f()
            seen[name].append(time.perf_counter() - start)
    return {name: float(np.median(v)) for name, v in seen.items()}


def caller(program, machine: str, arrays, dims):
    import ctypes

    function = build(emit(program), symbol(program), "gcc", machine)
    pointers = (ctypes.c_void_p * len(arrays))(*[a.ctypes.data for a in arrays])
    values = (ctypes.c_int64 * len(dims))(*dims)
    return lambda threads: function(pointers, values, threads)


def main(machine: str) -> None:
    width, rows = (16, 14) if machine == "avx512" else (8, 6)
    for n in (128, 256, 512, 1024, 2048):
        a, b = (np.random.rand(n, n).astype("f") for _ in range(2))
        c, d = np.empty_like(a), np.empty_like(a)
        ours = caller(gemm(width, rows), machine, (a, b, c), (n, n, n))
        ways = {"1 thread": lambda: ours(1), "2 threads": lambda: ours(2), "numpy": lambda: np.matmul(a, b, out=d)}
        print(f"sgemm {n}:", *(f"{name} {2 * n**3 / t / 1e9:.0f}" for name, t in timed(ways).items()), "GFLOP/s")
        assert np.allclose(c, d, rtol=1e-4)
    x = np.random.rand(1 << 24).astype("f")
    y = np.empty_like(x)
    for fn in ("", "exp", "gelu"):
        ours = caller(elementwise(width, fn), machine, (x, y), (x.size,))
        ways = {"1 thread": lambda: ours(1), "numpy": lambda: np.exp(x, out=y) if fn else np.copyto(y, x)}
        print(f"{fn or 'copy'}:", *(f"{name} {2 * x.nbytes / t / 1e9:.1f}" for name, t in timed(ways).items()), "GB/s")
    a = np.random.rand(4096, 4096).astype("f")
    b = np.empty_like(a)
    ours = caller(transpose(width), machine, (a, b), a.shape)
    ways = {"1 thread": lambda: ours(1), "2 threads": lambda: ours(2), "numpy": lambda: np.copyto(b, a.T)}
    print("transpose:", *(f"{name} {2 * a.nbytes / t / 1e9:.1f}" for name, t in timed(ways).items()), "GB/s")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "avx512" if machine_has("avx512") else "avx2")
