"""Check files: their syntax, their ops, and that each schedule compiles for its device. Nothing is run."""

from __future__ import annotations

import argparse

from ..dsl.errors import UserError
from .options import add_json
from .terminal import as_json, complain, say_json

NAME = "check"
HELP = "report the mistakes in files"
EXAMPLES = ("andiron check examples/gemm.sched examples/conv2d.sched",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="+", help=".sched files, `-` for the input stream")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    found = []
    for path in args.files:
        try:
            _check(path)
        except UserError as error:
            found += as_json(error)
            if not args.json:
                complain(error)
    if args.json:
        say_json({"errors": found})
    elif not found:
        print(f"{len(args.files)} file{'s' if len(args.files) > 1 else ''}: no mistakes")
    return 1 if found else 0


def _check(path: str) -> None:
    """All mistakes of a file at once: its ops, its devices, and each schedule whose op and device are right."""
    from ..dsl.module import survey
    from ..runtime.compile import check_schedules
    from ..runtime.files import read_text

    if path == "-":
        module, diagnostics = survey(text=read_text("-"), name="<stdin>", base=".")
    else:
        module, diagnostics = survey(path)
    for error in check_schedules(module):
        diagnostics.add(error)
    diagnostics.raise_if_any()
