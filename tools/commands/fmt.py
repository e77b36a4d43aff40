"""Format files in place: one layout for all schedules. Comments are kept."""

from __future__ import annotations

import argparse
import difflib
import sys

from ...dsl.errors import UserError
from ...runtime.storage.files import read_text, write_text
from ..terminal import complain

NAME = "fmt"
HELP = "format files"
EXAMPLES = ("andiron fmt --diff examples/gemm.sched",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="+", help=".sched files; `-` formats the input stream to the output")
    parser.add_argument("--check", action="store_true", help="write nothing; status 1 when a file is not formatted")
    parser.add_argument("--diff", action="store_true", help="write nothing; print what would change")


def run(args: argparse.Namespace) -> int:
    from ...dsl.text.format import format_source

    status = 0
    for path in args.files:
        try:
            text = read_text(path)
            new = format_source(text, "<stdin>" if path == "-" else path)
        except UserError as error:  # the other files are formatted all the same
            complain(error)
            status = 1
            continue
        if args.diff:
            lines = difflib.unified_diff(text.splitlines(True), new.splitlines(True), path, f"{path} (formatted)")
            sys.stdout.writelines(lines)
        if args.check and new != text:
            status = 1
            complain(f"{path}: not formatted")
        if args.check or args.diff:
            continue
        if path == "-":
            sys.stdout.write(new)
        elif new != text:
            write_text(path, new)
            print(f"{path}: formatted")
    return status
