"""Elementwise maps, transposition, reductions and row kernels on arrays larger than the caches, beside plain C loops.

The yardstick of each is the loop with the same traffic: reading; reading one array and writing one; reading two, writing one.

    python benchmarks/memory.py --threads 1
    python benchmarks/memory.py --threads 2 --only transpose,softmax --sizes 4096 8192
"""

from __future__ import annotations

from common import READ, SCALE, TRIAD, compare, machine, options, plain_loops, wanted

# name -> (module of the standard library, kind of traffic, bytes for each element of the largest array)
MAPS = {"relu_map": ("elementwise", SCALE), "add": ("elementwise", TRIAD), "axpy": ("elementwise", TRIAD),
        "gelu_map": ("elementwise", SCALE)}  # fmt: skip
MATRICES = {"transpose": ("tensor", SCALE), "row_sum": ("reduce", READ), "col_sum": ("reduce", READ),
            "full_sum": ("reduce", READ), "row_max": ("reduce", READ), "row_argmax": ("reduce", READ),
            "softmax": ("norm", SCALE), "layernorm": ("norm", SCALE), "rmsnorm": ("norm", SCALE)}  # fmt: skip


def main() -> None:
    args = options(str(__doc__), [4096, 8192])
    import andiron
    import numpy as np

    print(machine(), f"target {args.target}, threads {args.threads}", sep="\n")
    plain = plain_loops()
    rng = np.random.default_rng(0)
    for name in wanted(args, [*MAPS, *MATRICES]):
        module, kind = (MAPS | MATRICES)[name]
        kernel = andiron.compile(f"import std.ops.{module}\n", op=name, target=args.target, threads=args.threads)
        for size in args.sizes:
            n = size * size
            inputs = []
            for t in kernel.op.inputs:
                shape = () if not t.shape else (n,) if name in MAPS else (size, size) if len(t.shape) == 2 else (size,)
                inputs.append(np.asarray(rng.standard_normal(shape, dtype=np.float32) if shape else np.float32(0.5)))
            out = kernel(*inputs)
            a, b, y = inputs[0 if inputs[0].size == n else 1], inputs[-1], np.empty(n, np.float32)
            b = b if b.size == n else a
            pointers = [x.ctypes.data for x in (y, a, b)]
            theirs = lambda kind=kind, p=pointers, n=n: plain(kind, *p, n, args.threads)  # noqa: E731
            mine = lambda kernel=kernel, inputs=inputs, out=out: kernel(*inputs, out=out)  # noqa: E731
            seconds, other, ratio = compare(mine, theirs, args.repeat)
            traffic = 4 * n * (kind + 1) / 1e9
            print(
                f"{name:12} {size:5}^2  {traffic / seconds:7.1f} GB/s  plain loop {traffic / other:7.1f} GB/s  ratio {ratio}",
                flush=True,
            )


if __name__ == "__main__":
    main()
