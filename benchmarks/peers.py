"""Beside compilers that schedule by themselves, Halide's autoschedulers and TVM, and PyTorch: all in one run, samples by turns.

    python benchmarks/peers.py                                # one thread, by the time that the processor spent
    python benchmarks/peers.py --clock wall --threads 2       # on a machine that has nothing else to do
    python benchmarks/peers.py --only batched --trials 16     # TVM searches by measuring as well

`pip install halide apache-tvm==0.27.0.post1 apache-tvm-ffi==0.1.14.post0 cloudpickle psutil torch`, in an environment of their
own; what is missing is left out, and said. All kernels are made for the sizes, with no schedule given: ours, Halide's by
Adams2019, Mullapudi2016 and Li2018, TVM's by its rules for CPUs (what they have none for stays plain loops), and by
MetaSchedule with `--trials`. Results are compared with ours. What a kernel is `made in` are seconds, by the same clock, from
the op to a kernel that runs, the C++ compiler included. Each is made in a process of its own first: what crashes, or takes too
long, is left out and said. All write to given memory, but where PyTorch makes new results so do we beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from math import exp, log
from pathlib import Path
from statistics import quantiles
from typing import Any

from common import machine, processor_time, set_threads
from workloads import Case, Peer, cases, inputs, peer

NEW = "andiron, new results"
GROUPS = "batched,conv,depthwise,norm,reduce,transpose"

Made = Callable[[], Any]  # runs it once, into memory of its own


def main() -> None:
    args = _options()
    os.environ["ANDIRON_CACHE"] = tempfile.mkdtemp()  # so that all is made anew
    import andiron
    import numpy as np
    from peers_halide import halide_peers
    from peers_tvm import tvm_peers

    peers = {**halide_peers(args.threads), **tvm_peers(args.threads, args.trials)}
    print(machine(), f"threads {args.threads}, clock: {args.clock}, {args.repeat} rounds", sep="\n")
    andiron.compile("import std.ops.elementwise\n", op="add", target="cpu").prepare()  # a process that is warm
    rows, arrays = [], []
    for case in cases(args.only.split(","), args.max_gflop * 1e9, args.match):
        start, given = _now(args), case.sizes | case.params
        kernel = andiron.compile(
            f"import std.ops.{case.module}\n", op=case.op, target="cpu", threads=args.threads, tune=0, **given
        ).prepare()
        made = {"andiron": _now(args) - start}
        arrays = inputs(case, arrays)
        out = kernel(*arrays)
        calls: dict[str, Made] = {"andiron": lambda kernel=kernel, arrays=arrays, out=out: kernel(*arrays, out=out)}
        if (library := _library(case, arrays, out, args.threads)) is not None:
            if library.fresh:
                calls[NEW] = lambda kernel=kernel, arrays=arrays: kernel(*arrays)
            calls[library.library] = library.call
        for name, make in peers.items():
            if (why := _dies(partial(make, case.op, given, arrays), args.limit)) is not None:
                print(f"  {name}: {why}", flush=True)
                continue
            start = _now(args)
            try:
                call = make(case.op, given, arrays)
                made[name] = _now(args) - start
                theirs = call()
                theirs = np.asarray(theirs.numpy() if hasattr(theirs, "numpy") else theirs)
                assert np.abs(theirs.reshape(out.shape) - out).max() <= 1e-3 * max(1.0, float(np.abs(out).max())), (
                    "another result"
                )
                calls[name] = call
            except Exception as error:
                print(f"  {name}: {type(error).__name__}: {str(error).splitlines()[0][:100] if str(error) else ''}", flush=True)
        rows.append({"case": case.name, **_measured(case.name, calls, made, args)})
        if args.json:
            Path(args.json).write_text(json.dumps(rows, indent=1))
    _summary(rows)


def _library(case: Case, arrays: list[Any], out: Any, threads: int) -> Peer | None:
    """PyTorch, or NumPy for plain products; None where there is no PyTorch."""
    return peer(case, arrays, out, threads) if find_spec("torch") else None


def _dies(make: Callable[[], Made], limit: int) -> str | None:
    """Why a process that makes and runs it does not come to its end within so many seconds; exceptions are no reason."""
    child = os.fork()
    if child == 0:
        signal.alarm(limit)
        with suppress(Exception):
            make()()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status):
        return None
    number = os.WTERMSIG(status)
    return f"not done in {limit} s" if number == signal.SIGALRM else f"ended by {signal.Signals(number).name}"


def _now(args: argparse.Namespace) -> float:
    """Seconds, for differences: of the wall's clock, or those that this process and its compilers spent."""
    return time.perf_counter() if args.clock == "wall" else sum(os.times()[:4])


