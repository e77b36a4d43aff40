"""The sizes of DeepBench and of common networks, with no schedule and no measuring, beside the library that people use.

    python benchmarks/deepbench.py --only server,device,training               # products of matrices beside NumPy's BLAS
    python benchmarks/deepbench.py --only batched,conv,depthwise --fixed       # beside PyTorch
    python benchmarks/deepbench.py --only gru,lstm,norm,reduce,transpose,elementwise --threads 2 --markdown rows.md
    python benchmarks/deepbench.py --only server --match n=1 --fixed           # some of them, compiled for their sizes

Samples are taken in turns; a ratio is the median over neighbouring samples of their seconds by ours, with its quartiles: above
1 we are faster. Every result is compared with the other's. Without `--fixed` there is one kernel an op, which takes all sizes.
Where the other makes its results anew at each call, so do we; else both write to given memory.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from math import exp, log
from statistics import quantiles
from typing import Any

from common import machine, processor_time, set_threads
from workloads import SHAPES, Case, cases, inputs, peer


def main() -> None:
    args = _options()
    import andiron

    head = f"{machine()}, {_torch()}"
    what = f"target {args.target}, threads {args.threads}, sizes {'fixed' if args.fixed else 'open'}, clock: {args.clock}"
    print(head, what, sep="\n")
    kernels: dict[Any, Any] = {}
    rows: list[dict[str, Any]] = []
    arrays: list[Any] = []
    for case in cases(args.only, args.max_gflop * 1e9, args.match):
        given: dict[str, Any] = case.params | (case.sizes if args.fixed else {})
        key = case.op, *given.items()
        if key not in kernels:
            text = f"import std.ops.{case.module}\n"
            kernels[key] = andiron.compile(text, op=case.op, target=args.target, threads=args.threads, **given)
        arrays = inputs(case, arrays)
        rows.append(_measured(case, kernels[key], arrays, args))
        print(_line(rows[-1]), flush=True)
    if args.json:
        with open(args.json, "w") as f:
            json.dump(rows, f, indent=1)
    summary = _summary(rows)
    print("\n" + "\n".join(summary))
    if args.markdown:
        with open(args.markdown, "a") as f:
            f.write("\n".join([*_page(head, what, summary, rows), ""]))


def _measured(case: Case, kernel: Any, arrays: list[Any], args: argparse.Namespace) -> dict[str, Any]:
    from andiron.runtime.timing import interleaved

    out = kernel(*arrays)
    other = peer(case, arrays, out, args.threads)
    _compare(case, out, other.call())
    mine = (lambda: kernel(*arrays)) if other.fresh else (lambda: kernel(*arrays, out=out))
    # One thread does not wait busily for others, so nothing has to be waited for between samples.
    if args.clock == "processor":
        a, b = zip(*processor_time([mine, other.call], args.repeat), strict=True)
    else:
        a, b = interleaved([mine, other.call], args.repeat, rest=args.rest if args.threads > 1 else 0)
    ratios = [y / x for x, y in zip(a, b, strict=True)]
    low, middle, high = quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    amount, unit = (case.bytes, "GB/s") if case.bytes else (case.flops, "GFLOP/s")
    row = {"group": case.group, "case": case.name, "peer": other.library, "amount": amount, "unit": unit}
    return row | {"seconds": min(a), "theirs": min(b), "ratio": middle, "low": low, "high": high}


def _compare(case: Case, mine: Any, theirs: Any) -> None:
    import numpy as np

    pairs = zip(mine, theirs, strict=True) if isinstance(mine, tuple) else [(mine, theirs)]
    for x, y in pairs:
        expected = np.asarray(y)
        scale = max(1.0, float(np.abs(expected).max()))
        assert x.shape == expected.shape, case.name
        assert np.abs(x - expected).max() <= 1e-4 * scale, case.name


# ---------------------------------------------------------------- what is shown


def _line(r: dict[str, Any]) -> str:
    mine, theirs = (r["amount"] * 1e-9 / r[side] for side in ("seconds", "theirs"))
    return (
        f"{r['group']:11} {r['case']:40} {mine:7.1f} {r['unit']}, {r['peer']} {theirs:7.1f}, ratio {r['ratio']:5.2f}"
        f" ({r['low']:.2f}-{r['high']:.2f})"
    )


def _summary(rows: list[dict[str, Any]]) -> list[str]:
    """A table in Markdown: for each group, and for all."""
    out = ["| | sizes | geometric mean | worst | under 0.9 | under 0.5 | the worst ones |", "|---|---|---|---|---|---|---|"]
    groups = list(dict.fromkeys(r["group"] for r in rows))
    for group in [*groups, ""] if len(groups) > 1 else groups:
        mine = [r for r in rows if group in ("", r["group"])]
        ratios = [r["ratio"] for r in mine]
        mean = exp(sum(map(log, ratios)) / len(ratios))
        worst = "; ".join(f"`{r['case']}` {r['ratio']:.2f}" for r in sorted(mine, key=lambda r: r["ratio"])[:3])
        under = [sum(r < limit for r in ratios) for limit in (0.9, 0.5)]
        out.append(f"| {group or 'all'} | {len(mine)} | {mean:.2f} | {min(ratios):.2f} | {under[0]} | {under[1]} | {worst} |")
    return out


def _page(head: str, what: str, summary: list[str], rows: list[dict[str, Any]]) -> list[str]:
    """A section in Markdown."""
    load = f"load {os.getloadavg()[0]:.1f} at the end" if hasattr(os, "getloadavg") else ""
    files = [x for i, x in enumerate(sys.argv) if x in ("--markdown", "--json") or sys.argv[i - 1] in ("--markdown", "--json")]
    command = "python benchmarks/deepbench.py " + " ".join(x for x in sys.argv[1:] if x not in files)
    out = [f"## {', '.join(dict.fromkeys(r['group'] for r in rows))}", "", f"    {command}", "", f"{head}; {what}; {load}", ""]
    out += [*summary, "", "| | unit | Andiron | the other | | ratio |", "|---|---|---|---|---|---|"]
    for r in rows:
        mine, theirs = (r["amount"] * 1e-9 / r[side] for side in ("seconds", "theirs"))
        ratio = f"{r['ratio']:.2f} ({r['low']:.2f}-{r['high']:.2f})"
        out.append(f"| `{r['case']}` | {r['unit']} | {mine:.1f} | {theirs:.1f} | {r['peer']} | {ratio} |")
    return [*out, ""]


def _torch() -> str:
    try:
        import torch
    except ImportError:
        return "no PyTorch"
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
    rest = "seconds before each sample of several threads: OpenBLAS's wait busily for 2^28 cycles, 0.13 s at 2.1 GHz"
    parser.add_argument("--rest", type=float, default=0.2, help=rest)
    parser.add_argument("--fixed", action="store_true", help="compile for each size, instead of once for all")
    parser.add_argument("--json", default="", help="a file for the figures")
    parser.add_argument("--markdown", default="", help="a file to which a section for docs/measurements is added")
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
