"""How good the compiler's first choice is on this CPU: the best of its own candidates beside the first.

    python benchmarks/choice.py                                   # all pairs: about 20 minutes
    python benchmarks/choice.py --subset --json choice.json       # every fifth of them
    python benchmarks/choice.py --only softmax,conv2d --random 0

For each pair of an op and sizes the `--top` candidates that are predicted to be fastest are built, two at a time, and measured
by turns, on one thread, by the time that the processor spent on them; the compiler is told that there is one core. What is far
behind after a few rounds leaves. Then: how much slower than the best the first one is (the median over the rounds, with
quartiles). The best of twenty is a lucky one: so the ratio is also told with the best found in one half of the rounds and
compared in the other. And the rank correlation of predicted and measured seconds, as Spearman's rho and Kendall's tau-b:
among the best, which lie close together; among these and `--random` candidates drawn from the others; and among `--drawn`
schedules whose sizes are random (`random_ways`). `--json` is read before, and written after each pair: what is there is not
measured again. Ctrl-C ends it with what there is.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from math import exp, log
from pathlib import Path
from random import Random
from statistics import median, quantiles
from typing import Any

from common import machine, set_threads, spent
from random_ways import random_ways
from workloads import cases

LOOKED_AT = 400  # candidates that random ones are drawn from
BEHIND = 1.6  # times the best after RACE rounds: it leaves
RACE = 3

ROWS = ((1024, 1024), (16384, 128), (16, 65536))
OTHERS: dict[str, tuple[dict[str, int], ...]] = {
    "gemm_nt": ({"M": 200, "N": 384, "K": 512},),
    "gemm_tn": ({"M": 700, "N": 128, "K": 256},),
    "gemm_tt": ({"M": 100, "N": 700, "K": 200},),
    "gemm_f64": ({"M": 256, "N": 512, "K": 200},),
    **{op: tuple({"M": m, "N": n} for m, n in ROWS) for op in ("softmax", "layernorm", "rmsnorm", "row_sum", "col_sum")},
    **{op: ({"M": 1024, "N": 1024},) for op in ("full_sum", "row_max", "col_max", "row_argmax", "row_logsumexp")},
    "transpose": tuple({"M": m, "N": n} for m, n in ((1024, 1024), (2048, 512), (4096, 128))),
    "permute_021": ({"A": 16, "B": 256, "C": 256},),
    "permute_102": ({"A": 64, "B": 128, "C": 256},),
    "nchw_to_nhwc": ({"N": 1, "C": 64, "H": 56, "W": 56},),
    **{op: ({"N": 1 << 22},) for op in ("add", "axpy", "gelu_map", "relu_map", "exp_map")},
    "add_row": ({"M": 1024, "N": 1024},),
    "swiglu": ({"M": 512, "N": 1000},),
    "batchnorm": ({"N": 1, "C": 64, "H": 56, "W": 56},),
    "stencil5": ({"M": 1024, "N": 1024},),
    "stencil7": ({"L": 64, "M": 64, "N": 64},),
    "blur3x3": ({"M": 1024, "N": 1024},),
    "max_pool2d": ({"N": 1, "C": 64, "H": 112, "W": 112, "size": 3, "stride": 2, "pad": 1},),
    "avg_pool2d": ({"N": 1, "C": 64, "H": 56, "W": 56, "size": 3, "stride": 1, "pad": 1},),
    "distances": ({"M": 256, "N": 256, "D": 64},),
    "mttkrp": ({"I": 64, "J": 64, "K": 64, "R": 32},),
}


def pairs(most: float) -> Iterator[tuple[str, dict[str, int]]]:
    """Products of DeepBench, batched ones, convolutions and depthwise ones below `most` operations, and OTHERS."""
    yield from ((c.op, c.sizes | c.params) for c in cases(["device", "batched", "conv", "depthwise"], most))
    few = list(cases(["server"], most))
    yield from ((c.op, c.sizes) for c in few[:: max(1, len(few) // 6)])
    yield from ((op, sizes) for op, several in OTHERS.items() for sizes in several)


def main() -> None:
    args = _options()
    import andiron

    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})  # the machine's text is made now
    module = andiron.loads("".join(f"import std.ops.{x}\n" for x in _modules()))
    andiron.compile(module, op="add", target="cpu", threads=1)
    os.sched_setaffinity(0, cores)
    told = f"the best of {args.top}, {args.random} of the others, {args.drawn} with random sizes; {args.repeat} rounds"
    print(machine(), told, sep="\n", flush=True)
    file = Path(args.json) if args.json else None
    done = {r["name"]: r for r in json.loads(file.read_text())} if file is not None and file.exists() else {}
    todo = [p for p in pairs(args.max_gflop * 1e9) if not args.only or p[0] in args.only.split(",")]
    rows: list[dict[str, Any]] = []
    start = time.monotonic()
    try:
        for op, sizes in todo[:: 5 if args.subset else 1]:
            name = op + " " + " ".join(f"{k.lower()}={v}" for k, v in sizes.items())
            if "ranks" not in done.get(name, {}):
                done[name] = tried(module, op, sizes, args) | {"name": name}
            rows.append(done[name])
            show(rows[-1])
            if file is not None:
                file.write_text(json.dumps(list(done.values()), indent=1))
    except KeyboardInterrupt:
        print("cut short")
    if rows:
        summary(rows)
        print(f"{time.monotonic() - start:.0f} s")


def tried(module: Any, op: str, sizes: dict[str, int], args: argparse.Namespace) -> dict[str, Any]:
    """The figures of one pair."""
    import andiron
    from andiron.codegen.enumerate_schedules import candidate_schedules
    from andiron.runtime.compile import resolve_request
    from andiron.runtime.random_inputs import random_inputs

    request = resolve_request(module, op, None, "cpu", 1, sizes)
    found = [x for x in islice(candidate_schedules(request.special, request.device), LOOKED_AT) if x.seconds is not None]
    given, rest = found[: args.top], found[args.top :]
    others = Random(0).sample(rest, min(args.random, len(rest)))

    def built(schedule: Any) -> Any:
        return andiron.compile(module, op=op, schedule=schedule, target="cpu", threads=1, tune=0, **sizes).prepare()

    def fits(x: tuple[Any, float]) -> tuple[Any, float] | None:
        """One of random sizes, if it is legal."""
        try:
            return built(x[0]), x[1]
        except andiron.AndironError:
            return None

    ways, wild = random_ways(request.special, request.device, Random(0)), []
    with ThreadPoolExecutor(2) as pool:
        kernels = list(pool.map(built, [x.schedule for x in (*given, *others)]))
        for _ in range(3):
            wild += [x for x in pool.map(fits, islice(ways, args.drawn - len(wild))) if x is not None]
    kernels += [kernel for kernel, _ in wild]
    inputs = random_inputs(request.special, {})
    out = kernels[0](*inputs)
    calls = [lambda k=k: k(*inputs, out=out) for k in kernels]
    times = raced(calls, args.repeat)
    best = min(range(len(given)), key=lambda i: median(times[i]))
    # What left early has fewer rounds; the best and the first have all of them.
    ratios = [a / b for a, b in zip(times[0], times[best], strict=True)]
    half = min((i for i in range(len(given)) if len(times[i]) == len(times[0])), key=lambda i: median(times[i][::2]))
    fair = median(a / b for a, b in zip(times[0][1::2], times[half][1::2], strict=True))
    low, middle, high = quantiles(ratios, n=4)
    seconds = [x.seconds or 0.0 for x in (*given, *others)] + [x for _, x in wild]
    measured = [median(x) for x in times]
    groups = {"best": slice(len(given)), "all": slice(len(given) + len(others)), "drawn": slice(len(given) + len(others), None)}
    return {
        "op": op, "sizes": sizes, "lost": middle, "low": low, "high": high, "fair": fair, "candidates": len(found),
        "ranks": {name: correlations(seconds[at], measured[at]) for name, at in groups.items()},
        "predicted": seconds, "measured": measured, "drawn": len(wild), "chosen": given[0].about, "best": given[best].about,
    }  # fmt: skip


def raced(calls: Sequence[Any], rounds: int) -> list[list[float]]:
    """Seconds of each call, round by round; but for the first, those that are far behind after RACE rounds leave.

    Each round has an order of its own: what a call leaves in the caches is not always found by the same one.
    """
    rng = Random(0)
    times: list[list[float]] = [[] for _ in calls]
    near = list(range(len(calls)))
    for turn in range(rounds):
        if turn == RACE:
            best = min(map(min, times))
            near = [i for i in near if i == 0 or min(times[i]) <= BEHIND * best]
        for i in rng.sample(near, len(near)):
            times[i].append(spent(calls[i], 1e-3))
    return times


def show(r: dict[str, Any]) -> None:
    ranks = ", ".join(f"{name} {rho:.2f} {tau:.2f}" for name, (rho, tau) in r["ranks"].items())
    print(
        f"{r['name']:60} {r['lost']:5.2f} ({r['low']:.2f}-{r['high']:.2f}), fair {r['fair']:.2f}; "
        f"{ranks}; {r['candidates']} ways, {r['measured'][0] * 1e6:.0f} us",
        flush=True,
    )
    if r["lost"] > 1.1:
        print(f"    chosen {r['chosen']}\n    best   {r['best']}")


def summary(rows: Sequence[dict[str, Any]]) -> None:
    lost, fair = [r["lost"] for r in rows], [r["fair"] for r in rows]

    def told(what: str, x: Sequence[float]) -> str:
        mean = exp(sum(map(log, x)) / len(x))
        within = sum(v <= 1.1 for v in x)
        share = f"within 10 % in {within} of {len(x)} ({within / len(x):.0%})"
        return f"{what}: {share}, median {median(x):.3f}, geometric mean {mean:.3f}, worst {max(x):.2f}"

    print("", told("the first beside the best", lost), told("the best found in other rounds", fair), sep="\n")
    for name, what in (("best", "the best"), ("all", "and others"), ("drawn", "with random sizes")):
        found = [r["ranks"][name] for r in rows if name != "drawn" or r["drawn"] > 2] or [[0.0, 0.0]]
        each = [f"median {median(x):.2f}, mean {sum(x) / len(x):.2f}" for x in zip(*found, strict=True)]
        print(f"rank correlation of predicted and measured in a pair, {what}: rho {each[0]}; tau {each[1]}")
    for what, wild in (("candidates", False), ("schedules with random sizes", True)):
        pooled = [x for r in rows for x in _pooled(r, wild)]
        if pooled:
            rho, tau = correlations(*zip(*pooled, strict=True))
            print(f"all {len(pooled)} {what} of all pairs together: rho {rho:.2f}, tau {tau:.2f}")


def _pooled(r: dict[str, Any], wild: bool) -> list[tuple[float, float]]:
    both = list(zip(r["predicted"], r["measured"], strict=True))
    cut = len(both) - r["drawn"]
    return both[cut:] if wild else both[:cut]


def correlations(a: Sequence[float], b: Sequence[float]) -> tuple[float, float]:
    """Spearman's rho and Kendall's tau-b; 0 where there is nothing to compare."""
    if len(a) < 3 or len(set(a)) == 1 or len(set(b)) == 1:
        return 0.0, 0.0
    return spearman(a, b), kendall(a, b)


def kendall(a: Sequence[float], b: Sequence[float]) -> float:
    """Tau-b: pairs in the same order less those in the other one, beside the pairs that are not equal (Kendall, "The treatment
    of ties in ranking problems", Biometrika 1945)."""
    import numpy as np

    x, y = (np.sign(np.subtract.outer(v, v)) for v in (np.asarray(a), np.asarray(b)))
    return float((x * y).sum() / np.sqrt((x * x).sum() * (y * y).sum()))


def spearman(a: Sequence[float], b: Sequence[float]) -> float:
    """The correlation of ranks; those that are equal share theirs."""
    import numpy as np

    def ranks(x: Sequence[float]) -> Any:
        _, at, counts = np.unique(x, return_inverse=True, return_counts=True)
        return (np.cumsum(counts) - (counts - 1) / 2)[at]

    return float(np.corrcoef(ranks(a), ranks(b))[0, 1])


def _modules() -> list[str]:
    import andiron

    return sorted(x.stem for x in (Path(str(andiron.__file__)).parent / "stdlib" / "ops").glob("*.sched"))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--top", type=int, default=20)
    parser.add_argument("--random", type=int, default=10, help="candidates drawn from the others")
    parser.add_argument("--drawn", type=int, default=10, help="schedules of random sizes")
    parser.add_argument("--repeat", type=int, default=9, help="rounds")
    parser.add_argument("--max-gflop", type=float, default=0.5)
    parser.add_argument("--only", default="", help="ops, separated by commas")
    parser.add_argument("--subset", action="store_true", help="every fifth pair")
    parser.add_argument("--json", default="", help="a file for the figures; what is there already is not measured again")
    args = parser.parse_args()
    set_threads(1)
    return args


if __name__ == "__main__":
    main()
