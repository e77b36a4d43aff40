"""How good the compiler's first choice is: products of matrices on this CPU, the best of its own candidates beside the first.

    python benchmarks/choice.py --pairs 60 --top 20 --repeat 3
    python benchmarks/choice.py --pairs 5 --json choice.json

For each pair of an op and sizes the `--top` candidates that are predicted to be fastest are built and measured by turns, on one
thread, by the time that the processor spent on them: of all rounds, the median of each. Then: how much slower than the best the
first one is (with the quartiles over the rounds), and the rank correlation (Spearman's) of predicted and measured seconds.
Ctrl-C ends it with what there is.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from random import Random
from statistics import median, quantiles
from typing import Any

from common import machine, processor_time, set_threads
from workloads import cases

SIDES = (5, 17, 35, 64, 100, 128, 200, 256, 384, 512, 700, 1024, 1500)


def pairs(count: int, most: float) -> Iterator[tuple[str, dict[str, int]]]:
    """Those of DeepBench below `most` operations in turn with random ones, in all transpositions; the same each time."""
    random = Random(0)
    known = [(c.op, c.sizes) for c in cases(["device", "server", "batched"]) if c.flops <= most]
    random.shuffle(known)
    seen: set[str] = set()
    while len(seen) < count:
        if known and len(seen) % 2 == 0:
            op, sizes = known.pop()
        else:
            op, sizes = (
                random.choice(("gemm", "gemm_nt", "gemm_tn", "gemm_tt", "gemm_f64")),
                {i: random.choice(SIDES) for i in "MNK"},
            )
            if 2 * sizes["M"] * sizes["N"] * sizes["K"] > most:
                continue
        if f"{op} {sizes}" not in seen:
            seen.add(f"{op} {sizes}")
            yield op, sizes


def main() -> None:
    args = _options()
    import andiron

    print(machine(), f"the best of {args.top}, {args.repeat} rounds", sep="\n")
    module = andiron.loads("import std.ops.gemm\n")
    rows: list[dict[str, Any]] = []
    try:
        for op, sizes in pairs(args.pairs, args.max_gflop * 1e9):
            rows.append(tried(module, op, sizes, args.top, args.repeat))
    except KeyboardInterrupt:
        print("cut short")
    if args.json:
        with open(args.json, "w") as f:
            json.dump(rows, f, indent=1)
    lost, ranks = [r["lost"] for r in rows], [r["rank"] for r in rows]
    within = sum(x <= 1.1 for x in lost) / len(rows)
    print(f"\n{len(rows)} pairs: the first is within 10 % of the best in {within:.0%}, at the median {median(lost):.3f}")
    across = spearman([r["predicted"] for r in rows], [r["measured"] for r in rows])
    print(f"rank correlation of predicted and measured: within a pair {median(ranks):.2f} (median), across pairs {across:.2f}")


def tried(module: Any, op: str, sizes: dict[str, int], top: int, rounds: int) -> dict[str, Any]:
    """The figures of one pair, which are printed as well."""
    import andiron
    import numpy as np
    from andiron.codegen.rtile.candidates import candidates
    from andiron.runtime.compile import asked

    rng = np.random.default_rng(0)
    request = asked(module, op, None, "cpu", 1, **sizes)
    given = [x for x in candidates(request.op, request.device, sizes, top) if x.seconds is not None]
    kernels = [andiron.compile(module, op=op, schedule=x.schedule, target="cpu", threads=1, **sizes) for x in given]
    arrays = [rng.standard_normal([e.evaluate(sizes) for e in t.shape]).astype(t.dtype.numpy) for t in request.op.inputs]
    out = kernels[0](*arrays)
    calls = [lambda k=k, arrays=arrays, out=out: k(*arrays, out=out) for k in kernels]
    taken = processor_time(calls, rounds)
    times = [median(x) for x in zip(*taken, strict=True)]
    best = min(range(len(times)), key=times.__getitem__)
    ratios = [r[0] / r[best] for r in taken]
    low, middle, high = quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    row: dict[str, Any] = {"op": op, "sizes": sizes, "lost": middle, "low": low, "high": high, "candidates": len(times)}
    row["rank"] = spearman([x.seconds or 0 for x in given], times)
    row |= {"predicted": given[0].seconds, "measured": times[0], "chosen": given[0].about, "best": given[best].about}
    name = op + " " + " ".join(f"{k.lower()}={v}" for k, v in sizes.items())
    print(f"{name:40} {middle:5.2f} of the best ({low:.2f}-{high:.2f}), rank correlation {row['rank']:5.2f}", flush=True)
    if best and middle > 1.1:
        print(f"    chosen {given[0].about}\n    best   {given[best].about}")
    return row


def spearman(a: Sequence[float], b: Sequence[float]) -> float:
    """The correlation of ranks; those that are equal share theirs."""
    import numpy as np

    def ranks(x: Sequence[float]) -> Any:
        _, at, counts = np.unique(x, return_inverse=True, return_counts=True)
        return (np.cumsum(counts) - (counts - 1) / 2)[at]

    if len(a) < 3 or len(set(a)) == 1 or len(set(b)) == 1:
        return 1.0
    return float(np.corrcoef(ranks(a), ranks(b))[0, 1])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--top", type=int, default=20)
    parser.add_argument("--repeat", type=int, default=5, help="rounds")
    parser.add_argument("--max-gflop", type=float, default=0.5)
    parser.add_argument("--json", default="", help="a file for the figures")
    args = parser.parse_args()
    set_threads(1)
    return args


if __name__ == "__main__":
    main()
