"""Measure the best candidates for the schedule of an op, and keep the fastest. Later compilations for the same sizes and target
use it.

Every candidate is compared with the reference before it may win. Ctrl-C ends the search, and the best so far counts. For an
absent device, candidates are ranked by their predicted times, and nothing is kept. With `--trials` a search goes on from the
fastest of the first candidates: their lines are changed, and the changed ones measured.

With `--tasks` all tasks of a file are tuned. With `--cluster` workers of Dask compile and measure. What the database has is not
measured again.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from ...dsl.errors import UserError
from ...dsl.support.amounts import counted
from ..options import add_choice, add_json, kernel_of, positive
from ..terminal import complain, say_json

_TOP, _SECONDS = 10, 60  # candidates; seconds: what is measured where nobody says it [estimate]
# Options that say of one kernel what a file of tasks says of each task, with the key of the file.
_SAID_BY_TASKS = {
    "op": "op", "schedule": "schedule", "target": "target", "size": "sizes", "param": "sizes", "top": "top",
    "trials": "trials", "seconds": "seconds", "threads": "threads",
}  # fmt: skip

if TYPE_CHECKING:
    from ...runtime.kernel import Kernel

NAME = "tune"
HELP = "measure schedules, and keep the fastest"
EXAMPLES = ("andiron tune examples/gemm.sched --schedule auto --size M=256,N=256,K=256 --top 4",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", nargs="?", metavar="FILE", help="a .sched file, `-` for the input stream")
    add_choice(parser)
    parser.add_argument("--top", type=positive, metavar="N", help="the number of measured candidates (10)")
    parser.add_argument("--trials", type=positive, metavar="N", help="search on from these, until N are measured in all")
    parser.add_argument("--seconds", type=positive, metavar="S", help="the approximate time limit (60)")
    parser.add_argument("--threads", type=positive, metavar="N", help="the number of threads; default: all cores")
    parser.add_argument("--tasks", metavar="FILE", help="a file of tasks, in TOML, instead of a .sched file")
    parser.add_argument("--cluster", metavar="ADDRESS", help="the address of a Dask scheduler, as tcp://host:8786")
    parser.add_argument("--db", metavar="WHERE", help="the path or URL of the database; default: see `andiron db --help`")
    parser.add_argument("--report", metavar="FILE", help="write the results of the tasks as a page of HTML")
    parser.add_argument("--dry-run", action="store_true", help="keep nothing")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from ...runtime.tuning.search import tune, why_not
    from ...runtime.tuning.trials import expect_budget

    if (args.file is None) == (args.tasks is None):
        complain("error: name one of FILE and --tasks FILE")
        return 2
    if args.tasks is None and args.report is not None:
        complain(
            "error: --report is for --tasks FILE: of one kernel there is no page\n  help: `--json` prints all of its result"
        )
        return 2
    if args.tasks is not None:
        if given := [name for name in _SAID_BY_TASKS if getattr(args, name)]:
            keys = ", ".join(dict.fromkeys(f"`{_SAID_BY_TASKS[name]}`" for name in given))
            said = ", ".join(f"--{name}" for name in given)
            complain(f"error: {said}: not with --tasks, whose file says it of each task\n  help: write {keys} in {args.tasks}")
            return 2
        from ..tuning.tune_tasks import tune_tasks

        return tune_tasks(args)
    top, seconds = args.top or _TOP, args.seconds or _SECONDS
    expect_budget(top, seconds, args.trials)
    kernel = kernel_of(args, args.threads)
    reason = None if args.cluster else why_not(kernel)
    progress = Progress(sys.stderr.isatty())
    if reason is not None:
        return rank(kernel, top, reason, progress, args.json)
    try:
        keep = not args.dry_run
        if args.cluster or args.db:
            from ...runtime.tuning.cluster.tune_remotely import tune_remotely

            found = tune_remotely(kernel, (), top, seconds, progress, keep, args.cluster, args.db, args.trials)
        else:
            found = tune(kernel, (), top, seconds, progress, keep, trials=args.trials)
    finally:
        progress.end()
    say_json(found.as_dict()) if args.json else print(found)
    return 130 if found.interrupted == "interrupted" else 0


def rank(kernel: Kernel, top: int, reason: UserError, progress: Progress, json: bool) -> int:
    """Candidates by predicted times, for a device that is not at hand."""
    from ...runtime.random_inputs import default_sizes
    from ...runtime.tuning.result import table
    from ...runtime.tuning.trials import trials_for

    if kernel.request is None:
        raise reason
    dims = default_sizes(kernel.op, kernel.sizes)
    trials, refused = trials_for(kernel.request, 0, top, dims, progress)
    progress.end()
    sizes = kernel.op.all_sizes(dims)
    if json:
        answer = {"op": kernel.op.name, "target": kernel.target, "sizes": sizes, "measured": False, "reason": reason.message}
        say_json(
            {**answer, "candidates": [t.as_dict() for t in trials], "refused": [dict(about=a, reason=r) for a, r in refused]}
        )
        return 0
    at = ", ".join(f"{n}={v}" for n, v in sizes.items())
    print(f"{kernel.op.name}: {at}; {kernel.target}; {counted(len(trials), 'candidate')}")
    print("\n".join(table(tuple(trials))))
    print(f"not measured, and nothing is kept: {reason.message}")
    return 0


class Progress:
    """One line on a terminal, which each text replaces."""

    def __init__(self, on: bool) -> None:
        self.on = on

    def __call__(self, text: str) -> None:
        if self.on:
            print(f"\r\033[K{text[:100]}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self.on:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
