"""Ops with several products or reductions as one op, beside the same as ops of their own, and beside PyTorch on a CPU.

    python benchmarks/several_products.py --emulate emulate:sm_80       # launches and bytes, by the emulator's counts; no GPU
    python benchmarks/several_products.py --target cpu:avx2             # time of one thread, by turns (`pip install torch`)

Nothing has a schedule, and sizes are known. Bytes are those that lanes ask of the outermost memory. Samples are the time that
the processor spent on this thread. A ratio is the median of the other's samples by their neighbours of the one op: above 1 the
one op is faster. Results are compared.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Any

from common import machine, processor_time, set_threads

TEXT = """
op mlp[M, K, F, N](X: {t}[M, K], W1: {t}[K, F], W2: {t}[F, N]) -> (Y: {t}[M, N]):
    A[m, f] = {t}(gelu(sum(k) f32(X[m, k]) * f32(W1[k, f])))
    Y[m, n] = sum(f) f32(A[m, f]) * f32(W2[f, n])

op mlp_up[M, K, F](X: {t}[M, K], W1: {t}[K, F]) -> (A: {t}[M, F]):
    A[m, f] = gelu(sum(k) f32(X[m, k]) * f32(W1[k, f]))

op product[M, F, N](A: {t}[M, F], W2: {t}[F, N]) -> (Y: {t}[M, N]):
    Y[m, n] = sum(f) f32(A[m, f]) * f32(W2[f, n])

op swiglu_mlp[M, K, F, N](X: {t}[M, K], Wg: {t}[K, F], Wu: {t}[K, F], W2: {t}[F, N]) -> (Y: {t}[M, N]):
    A[m, f] = {t}(silu(sum(k) f32(X[m, k]) * f32(Wg[k, f])) * (sum(k) f32(X[m, k]) * f32(Wu[k, f])))
    Y[m, n] = sum(f) f32(A[m, f]) * f32(W2[f, n])

op gated[M, F](G: {t}[M, F], U: {t}[M, F]) -> (A: {t}[M, F]):
    A[m, f] = silu(f32(G[m, f])) * f32(U[m, f])

op two_convolutions[N, C, O, P, H, W](X: {t}[N, C, H, W], F: {t}[O, C, 3, 3], G: {t}[P, O]) -> (Y: {t}[N, P, H, W]):
    A[n, o, y, x] = {t}(max(sum(c, r, s) f32(X[n, c, y + r - 1, x + s - 1 else 0]) * f32(F[o, c, r, s]), 0))
    Y[n, p, y, x] = sum(o) f32(A[n, o, y, x]) * f32(G[p, o])

op convolution_relu[N, C, O, H, W](X: {t}[N, C, H, W], F: {t}[O, C, 3, 3]) -> (A: {t}[N, O, H, W]):
    A[n, o, y, x] = max(sum(c, r, s) f32(X[n, c, y + r - 1, x + s - 1 else 0]) * f32(F[o, c, r, s]), 0)

op pointwise_convolution[N, O, P, H, W](A: {t}[N, O, H, W], G: {t}[P, O]) -> (Y: {t}[N, P, H, W]):
    Y[n, p, y, x] = sum(o) f32(A[n, o, y, x]) * f32(G[p, o])

op product_loss[M, K, V](X: {t}[M, K], W: {t}[V, K], L: i32[M]) -> (Y: f32[M]):
    Z[m, v] = sum(k) f32(X[m, k]) * f32(W[v, k])
    top[m] = max(v) Z[m, v]
    total[m] = sum(v) exp(Z[m, v] - top[m])
    mine[m] = sum(v) where(v == L[m], Z[m, v], 0)
    Y[m] = top[m] + log(total[m]) - mine[m]

op logits[M, K, V](X: {t}[M, K], W: {t}[V, K]) -> (Z: f32[M, V]):
    Z[m, v] = sum(k) f32(X[m, k]) * f32(W[v, k])

op loss[M, V](Z: f32[M, V], L: i32[M]) -> (Y: f32[M]):
    top[m] = max(v) Z[m, v]
    total[m] = sum(v) exp(Z[m, v] - top[m])
    mine[m] = sum(v) where(v == L[m], Z[m, v], 0)
    Y[m] = top[m] + log(total[m]) - mine[m]
