"""Look after a database of measurements. `andiron tune` adds to it, and `ANDIRON_TUNED` or `compile(tuned=...)` choose from it.

A database is a file, or a PostgreSQL database for a team: `--db PATH` or `--db postgresql://USER@HOST/NAME`. The default is the
one that `ANDIRON_TUNED` names, otherwise `measurements.db` in the cache folder.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from itertools import islice
from time import strptime
from typing import TYPE_CHECKING, Any

from ...dsl.errors.target import NotInModule
from ...dsl.support.amounts import counted, seconds_text
from ...dsl.support.printable import printable
from ..options import add_json, not_negative, positive
from ..terminal import complain, say_json
from .tune import Progress

if TYPE_CHECKING:
    from ...runtime.tuning.database.database import Database
    from ...runtime.tuning.database.measurement import Measurement, Task

NAME = "db"
HELP = "list, export, import, merge, prune or check measurements, or learn from them"
EXAMPLES = ("andiron db list", "andiron db export measured.jsonl", "andiron db prune --keep 10", "andiron db train")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    def action(name: str, help: str) -> argparse.ArgumentParser:
        made = actions.add_parser(name, help=help, description=help[0].upper() + help[1:] + ".")
        made.add_argument("--db", metavar="WHERE", help="a path or a URL; default: see `andiron db --help`")
        add_json(made)
        return made

    def add_filter(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--op", help="only tasks of the op of this name")
        parser.add_argument("--target", help="only tasks for this target")

    listing = action("list", "list the tasks, with the number of rows and the best time on each machine")
    add_filter(listing)
    listing.add_argument("--limit", type=positive, default=100, metavar="N", help="list so many (100)")
    showing = action("show", "show a task: how many schedules were tried, and the fastest on each machine")
    showing.add_argument("task", metavar="TASK", help="its key, or the beginning of it")
    exporting = action("export", "write measurements to a file: .parquet, or JSON lines for any other name")
    exporting.add_argument("file", metavar="FILE", help="the file; `-` is the output stream")
    add_filter(exporting)
    importing = action("import", "add the measurements of a file that `export` wrote")
    importing.add_argument("file", metavar="FILE", help="the file; `-` is the input stream")
    merging = action("merge", "add the measurements of another database")
    merging.add_argument("other", metavar="OTHER", help="its path or URL")
    pruning = action("prune", "remove measurements, and texts that no other needs")
    pruning.add_argument(
        "--before", type=_time, metavar="DATE", help="only those before it: YYYY-MM-DD, or a time of `show --json`"
    )
    pruning.add_argument(
        "--keep", type=not_negative, metavar="N", help="keep the N fastest schedules of each task and machine, and wrong ones"
    )
    action("check", "read everything, and compare it with its hashes")
    training = action("train", "train a cost model on the measurements, and compare it with the closed form")
    training.add_argument("--target", help="only measurements for this target")


def run(args: argparse.Namespace) -> int:
    from ...runtime.tuning.database.open_database import open_database

    if args.action == "prune" and args.before is None and args.keep is None:
        complain("andiron db prune: error: say what to remove: --before DATE, --keep N, or both")
        return 2
    database = open_database(args.db, create=args.action in ("import", "merge"))  # the others read what is there
    return _ACTIONS[args.action](database, args)


def _list(database: Database, args: argparse.Namespace) -> int:
    tasks = database.tasks(args.op, args.target)
    listed = [database.summary(task) for task in islice(tasks, args.limit)]
    more = next(tasks, None) is not None
    if args.json:
        found = [{**_task_facts(s.task), "rows": s.rows, "best": s.best} for s in listed]
        say_json({"database": database.name, "tasks": found, "more": more})
        return 0
    for s in listed:
        _say(f"{s.task.key[:12]}  {s.rows:>7,} {'row ' if s.rows == 1 else 'rows'}  {_title(s.task)}")
        for machine, seconds in s.best.items():
            _say(f"{'':14}{_time_text(seconds):>10}  {machine}")
    rest = "; there are more: see --limit" if more else ""
    print(f"{counted(len(listed), 'task')} in {database.name}{rest}")
    return 0


def _show(database: Database, args: argparse.Namespace) -> int:
    from ...runtime.native.cpu_name import todays_name

    if not args.task:
        raise NotInModule("the key of the task is empty", help="`andiron db list` shows the keys")
    found = list(islice(database.tasks(key=args.task), 2))
    if len(found) != 1:
        which = "no task has" if not found else "several tasks have"
        raise NotInModule(f"{which} a key that begins with `{args.task}`", help="`andiron db list` shows the keys")
    task = found[0]
    rows = database.find(task.key)
    machines = sorted({todays_name(m.fingerprint) for m in rows})
    best = {machine: choice for machine in machines if (choice := database.best(task.key, machine))}
    if args.json:
        fastest = {machine: {"seconds": c.seconds, "runs": c.runs, "schedule": c.schedule} for machine, c in best.items()}
        say_json(
            {**_task_facts(task), "op": task.op, "device": task.device, "best": fastest, "rows": [_facts(m) for m in rows]}
        )
        return 0
    _say(_title(task))
    print()
    for machine in machines:
        here = [m for m in rows if todays_name(m.fingerprint) == machine]
        counts = ", ".join(f"{n:,} {verdict}" for verdict, n in Counter(m.verdict for m in here).most_common())
        _say(f"{machine}: {counts}; {min(m.time for m in here)[:10]} to {max(m.time for m in here)[:10]}")
        if machine in best:
            runs = f"the median of {best[machine].runs} runs" if best[machine].runs > 1 else "1 run"
            print(f"the fastest takes {_time_text(best[machine].seconds)}, {runs}:\n")
            print(printable(best[machine].schedule, kept="\n\t"))
    return 0


def _export(database: Database, args: argparse.Namespace) -> int:
    from ...runtime.tuning.database.exchange import export_rows

    count = export_rows(database, args.file, args.op, args.target)
    if args.file != "-":
        say_json({"rows": count}) if args.json else print(f"wrote {counted(count, 'row')} to {args.file}")
    return 0


def _import(database: Database, args: argparse.Namespace) -> int:
    from ...runtime.tuning.database.exchange import import_rows

    return _added(database, import_rows(database, args.file, lambda said: complain(f"note: {said}")), args)


def _merge(database: Database, args: argparse.Namespace) -> int:
    from ...runtime.tuning.database.open_database import open_database

    return _added(database, database.merge(open_database(args.other, create=False)), args)


def _added(database: Database, count: int, args: argparse.Namespace) -> int:
    say_json({"added": count}) if args.json else print(f"added {counted(count, 'row')} to {database.name}")
    return 0


def _prune(database: Database, args: argparse.Namespace) -> int:
    count = database.prune(args.before, args.keep)
    say_json({"removed": count}) if args.json else print(f"removed {counted(count, 'row')} from {database.name}")
    return 0


def _check(database: Database, args: argparse.Namespace) -> int:
    faults = list(islice(database.check(), 100))
    if args.json:
        say_json({"database": database.name, "faults": faults})
    else:
        for line in faults or [f"{database.name} is sound"]:
            _say(line)
    return 1 if faults else 0


def _train(database: Database, args: argparse.Namespace) -> int:
    from ...runtime.compile import CompileRequest
    from ...runtime.tuning.learn.train_database import train_database
    from ..tuning.training_report import training_report

    progress = Progress(sys.stderr.isatty())
    try:
        found = train_database(database, CompileRequest.from_text, args.target, progress)
    finally:
        progress.end()
    if args.json:
        models = [m.facts() for m in found.models]
        say_json({"database": database.name, "models": models, "left_out": found.left_out, "too_few": found.too_few})
    else:
        print(printable(training_report(found), kept="\n"))
    return 0


_ACTIONS = {
    "list": _list,
    "show": _show,
    "export": _export,
    "import": _import,
    "merge": _merge,
    "prune": _prune,
    "check": _check,
    "train": _train,
}


def _say(line: str) -> None:
    """One line, whatever others wrote into the database."""
    print(printable(line))


def _title(task: Task) -> str:
    sizes = ", ".join(f"{n}={v}" for n, v in task.sizes.items())
    open_sizes = ", ".join(f"{n} open, measured at {v}" for n, v in task.open_sizes.items())
    return f"{task.op_name}: {'; '.join(x for x in (sizes, open_sizes, task.target) if x)}"


def _task_facts(task: Task) -> dict[str, Any]:
    sizes = {"sizes": task.sizes, "open_sizes": task.open_sizes}
    return {"task": task.key, "op_name": task.op_name, **sizes, "target": task.target, "device_hash": task.device_hash}


def _facts(m: Measurement) -> dict[str, Any]:
    from ...runtime.tuning.database.json_lines import FIELDS

    return {"key": m.key, "seconds": m.seconds, **{name: getattr(m, name) for name in FIELDS}}


def _time_text(seconds: float | None) -> str:
    return "-" if seconds is None else seconds_text(seconds)


def _time(text: str) -> str:
    """The type of `--before`: a time as measurements have it."""
    made = f"{text}T00:00:00Z" if re.fullmatch(r"\d{4}-\d\d-\d\d", text) else text
    try:
        strptime(made, "%Y-%m-%dT%H:%M:%SZ")
    except ValueError:
        raise argparse.ArgumentTypeError(f"`{text}` is no date as 2026-11-01, and no time as 2026-11-01T12:00:00Z") from None
    return made
