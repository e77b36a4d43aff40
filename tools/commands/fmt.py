"""Format files in place: one layout for all schedules. Comments are kept. With `--upgrade` old spellings become new ones."""

from __future__ import annotations

import argparse
import difflib
import sys

from ...dsl.errors import UserError
from ...runtime.storage.files import read_text, write_text
from ..terminal import complain

NAME = "fmt"
HELP = "format files"
EXAMPLES = ("andiron fmt --diff examples/gemm.sched", "andiron fmt --upgrade --check examples/gemm.sched")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="+", help=".sched files; `-` formats the input stream to the output")
    parser.add_argument("--check", action="store_true", help="write nothing; status 1 when a file would change")
    parser.add_argument("--diff", action="store_true", help="write nothing; print the changes")
    parser.add_argument(
        "--upgrade",
        action="store_true",
        help="replace old spellings of the language; a stated version becomes the newest",
    )


def run(args: argparse.Namespace) -> int:
    from ...dsl.text.format import format_source
    from ...dsl.text.upgrade import upgrade_source

    status = 0
    for path in args.files:
        try:
            text = read_text(path)
            name = "<stdin>" if path == "-" else path
            formatted = format_source(text, name)
            new = upgrade_source(text, name) if args.upgrade else formatted
        except UserError as error:  # the other files are formatted all the same
            complain(error)
            status = 1
            continue
        done = "formatted" if new == formatted else "upgraded"
        if args.diff:
            lines = difflib.unified_diff(text.splitlines(True), new.splitlines(True), path, f"{path} ({done})")
            sys.stdout.writelines(lines)
        if args.check and new != text:
            status = 1
            complain(f"{path}: not {done}")
        if args.check or args.diff:
            continue
        if path == "-":
            sys.stdout.write(new)
        elif new != text:
            write_text(path, new)
            print(f"{path}: {done}")
    return status