def _measured(label: str, calls: dict[str, Made], made: dict[str, float], args: argparse.Namespace) -> dict[str, Any]:
    """By turns. Ratios: their seconds over ours, median and quartiles of neighbouring samples."""
    from andiron.runtime.timing import interleaved

    if args.clock == "processor":
        samples = list(zip(*processor_time(list(calls.values()), args.repeat), strict=True))
    else:
        samples = interleaved(list(calls.values()), args.repeat, rest=0.2 if args.threads > 1 else 0)
    ours_fresh = dict(zip(calls, samples, strict=True)).get(NEW, samples[0])
    row: dict[str, Any] = {"seconds": {}, "ratio": {}, "made": made}
    print(f"{label}: {min(samples[0]) * 1e6:.0f} us, made in {made['andiron']:.2f} s")
    for name, times in zip(calls, samples, strict=True):
        row["seconds"][name] = min(times)
        if name not in ("andiron", NEW):
            ours = ours_fresh if name == "PyTorch" else samples[0]
            low, middle, high = quantiles([b / a for a, b in zip(ours, times, strict=True)], n=4)
            row["ratio"][name] = [middle, low, high]
            ratio = f"ratio {middle:6.2f} ({low:.2f}-{high:.2f})"
            how = f", made in {made[name]:.2f} s" if name in made else ""
            print(f"  {name:22} {min(times) * 1e6:9.0f} us, {ratio}{how}", flush=True)
    return row


def _summary(rows: list[dict[str, Any]]) -> None:
    print("\npeer                     cases  geomean  worst  made in, mean")
    for name in dict.fromkeys(n for r in rows for n in r["ratio"]):
        ratios = [r["ratio"][name][0] for r in rows if name in r["ratio"]]
        mean = exp(sum(map(log, ratios)) / len(ratios))
        seconds = [r["made"][name] for r in rows if name in r["ratio"] and name in r["made"]]
        how = f"  {sum(seconds) / len(seconds):.2f} s" if seconds else ""
        print(f"{name:24} {len(ratios):5} {mean:8.2f} {min(ratios):6.2f}{how}")
    made = [r["made"]["andiron"] for r in rows]
    print(f"ours made in {sum(made) / max(1, len(made)):.2f} s at the mean")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=9, help="samples of each side")
    parser.add_argument("--only", default=GROUPS, help="groups of workloads.py, separated by commas")
    parser.add_argument("--match", default="", help="words of a case's name: of them all")
    parser.add_argument("--max-gflop", type=float, default=4)
    parser.add_argument("--trials", type=int, default=0, help="candidates that TVM's MetaSchedule measures for each case")
    parser.add_argument("--limit", type=int, default=120, help="seconds for another compiler to make a kernel and run it")
    parser.add_argument("--clock", choices=("wall", "processor"), default="processor")
    parser.add_argument("--json", default="", help="a file for the figures")
    args = parser.parse_args()
    set_threads(args.threads)
    os.environ["HL_NUM_THREADS"] = os.environ["TVM_NUM_THREADS"] = str(args.threads)
    return args


if __name__ == "__main__":
    main()
