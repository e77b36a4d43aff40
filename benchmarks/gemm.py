"""Matrix products beside NumPy's BLAS, at several sizes.

python benchmarks/gemm.py --threads 1
python benchmarks/gemm.py --threads 2 --target cpu:avx2 --schedules std.schedules.gemm
"""

from __future__ import annotations

from common import compare, machine, options, wanted

OPS = {  # name -> (what NumPy computes, the axes of A and B)
    "gemm": (lambda np, a, b, c: np.matmul(a, b, out=c), "mk", "kn"),
    "gemm_tn": (lambda np, a, b, c: np.matmul(a.T, b, out=c), "km", "kn"),
    "gemm_nt": (lambda np, a, b, c: np.matmul(a, b.T, out=c), "mk", "nk"),
    "gemm_tt": (lambda np, a, b, c: np.matmul(a.T, b.T, out=c), "km", "nk"),
    "gemm_f64": (lambda np, a, b, c: np.matmul(a, b, out=c), "mk", "kn"),
}


def main() -> None:
    args = options(str(__doc__), [16, 32, 64, 128, 256, 512, 1024, 2048])
    import andiron
    import numpy as np

    print(machine(), f"target {args.target}, threads {args.threads}", sep="\n")
    text = "import std.ops.gemm\nimport std.schedules.gemm\n"
    rng = np.random.default_rng(0)
    for name in wanted(args, list(OPS)):
        kernel = andiron.compile(text, op=name, target=args.target, threads=args.threads)
        product = OPS[name][0]
        for n in args.sizes:
            dtype = np.float64 if name.endswith("f64") else np.float32
            a, b = (rng.standard_normal((n, n)).astype(dtype) for _ in range(2))
            c, d = np.empty((n, n), dtype), np.empty((n, n), dtype)
            mine = lambda kernel=kernel, a=a, b=b, c=c: kernel(a, b, out=c)  # noqa: E731
            theirs = lambda product=product, a=a, b=b, d=d: product(np, a, b, d)  # noqa: E731
            seconds, other, ratio = compare(mine, theirs, args.repeat)
            assert np.allclose(c, d, atol=1e-2), name
            rate = 2e-9 * n**3
            print(f"{name:9} {n:5}^3  {rate / seconds:7.1f} GFLOP/s  NumPy {rate / other:7.1f}  ratio {ratio}", flush=True)


if __name__ == "__main__":
    main()
