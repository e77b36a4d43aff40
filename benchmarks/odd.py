"""Odd sizes beside even ones, and narrow types beside f32, by the time that the processor spends on one thread.

    python benchmarks/odd.py --target cpu:avx2
    OPENBLAS_CORETYPE=Haswell python benchmarks/odd.py --target cpu:avx2 --only product

Each op is compiled for odd sizes, for the even sizes next to them, and with its sizes open. All of them, and NumPy's where it
has the like (matrix products), are called by turns in one process. A line tells the microseconds of the call with odd sizes,
and three ratios of speeds, in points of the op's loops a second: over the even sizes, over the open ones at the same odd sizes,
over NumPy; above 1 the odd, fixed sizes are faster. Medians over the rounds. The group `narrow` compares i8 and f16 with f32 at
the same sizes instead.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from math import exp, log, prod
from statistics import median
from typing import Any

from common import machine, processor_time, set_threads

OWN = """
op depthwise_nhwc[N, C, H, W, R, S](I: f32[N, H, W, C], F: f32[R, S, C], stride: int = 1, pad: int = 1)
        -> (Y: f32[N, P, Q, C])
        where P = (H + 2*pad - R) / stride + 1, Q = (W + 2*pad - S) / stride + 1:
    Y[n, p, q, c] = sum(r, s) I[n, p*stride + r - pad, q*stride + s - pad, c else 0] * F[r, s, c]

op causal_conv1d[B, T, D, K](X: f32[B, T, D], W: f32[D, K]) -> (Y: f32[B, T, D]):
    Y[b, t, d] = sum(k) X[b, t + k - 3, d else 0] * W[d, k]

op causal_conv1d_last[B, D, T, K](X: f32[B, D, T], W: f32[D, K]) -> (Y: f32[B, D, T]):
    Y[b, d, t] = sum(k) X[b, d, t + k - 3 else 0] * W[d, k]

op conv2d_nhwc_i8[N, C, H, W, O, R, S](I: i8[N, H, W, C], F: i8[O, R, S, C], stride: int = 1, pad: int = 0)
        -> (Y: i32[N, P, Q, O])
        where P = (H + 2*pad - R) / stride + 1, Q = (W + 2*pad - S) / stride + 1:
    Y[n, p, q, o] = sum(r, s, c) i32(I[n, p*stride + r - pad, q*stride + s - pad, c else 0]) * i32(F[o, r, s, c])
