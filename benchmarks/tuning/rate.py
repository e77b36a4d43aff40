"""How many candidates a second a cluster measures, beside the local pool, on the same tasks.

    dask scheduler
    dask worker tcp://host:8786 --nworkers 3 --nthreads 1 --resources compile=1
    dask worker tcp://host:8786 --nthreads 1 --resources measure=1
    python benchmarks/tuning/rate.py benchmarks/tuning/tasks.toml --cluster tcp://host:8786 --first 12

Tasks are taken in groups. Each group is tuned by both, in turns the one or the other first, with new databases and, for what
this process compiles, new caches. Clear the caches of the cluster's workers before.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from statistics import median

from andiron.runtime.tuning.cluster.campaign import Campaign
from andiron.runtime.tuning.cluster.open_engine import open_engine
from andiron.runtime.tuning.cluster.task_file import read_task_file
from andiron.runtime.tuning.database.open_database import open_database


def rate(path: str, names: set[str], cluster: str | None) -> tuple[int, float]:
    """Candidates that were measured, and the seconds that it took."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ANDIRON_CACHE"] = folder
        runs = [t.run for t in read_task_file(path) if str(t.run.task) in names]
        engine = open_engine(cluster)
        started = time.perf_counter()
        try:
            campaign = Campaign(engine, runs, open_database(str(Path(folder) / "measurements.db")))
            campaign.run()
        finally:
            engine.close()
        return campaign.measured, time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", help="a file of tasks")
    parser.add_argument("--cluster", required=True, metavar="ADDRESS")
    parser.add_argument("--first", type=int, default=12, help="how many tasks of the file, evenly taken from all")
    parser.add_argument("--group", type=int, default=4, help="how many are tuned at a time")
    args = parser.parse_args()
    names = [str(t.run.task) for t in read_task_file(args.tasks)]
    chosen = names[:: max(1, len(names) // args.first)][: args.first]
    ratios = []
    groups = [chosen[n : n + args.group] for n in range(0, len(chosen), args.group)]
    for turn, group in enumerate(groups):
        found = {}
        for cluster in (args.cluster, None) if turn % 2 else (None, args.cluster):
            count, seconds = rate(args.tasks, set(group), cluster)
            found[cluster] = count / seconds
            print(f"{'cluster' if cluster else 'local pool'}: {count} candidates in {seconds:.1f} s", flush=True)
        ratios.append(found[args.cluster] / found[None])
    print(
        f"the cluster's rate beside the local one: {median(ratios):.2f} in the median, {min(ratios):.2f} to {max(ratios):.2f}"
    )


if __name__ == "__main__":
    main()
