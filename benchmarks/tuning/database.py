"""Times of a database of measurements with many rows, which nobody measured: adding, every query, leaving and pruning.

    python benchmarks/tuning/database.py                             a million rows in a file in the folder of temporary files
    python benchmarks/tuning/database.py --rows 100000 --db postgresql://USER@HOST/EMPTY

The rows are of 1,000 tasks: 20 ops at 50 sizes each, on 4 machines. A schedule has a row in each of 5 runs.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from statistics import median

from andiron.runtime.tuning.database.database import Database
from andiron.runtime.tuning.database.json_lines import write_lines
from andiron.runtime.tuning.database.measurement import Measurement, Task
from andiron.runtime.tuning.database.open_database import open_database

OPS, SIZES, RUNS = 20, 50, 5
MACHINES = [f"CPU model {n}, x86_64-0123456789, 64 threads" for n in range(4)]
DEVICE = "device cpu:made extends cpu:generic:\n" + "".join(
    f"    # line {n} of a text as long as real ones\n" for n in range(150)
)


def tasks() -> list[Task]:
    """Sizes differ by their logarithms, as those of real tasks do."""
    random.seed(0)
    found = []
    for op in range(OPS):
        text = f"op made{op}[M, N, K](A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]):\n    C[m, n] = sum(k) A[m, k] * B[k, n]\n"
        for _ in range(SIZES):
            sizes = {name: int(2 ** random.uniform(3, 12)) for name in "MNK"}
            found.append(Task(text, f"made{op}", sizes, "cpu", DEVICE))
    return found


def rows(count: int, found: list[Task]) -> Iterator[Measurement]:
    random.seed(1)
    schedules = max(1, count // (len(found) * len(MACHINES) * RUNS))
    for run in range(RUNS):
        for task in found:
            for machine in MACHINES:
                for n in range(schedules):
                    schedule = f"schedule made for {task.op_name}:\n" + f"    tile m: {n + 1}, n: {n + 2} -> core\n" * 6
                    base = 1e-3 * random.uniform(1, 4)
                    samples = tuple(base * random.uniform(1, 1.1) for _ in range(8))
                    yield Measurement(task, schedule, machine, "cc 12.2", f"run {run}", "right", samples, host="made")


def timed(name: str, call: Callable[[int], object], count: int) -> dict[str, object]:
    """Seconds of a call: the median and the most of `count`."""
    times = []
    for n in range(count):
        start = time.perf_counter()
        call(n)
        times.append(time.perf_counter() - start)
    print(f"{name:42} {median(times) * 1e3:10.2f} ms, at most {max(times) * 1e3:.2f} ms, {count} times", flush=True)
    return {"name": name, "median": median(times), "most": max(times), "count": count}


def measure(database: Database, count: int, path: str | None) -> list[dict[str, object]]:
    """Figures of a database; `path` is its file."""
    found = tasks()
    start = time.perf_counter()
    added = database.add(rows(count, found))
    took = time.perf_counter() - start
    print(f"added {added:,} rows in {took:.0f} s: {added / took:,.0f} a second, in batches of 500", flush=True)
    out: list[dict[str, object]] = [{"name": "add", "rows": added, "seconds": took}]
    if path:
        print(f"{os.path.getsize(path) / 1e6:,.0f} MB", flush=True)
    chosen = random.Random(2).sample(found, 50)
    near = [Task(t.op, t.op_name, {n: v + 1 for n, v in t.sizes.items()}, t.target, t.device) for t in chosen]
    out += [
        timed("best of a task on a machine", lambda n: database.best(chosen[n].key, MACHINES[n % 4]), 50),
        timed("nearest sizes, 8 choices", lambda n: database.nearest(near[n], MACHINES[n % 4]), 50),
        timed("rows of a task on a machine", lambda n: database.find(chosen[n].key, MACHINES[n % 4]), 50),
        timed("rows of a task", lambda n: database.find(chosen[n].key), 20),
        timed("adding 1 row", lambda n: database.add([_one(found[n], f"extra {n}")]), 50),
        timed("adding 100 rows that are there", lambda n: database.add(database.find(chosen[n].key)[:100]), 10),
        timed("summary of a task", lambda n: database.summary(chosen[n]), 50),
        timed("all tasks", lambda n: list(database.tasks()), 3),
        timed("leaving as JSON lines", lambda n: _export(database), 1),
        timed("pruning to the 10 fastest", lambda n: database.prune(keep=10), 1),
    ]
    return out


def _one(task: Task, run: str) -> Measurement:
    return Measurement(task, "schedule one\n", MACHINES[0], "cc", run, "right", (1e-3,))


def _export(database: Database) -> None:
    with open(os.devnull, "wb") as file:
        write_lines(file, database.rows())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--db", metavar="WHERE", help="an empty database; default: a new file")
    parser.add_argument("--json", metavar="FILE", help="also write the figures")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "measurements.db")
        out = measure(open_database(args.db or path), args.rows, None if args.db else path)
        if args.db is None:
            print(f"{os.path.getsize(path) / 1e6:,.0f} MB after pruning")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(out, file, indent=1)


if __name__ == "__main__":
    main()