"""
MODULES = ("gemm", "conv", "pool", "stencil", "norm", "elementwise", "reduce", "tensor")
Sizes = dict[str, int]

PRODUCTS = (
    (997, 1000, 1000), (997, 997, 997), (511, 513, 515), (255, 257, 259), (127, 129, 131), (1023, 129, 1025),
    (129, 1023, 257), (1025, 33, 511), (37, 1001, 999), (301, 777, 1111), (641, 1283, 319), (63, 65, 67),
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    group: str
    op: str
    odd: Sizes
    even: Sizes
    params: Sizes

    @property
    def name(self) -> str:
        return f"{self.op} " + " ".join(str(n) for n in (self.odd | self.params).values())


def even(n: int) -> int:
    """The even neighbour: whole vectors, where there are several."""
    return (n + 4) // 8 * 8 if n > 8 else n if n < 4 else n // 2 * 2


def cases() -> Iterator[Case]:
    def case(group: str, op: str, params: Sizes | None = None, **odd: int) -> Case:
        same = {"N", "R", "S", "K", "B"} if group not in ("product", "rows", "stencil", "map", "permute") else set()
        return Case(group, op, odd, {k: n if k in same else even(n) for k, n in odd.items()}, params or {})

    for m, n, k in PRODUCTS:
        yield case("product", "gemm", M=m, N=n, K=k)
    for op in ("gemm_f64", "gemm_nt", "gemm_tn"):
        yield case("product", op, M=511, N=513, K=515)
    for c, h, o, r in ((63, 57, 65, 3), (127, 27, 129, 3), (255, 15, 257, 3), (65, 55, 63, 1), (3, 223, 63, 7)):
        strided = {"stride": 2 if r == 7 else 1, "pad": r // 2}
        yield case("conv", "conv2d", strided, N=1, C=c, H=h, W=h, O=o, R=r, S=r)
        yield case("conv", "conv2d_nhwc", strided, N=1, C=c, H=h, W=h, O=o, R=r, S=r)
    yield case("conv", "conv2d_nhwc", {"stride": 1, "pad": 1}, N=1, C=16, H=32, W=32, O=33, R=3, S=3)
    for c, h, s in ((63, 57, 1), (127, 55, 2), (511, 15, 1)):
        yield case("depthwise", "depthwise_conv2d", {"stride": s, "pad": 1}, N=1, C=c, H=h, W=h, R=3, S=3)
        yield case("depthwise", "depthwise_nhwc", {"stride": s, "pad": 1}, N=1, C=c, H=h, W=h, R=3, S=3)
    yield case("causal", "causal_conv1d", B=1, T=513, D=1023, K=4)
    yield case("causal", "causal_conv1d_last", B=1, D=1023, T=513, K=4)
    yield case("causal", "conv1d", {"pad": 1}, N=1, C=63, W=513, O=65, S=3)
    for op in ("max_pool2d", "avg_pool2d"):
        yield case("pool", op, {"size": 2, "stride": 2}, N=1, C=63, H=113, W=113)
        yield case("pool", op, {"size": 3, "stride": 2, "pad": 1}, N=1, C=63, H=113, W=113)
        yield case("pool", op, {"size": 3, "stride": 1, "pad": 1}, N=1, C=63, H=57, W=57)
    yield case("pool", "global_avg_pool2d", N=1, C=257, H=29, W=29)
    yield case("pool", "upsample2d", N=1, C=63, H=57, W=57)
    yield case("stencil", "stencil3", N=1_000_001)
    for op in ("stencil5", "jacobi2d", "blur3x3"):
        yield case("stencil", op, M=1023, N=1025)
    yield case("stencil", "stencil7", L=63, M=65, N=67)
    for op in ("softmax", "layernorm", "rmsnorm", "row_sum", "col_sum", "full_sum", "row_argmax"):
        yield case("rows", op, M=1023, N=1025)
        yield case("rows", op, M=4097, N=127)
    yield case("map", "transpose", M=1023, N=1025)
    yield case("map", "add_row", M=1023, N=1025)
    yield case("map", "gelu_map", N=1_000_001)
    yield case("rows", "col_max", M=255, N=257)
    for op in ("permute_021", "permute_102", "permute_120", "permute_201", "permute_210"):
        yield case("permute", op, A=31, B=129, C=255)  # results stay in caches, and go past them
        yield case("permute", op, A=127, B=129, C=255)


NARROW = (  # op, the same in f32, sizes, params
    ("gemm_i8", "gemm", {"M": 512, "N": 512, "K": 512}, {}),
    ("gemm_f16_f32", "gemm", {"M": 512, "N": 512, "K": 512}, {}),
    ("gemm_i8", "gemm", {"M": 511, "N": 513, "K": 515}, {}),
    ("gemm_f16_f32", "gemm", {"M": 511, "N": 513, "K": 515}, {}),
    *(
        (op, f32, {"N": 1, "C": c, "H": h, "W": h, "O": o, "R": r, "S": r}, {"stride": 1, "pad": r // 2})
        for c, h, o, r in ((64, 56, 64, 3), (128, 28, 128, 3), (64, 56, 64, 1), (63, 57, 65, 3))
        for op, f32 in (
            ("conv2d_i8", "conv2d"), ("conv2d_f16", "conv2d"), ("conv2d_nhwc_i8", "conv2d_nhwc"),
            ("conv2d_nhwc_f16", "conv2d_nhwc"),
        )
    ),
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--repeat", type=int, default=9, help="rounds")
    parser.add_argument("--only", default="", help="groups or ops, separated by commas")
    args = parser.parse_args()
    set_threads(1)
    import andiron

    print(machine(), f"target {args.target}, 1 thread, medians of {args.repeat} rounds", sep="\n", flush=True)
    module = andiron.loads("".join(f"import std.ops.{x}\n" for x in MODULES) + OWN)
    wanted = {x for x in args.only.split(",") if x}
    rows: dict[str, list[dict[str, float]]] = {}
    print(f"{'':58} {'us':>9}  even  open NumPy")
    for c in cases():
        if not wanted or wanted & {c.group, c.op}:
            rows.setdefault(c.group, []).append(r := measured(module, c, args.target, args.repeat))
            print(
                f"{c.name:58} {r['us']:9.1f}" + "".join(f" {r[k]:5.2f}" for k in ("even", "open", "numpy") if k in r),
                flush=True,
            )
    for group, found in rows.items():
        told = []
        for key in ("even", "open", "numpy"):
            x = [r[key] for r in found if key in r]
            told += [f"over {key}: geometric mean {exp(sum(map(log, x)) / len(x)):.2f}, worst {min(x):.2f}"] if x else []
        print(f"{group}: " + "; ".join(told))
    for op, wide, sizes, params in NARROW:
        if not wanted or wanted & {"narrow", op}:
            kernels = [built(module, x, args.target, sizes | params) for x in (op, wide)]
            times = processor_time([called(k, sizes) for k in kernels], args.repeat)
            name = f"{op} " + " ".join(str(n) for n in (sizes | params).values())
            print(
                f"{name:58} {median(t[0] for t in times) * 1e6:9.1f}  f32 {median(t[1] / t[0] for t in times):.2f}", flush=True
            )


def measured(module: Any, c: Case, target: str, rounds: int) -> dict[str, float]:
    """Microseconds of a call with odd sizes, and ratios of speeds."""
    fixed, near = (built(module, c.op, target, x | c.params) for x in (c.odd, c.even))
    free = built(module, c.op, target, c.params)
    calls = [called(fixed, c.odd), called(near, c.even), called(free, c.odd)]
    if c.op == "gemm":
        calls.append(product(c.odd))
    times = processor_time(calls, rounds)
    ours, theirs = points(fixed, c.odd), points(near, c.even)
    out = {
        "us": median(t[0] for t in times) * 1e6,
        "even": median(t[1] * ours / (t[0] * theirs) for t in times),
        "open": median(t[2] / t[0] for t in times),
    }
    return out | ({"numpy": median(t[3] / t[0] for t in times)} if c.op == "gemm" else {})


def built(module: Any, op: str, target: str, sizes: Sizes) -> Any:
    import andiron

    return andiron.compile(module, op=op, target=target, threads=1, **sizes)  # pyright: ignore[reportArgumentType]


def called(kernel: Any, sizes: Sizes) -> Any:
    from andiron.runtime.random_inputs import random_inputs

    inputs = random_inputs(kernel.op, sizes)
    out = kernel(*inputs)
    return lambda: kernel(*inputs, out=out)


def product(sizes: Sizes) -> Any:
    import numpy as np

    rng = np.random.default_rng(0)
    m, n, k = sizes.values()
    a, b, c = (rng.standard_normal(s).astype(np.float32) for s in ((m, k), (k, n), (m, n)))
    return lambda: np.matmul(a, b, out=c)


def points(kernel: Any, sizes: Sizes) -> int:
    """Points of the loops of all statements."""

    every = kernel.op.all_sizes(sizes)
    return sum(prod(e.evaluate(every) for _, e in s.ranges) for s in kernel.op.statements)


if __name__ == "__main__":
    main()
