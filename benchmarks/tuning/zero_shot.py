"""What a database of measurements is worth for sizes that it does not have.

    python benchmarks/tuning/zero_shot.py measurements.db --threads 1

Of each op that was measured at several sizes half of the sizes are held out: a copy of the database has no row of them. There
`compile(tuned=copy)` takes the schedule of the nearest sizes. It is measured by turns with the compiler's own choice and the
schedule that the whole database has. Tasks whose three schedules are one are counted, not measured.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from collections import defaultdict
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import andiron
from andiron.runtime.kernel import Kernel
from andiron.runtime.random_inputs import random_inputs
from andiron.runtime.timing import interleaved
from andiron.runtime.tuning.database.database import Database
from andiron.runtime.tuning.database.measurement import Task, sizes_text
from andiron.runtime.tuning.database.open_database import open_database

KINDS: tuple[str, ...] = ("default", "nearest", "tuned")


def halves(database: Database, seed: int) -> tuple[list[Task], list[Task]]:
    """The tasks that stay, and those that are held out: of an op at n sizes, n // 2."""
    groups: dict[tuple[str, str, str], list[Task]] = defaultdict(list)
    for task in database.tasks():
        groups[task.op, task.target, task.device].append(task)
    stay, held_out = [], []
    for _, found in sorted(groups.items()):
        chosen = set(random.Random(seed).sample(range(len(found)), len(found) // 2))
        for n, task in enumerate(found):
            (held_out if n in chosen else stay).append(task)
    return stay, held_out


def compare(task: Task, whole: str, copy: str, threads: int, repeat: int) -> dict[str, Any]:
    """Seconds of a call for each of `KINDS`, and ratios to the default's, as the medians of samples taken by turns."""

    def kernel(**tuning: Any) -> Kernel:
        return andiron.compile(task.op, op=task.op_name, target=task.target, threads=threads, sizes=task.sizes, **tuning)

    kernels = dict(zip(KINDS, (kernel(tune=0), kernel(tuned=copy), kernel(tuned=whole)), strict=True))
    schedules = {kind: k.schedule for kind, k in kernels.items()}
    source = kernels["nearest"].tuned
    found: dict[str, Any] = {
        "op": task.op_name, "sizes": task.sizes, "distance": getattr(source, "distance", None),
        "same": {kind: schedules[kind] == schedules["default"] for kind in KINDS},
        "ratio": dict.fromkeys(KINDS, 1.0),
    }  # fmt: skip
    distinct = {schedules[kind]: kind for kind in reversed(KINDS)}
    if len(distinct) > 1:
        inputs = random_inputs(kernels["default"].op, {**task.sizes, **task.open_sizes})
        used = [kernels[kind] for kind in distinct.values()]
        outputs = [k(*inputs) for k in used]
        calls = [_call(k, inputs, out) for k, out in zip(used, outputs, strict=True)]
        samples = dict(zip(distinct, interleaved(calls, repeat, rest=0.0), strict=True))
        base = samples[schedules["default"]]
        for kind in KINDS:
            taken = samples[schedules[kind]]
            found["ratio"][kind] = median(b / t for b, t in zip(base, taken, strict=True))
    return found


def _call(kernel: Kernel, inputs: list[Any], out: Any) -> Any:
    return lambda: kernel(*inputs, out=out)


def summary(name: str, ratios: list[float]) -> str:
    low, middle, high = quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    return f"{name:30} {middle:.3f} ({low:.3f} to {high:.3f}), least {min(ratios):.2f}, most {max(ratios):.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("database", help="the path or URL of a database, which stays as it is")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=21, help="samples of each schedule")
    parser.add_argument("--seed", type=int, default=0, help="of what is held out")
    parser.add_argument("--json", metavar="FILE", help="also write the figures")
    args = parser.parse_args()
    database = open_database(args.database, create=False)
    stay, held_out = halves(database, args.seed)
    out = []
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "copy.db")
        open_database(path).add(row for task in stay for row in database.find(task.key))
        print(f"{len(stay)} tasks stay, {len(held_out)} are held out", flush=True)
        for task in held_out:
            found = compare(task, args.database, path, args.threads, args.repeat)
            out.append(found)
            ratio = found["ratio"]
            print(
                f"{task.op_name} {sizes_text(task.sizes)}: nearest {ratio['nearest']:.2f}, tuned {ratio['tuned']:.2f}",
                flush=True,
            )
    known = [x for x in out if x["distance"] is not None]
    print(f"{len(out)} tasks; of {len(known)} the database has near sizes; times the speed of the compiler's choice:")
    print(summary("the database's choice, nearest", [x["ratio"]["nearest"] for x in out]))
    print(summary("tuned for these sizes", [x["ratio"]["tuned"] for x in out]))
    print(summary("nearest beside tuned", [x["ratio"]["nearest"] / x["ratio"]["tuned"] for x in out]))
    if args.json:
        Path(args.json).write_text(json.dumps(out, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
