"""The sizes of DeepBench and of common networks, with no schedule and no measuring, beside the library that people use.

    python benchmarks/deepbench.py --threads 1 --only server,device      # products of matrices beside NumPy's BLAS
    python benchmarks/deepbench.py --only conv,batched                   # beside PyTorch, or NumPy where that is missing
    python benchmarks/deepbench.py --only server --match n=1 --fixed     # some of them, compiled for their sizes

Sizes: DeepBench (github.com/baidu-research/DeepBench, `code/kernels`), ResNet-50 and MobileNet, transformers. Samples are taken
in turns; a ratio is the median over neighbouring samples of their seconds by ours, with its quartiles: above 1 we are faster.
Without `--fixed` there is one kernel an op, which takes all sizes. PyTorch makes its results; the others write to given memory.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from math import exp, log, prod
from statistics import quantiles
from typing import Any

from common import machine, processor_time, set_threads

SHAPES: dict[str, tuple[tuple[int, ...], ...]] = {  # (M, N, K), but for the last two
    "server": (
        *product((5124, 35), (700, 1500), (2048, 2560)),
        *((m, n, k) for m, k in ((7680, 2560), (3072, 1024)) for n in (1, 2, 4)),
        *product((512, 1024), (1, 2, 4), (500_000,)),
        (1024, 700, 512),
        *((3 * h, n, h) for h in (2560, 2048, 1536, 2816, 1024) for n in (1500, 3000, 6000)),
        *((3 * h, n, h) for h in (2048, 1536, 2816) for n in (1, 2, 4)),
        *product((512, 1024), (1500, 3000, 6000), (1536, 2048, 2560, 2816)),
        *product((512, 1024), (1, 2, 4), (512,)),
    ),
    "device": (
        (5124, 700, 2048), (35, 700, 2048), (3072, 1, 1024), (64, 1, 1216), (3072, 1500, 1024), (128, 1500, 1280),
        (3072, 1500, 128), (128, 1, 1024), (3072, 1, 128), (176, 1500, 1408), (4224, 1500, 176), (128, 1, 1408), (4224, 1, 128),
    ),
    "training": tuple((h, n, h) for h in (1760, 2048, 2560, 4096) for n in (16, 32, 64, 128, 7000)),
    "batched": (  # (B, M, N, K)
        (1, 128, 128, 128), (12, 512, 512, 64), (12, 512, 64, 512), (16, 1024, 1024, 64), (1, 512, 512, 512),
        (1, 1024, 1024, 1024),
    ),
    "conv": (  # (N, H, W, C, O, R, stride, pad)
        (1, 224, 224, 3, 64, 7, 2, 3), (1, 56, 56, 64, 64, 1, 1, 0), (1, 56, 56, 64, 64, 3, 1, 1),
        (1, 56, 56, 256, 128, 1, 2, 0), (1, 28, 28, 128, 128, 3, 1, 1), (1, 28, 28, 128, 512, 1, 1, 0),
        (1, 14, 14, 256, 256, 3, 1, 1), (1, 14, 14, 256, 1024, 1, 1, 0), (1, 7, 7, 512, 512, 3, 1, 1),
        (1, 7, 7, 512, 2048, 1, 1, 0),
    ),
    # (N, H, W, C, R, stride, pad)
    "depthwise": ((1, 112, 112, 32, 3, 1, 1), (1, 56, 56, 128, 3, 2, 1), (1, 14, 14, 512, 3, 1, 1)),
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """An op of the library at sizes: `params` are constants of the op, `shapes` those of its inputs, `flops` of one call."""

    group: str
    op: str
    module: str
    sizes: dict[str, int]
    params: dict[str, int]
    shapes: tuple[tuple[int, ...], ...]
    flops: int

    @property
    def name(self) -> str:
        return f"{self.op} " + " ".join(f"{k.lower()}={v}" for k, v in (self.sizes | self.params).items())


def cases(groups: list[str]) -> Iterator[Case]:
    for group in groups:
        for shape in dict.fromkeys(SHAPES[group]):
            if group in ("conv", "depthwise"):
                yield _conv(group, shape)
                continue
            *batch, m, n, k = shape
            sizes = dict(zip("BMNK" if batch else "MNK", shape, strict=True))
            flops = 2 * prod(shape)
            op = "batched_gemm" if batch else "gemm"
            yield Case(group, op, "gemm", sizes, {}, ((*batch, m, k), (*batch, k, n)), flops)
            if group == "training":
                yield Case(group, "gemm_tn", "gemm", sizes, {}, ((k, m), (k, n)), flops)


def _conv(group: str, shape: tuple[int, ...]) -> Case:
    n, h, w, c, *rest = shape
    depthwise = group == "depthwise"
    o, (r, stride, pad) = (1, rest) if depthwise else (rest[0], rest[1:])
    p, q = (h + 2 * pad - r) // stride + 1, (w + 2 * pad - r) // stride + 1
    sizes = {"N": n, "C": c, "H": h, "W": w, **({} if depthwise else {"O": o}), "R": r, "S": r}
    weights = (c, r, r) if depthwise else (o, c, r, r)
    op = "depthwise_conv2d" if depthwise else "conv2d"
    flops = 2 * n * c * o * p * q * r * r
    return Case(group, op, "conv", sizes, {"stride": stride, "pad": pad}, ((n, c, h, w), weights), flops)


def peer(case: Case, arrays: list[Any], out: Any, threads: int) -> Callable[[], Any]:
    """The same by NumPy, or by PyTorch where it is installed and the better of the two."""
    import numpy as np

    a, b = arrays
    if case.op in ("gemm", "gemm_tn"):
        left = a.T if case.op == "gemm_tn" else a
        return lambda: np.matmul(left, b, out=out)
    try:
        import torch
    except ImportError:
        return lambda: _by_numpy(case, a, b, out)
    torch.set_num_threads(threads)
    x, y = torch.from_numpy(a), torch.from_numpy(b)
    if case.op == "batched_gemm":
        z = torch.from_numpy(out)
        return lambda: torch.bmm(x, y, out=z).numpy()
    groups = case.sizes["C"] if case.group == "depthwise" else 1
    filters = y.unsqueeze(1) if case.group == "depthwise" else y

    def convolve() -> Any:
        with torch.inference_mode():
            return torch.conv2d(x, filters, None, case.params["stride"], case.params["pad"], 1, groups).numpy()

    return convolve


def _by_numpy(case: Case, a: Any, b: Any, out: Any) -> Any:
    import numpy as np

    if case.op == "batched_gemm":
        return np.matmul(a, b, out=out)
    pad, stride = case.params["pad"], case.params["stride"]
    padded = np.pad(a, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, b.shape[-2:], axis=(2, 3))[:, :, ::stride, ::stride]
    return np.einsum("ncpqrs,crs->ncpq" if b.ndim == 3 else "ncpqrs,ocrs->nopq", windows, b, optimize=True, out=out)


def main() -> None:
    args = _options()
    import andiron
    import numpy as np
    from andiron.runtime.timing import interleaved

    print(machine(), _torch(), sep="; ")
    print(f"target {args.target}, threads {args.threads}, sizes {'fixed' if args.fixed else 'open'}, clock: {args.clock}")
    rng = np.random.default_rng(0)
    kernels: dict[Any, Any] = {}
    rows: list[dict[str, Any]] = []
    small = [c for c in cases(args.only) if c.flops <= args.max_gflop * 1e9]
    for case in (c for c in small if set(args.match.split()) <= set(c.name.split())):
        given: dict[str, Any] = case.params | (case.sizes if args.fixed else {})
        key = case.op, *given.items()
        if key not in kernels:
            text = f"import std.ops.{case.module}\n"
            kernels[key] = andiron.compile(text, op=case.op, target=args.target, threads=args.threads, **given)
        arrays = [rng.standard_normal(s, dtype=np.float32) for s in case.shapes]
        kernel, out = kernels[key], kernels[key](*arrays)
        theirs = peer(case, arrays, np.empty_like(out), args.threads)
        expected = theirs()
        scale = max(1.0, float(np.abs(expected).max()))
        assert np.abs(out - expected).max() <= 1e-4 * scale, case.name
        mine = lambda kernel=kernel, arrays=arrays, out=out: kernel(*arrays, out=out)  # noqa: E731
        # One thread does not wait busily for others, so nothing has to be waited for between samples.
        if args.clock == "processor":
            a, b = zip(*processor_time([mine, theirs], args.repeat), strict=True)
        else:
            a, b = interleaved([mine, theirs], args.repeat, rest=0.2 if args.threads > 1 else 0)
        ratios = [y / x for x, y in zip(a, b, strict=True)]
        low, middle, high = quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
        row = {"group": case.group, "case": case.name, "flops": case.flops, "seconds": min(a), "theirs": min(b)}
        rows.append(row | {"ratio": middle, "low": low, "high": high})
        rate = case.flops * 1e-9
        print(
            f"{case.group:9} {case.name:40} {rate / min(a):7.1f} GFLOP/s, theirs {rate / min(b):7.1f}, ratio {middle:5.2f}"
            f" ({low:.2f}-{high:.2f})",
            flush=True,
        )
    if args.json:
        with open(args.json, "w") as f:
            json.dump(rows, f, indent=1)
    _table(rows)


def _table(rows: list[dict[str, Any]]) -> None:
    print("\ngroup       cases  geomean  worst  under 0.9  under 0.5  the worst ones")
    for group in [*dict.fromkeys(r["group"] for r in rows), ""]:
        mine = [r for r in rows if group in ("", r["group"])]
        if not mine:
            continue
        ratios = [r["ratio"] for r in mine]
        mean = exp(sum(map(log, ratios)) / len(ratios))
        worst = "; ".join(f"{r['case']}: {r['ratio']:.2f}" for r in sorted(mine, key=lambda r: r["ratio"])[:3])
        under = [sum(r < limit for r in ratios) for limit in (0.9, 0.5)]
        print(f"{group or 'all':10} {len(mine):6} {mean:8.2f} {min(ratios):6.2f} {under[0]:10} {under[1]:10}  {worst}")


def _torch() -> str:
    try:
        import torch
    except ImportError:
        return "no PyTorch: NumPy in its place"
    return f"PyTorch {torch.__version__}"


def _options() -> argparse.Namespace:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--repeat", type=int, default=9, help="samples of each side")
    parser.add_argument("--only", default="server,device", help=f"groups, separated by commas, of {', '.join(SHAPES)}")
    parser.add_argument("--match", default="", help="those with these words in their names, such as n=1 k=512")
    parser.add_argument("--max-gflop", type=float, default=4.0, help="larger ones are left out")
    clock = "for a busy machine: what the processor spent on this thread; only with one"
    parser.add_argument("--clock", choices=("wall", "processor"), default="wall", help=clock)
    parser.add_argument("--fixed", action="store_true", help="compile for each size, instead of once for all")
    parser.add_argument("--json", default="", help="a file for the figures")
    args = parser.parse_args()
    args.only = [g for g in args.only.split(",") if g]
    unknown = [g for g in args.only if g not in SHAPES]
    if unknown:
        parser.error(f"no group {', '.join(unknown)}; there are {', '.join(SHAPES)}")
    if args.clock == "processor" and args.threads > 1:
        parser.error("--clock processor is for one thread")
    set_threads(args.threads)
    return args


if __name__ == "__main__":
    main()
