"""Check files: their syntax, their ops, and that each schedule compiles for its device. A slow schedule gets a warning. No
kernel is run. With `--verify` the interpreter executes each compiled program at several small sizes, and compilers report
spills. This takes seconds for a schedule. The exit status is 1 for mistakes, and 0 if there are only warnings."""

from __future__ import annotations

import argparse

from ...dsl.errors import UserError
from ..options import add_json
from ..terminal import complain, say_json

NAME = "check"
HELP = "report mistakes in files, and slow schedules"
EXAMPLES = (
    "andiron check examples/gemm.sched examples/conv2d.sched",
    "andiron check --verify examples/softmax.sched",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="+", help=".sched files, `-` for the input stream")
    parser.add_argument("--verify", action="store_true", help="check that each point counts once, and report spills")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from ..checks.file_findings import FileFindings, Finding, check_file

    answers = []
    for path in args.files:
        try:
            answer = check_file(path, args.verify)
        except UserError as error:
            answer = FileFindings(Finding.of(error))
        answers.append(answer)
        if not args.json:
            for said in (*answer.errors, *answer.warnings):
                complain(said.text)
            for said in answer.verified:
                print(said.text)
    errors, warnings = ([x for a in answers for x in getattr(a, name)] for name in ("errors", "warnings"))
    if args.json:
        verified = {"verified": [x.json for a in answers for x in a.verified]} if args.verify else {}
        say_json({"errors": [x.json for x in errors], "warnings": [x.json for x in warnings], **verified})
    elif not errors:
        slow = f", {_count(len(warnings), 'warning')}" if warnings else ""
        print(f"{_count(len(args.files), 'file')}: no mistakes{slow}")
    return 1 if errors else 0


def _count(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"