"""


@dataclass(frozen=True)
class Problem:
    """An op, and the same in steps: the op of each, by the names of its inputs here, and the name of its result.

    emulated, timed   sizes for the emulator, and to measure at
    peer              PyTorch's, of its arrays by name
    """

    op: str
    steps: tuple[tuple[str, tuple[str, ...], str], ...]
    emulated: dict[str, int]
    timed: tuple[dict[str, int], ...]
    peer: Callable[[Any, Mapping[str, Any]], Any]


def mlp(torch: Any, x: Mapping[str, Any]) -> Any:
    return torch.nn.functional.gelu(x["X"] @ x["W1"]) @ x["W2"]


def swiglu(torch: Any, x: Mapping[str, Any]) -> Any:
    return (torch.nn.functional.silu(x["X"] @ x["Wg"]) * (x["X"] @ x["Wu"])) @ x["W2"]


def two_convolutions(torch: Any, x: Mapping[str, Any]) -> Any:
    conv = torch.nn.functional.conv2d
    return conv(torch.relu(conv(x["X"], x["F"], padding=1)), x["G"][..., None, None])


def product_loss(torch: Any, x: Mapping[str, Any]) -> Any:
    return torch.nn.functional.cross_entropy(x["X"] @ x["W"].T, x["L"].long(), reduction="none")


PROBLEMS = (
    Problem(
        "mlp",
        (("mlp_up", ("X", "W1"), "A"), ("product", ("A", "W2"), "Y")),
        {"M": 256, "K": 64, "F": 256, "N": 64},
        ({"M": 512, "K": 64, "F": 256, "N": 64}, {"M": 512, "K": 512, "F": 2048, "N": 512}),
        mlp,
    ),
    Problem(
        "swiglu_mlp",
        (
            ("product", ("X", "Wg"), "G"),
            ("product", ("X", "Wu"), "U"),
            ("gated", ("G", "U"), "A"),
            ("product", ("A", "W2"), "Y"),
        ),
        {"M": 256, "K": 64, "F": 256, "N": 64},
        ({"M": 512, "K": 64, "F": 256, "N": 64}, {"M": 512, "K": 512, "F": 1408, "N": 512}),
        swiglu,
    ),
    Problem(
        "two_convolutions",
        (("convolution_relu", ("X", "F"), "A"), ("pointwise_convolution", ("A", "G"), "Y")),
        {"N": 1, "C": 16, "O": 16, "P": 16, "H": 28, "W": 28},
        ({"N": 1, "C": 32, "O": 32, "P": 32, "H": 56, "W": 56}, {"N": 1, "C": 64, "O": 64, "P": 64, "H": 56, "W": 56}),
        two_convolutions,
    ),
    Problem(
        "product_loss",
        (("logits", ("X", "W"), "Z"), ("loss", ("Z", "L"), "Y")),
        {"M": 64, "K": 64, "V": 1000},
        ({"M": 128, "K": 64, "V": 8192}, {"M": 128, "K": 512, "V": 8192}),
        product_loss,
    ),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="cpu", help="to measure on")
    parser.add_argument("--emulate", default="", metavar="TARGET", help="count launches and bytes under the emulator instead")
    parser.add_argument("--repeat", type=int, default=9, help="samples of each side")
    parser.add_argument("--only", default="", help="names of ops, separated by commas")
    args = parser.parse_args()
    set_threads(1)
    chosen = [p for p in PROBLEMS if not args.only or p.op in args.only.split(",")]
    print(machine(), f"target {args.emulate or args.target}", sep="\n")
    for p in chosen:
        if args.emulate:
            count(p, args.emulate)
            continue
        for sizes in p.timed:
            measure(p, sizes, args.target, args.repeat)


def compiled(p: Problem, target: str, dtype: str, sizes: Mapping[str, int], **options: Any) -> tuple[Any, list[Any]]:
    """The kernel of the one op, and those of the steps, for these sizes."""
    import andiron

    module = andiron.loads(TEXT.format(t=dtype))
    shapes = inputs_of(module, p, sizes)
    steps = []
    for name, names, result in p.steps:
        op = module.ops[name]
        found = {
            v.name: shapes[x][n]
            for t, x in zip(op.inputs, names, strict=True)
            for n, v in enumerate(map(plain, t.shape))
            if v is not None
        }
        shapes[result] = tuple(e.evaluate(found) for e in op.outputs[0].shape)
        steps.append(andiron.compile(module, op=name, target=target, sizes=found, **options))
    return andiron.compile(module, op=p.op, target=target, sizes=dict(sizes), **options), steps


def plain(e: Any) -> Any:
    """The size that an extent is; None where it is a number."""
    return None if e.constant is not None else next(iter(e.variables()))


def inputs_of(module: Any, p: Problem, sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    return {t.name: tuple(e.evaluate(sizes) for e in t.shape) for t in module.ops[p.op].inputs}


def arrays_of(module: Any, p: Problem, sizes: Mapping[str, int]) -> dict[str, Any]:
    import numpy as np

    rng, out = np.random.default_rng(0), {}
    for t in module.ops[p.op].inputs:
        shape = tuple(e.evaluate(sizes) for e in t.shape)
        drawn = rng.integers(0, sizes["V"], shape) if t.dtype.kind == "int" else rng.normal(size=shape) / 8
        out[t.name] = drawn.astype(t.dtype.numpy)
    return out


def in_steps(p: Problem, kernels: list[Any], given: Mapping[str, Any], memory: dict[str, Any]) -> Any:
    """The last result. `memory`: for the results, from the second time on."""
    found = dict(given)
    for kernel, (_, names, result) in zip(kernels, p.steps, strict=True):
        options = {"out": memory[result]} if result in memory else {}
        found[result] = memory[result] = kernel(*(found[n] for n in names), **options)
    return found[p.steps[-1][2]]


def count(p: Problem, target: str) -> None:
    """A line of the table: launches and bytes of the one op, and of the steps together."""
    import andiron
    import numpy as np

    whole, steps = compiled(p, target, "f16", p.emulated)
    given = arrays_of(andiron.loads(TEXT.format(t="f16")), p, p.emulated)
    for kernel in (whole, *steps):
        kernel.counting = True
    together, apart = whole(*given.values()), in_steps(p, steps, given, {})
    np.testing.assert_allclose(np.asarray(together, float), np.asarray(apart, float), rtol=2e-2, atol=2e-2)
    one, several = totals([whole]), totals(steps)
    print(f"| `{p.op}` {shown(p.emulated)} | {one[0]} | {one[1]:,} | {several[0]} | {several[1]:,} |", flush=True)


def totals(kernels: list[Any]) -> tuple[int, int]:
    """Launches, and bytes of the outermost memory."""
    counts = [k.report.counts for k in kernels]
    return sum(len(c.launches) for c in counts), sum(sum(c.moved[next(iter(c.carried))].values()) for c in counts)


def shown(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{n}={x}" for n, x in sizes.items())


def measure(p: Problem, sizes: Mapping[str, int], target: str, repeat: int) -> None:
    """A line of the other table: the time of the one op, of the steps and of PyTorch, and ratios with their quartiles."""
    import andiron
    import numpy as np
    import torch

    torch.set_num_threads(1)
    whole, steps = compiled(p, target, "f32", sizes, threads=1)
    given = arrays_of(andiron.loads(TEXT.format(t="f32")), p, sizes)
    theirs = {n: torch.from_numpy(x) for n, x in given.items()}
    out, memory = whole(*given.values()), {}
    apart = in_steps(p, steps, given, memory)
    for other in (apart, p.peer(torch, theirs).numpy()):
        np.testing.assert_allclose(out, other, rtol=2e-4, atol=2e-4)
    calls = (
        lambda: whole(*given.values(), out=out),
        lambda: in_steps(p, steps, given, memory),
        lambda: p.peer(torch, theirs),
    )
    rows = processor_time(calls, repeat, 2e-2)
    seconds = " | ".join(f"{median(column) * 1e3:.2f} ms" for column in zip(*rows, strict=True))
    ratios = [quantiles([row[n] / row[0] for row in rows], n=4) for n in (1, 2)]
    more = " | ".join(f"{middle:.2f} ({low:.2f} to {high:.2f})" for low, middle, high in ratios)
    launches = f"{whole.report.launches}, {sum(k.report.launches for k in steps)}"
    print(f"| `{p.op}` {shown(sizes)} | {launches} | {seconds} | {more} |", flush=True)


if __name__ == "__main__":
    main()
