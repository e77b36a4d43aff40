"""Print the text that a schedule compiles to, or an earlier stage of it."""

from __future__ import annotations

import argparse
import sys

from .files import write_text
from .options import add_choice, add_file, kernel_of

NAME = "emit"
HELP = "print the emitted text"

# Every stage by name, the way it is got from a kernel. The last one is the default.
_STAGES = {
    "op": lambda k: str(k.op),
    "schedule": lambda k: k.schedule,
    "program": lambda k: str(k.program),
    "text": lambda k: k.source,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_file(parser)
    add_choice(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="write here instead of to the output stream")
    parser.add_argument("--stage", choices=list(_STAGES), default="text", help="what to print; default: the emitted text")


def run(args: argparse.Namespace) -> int:
    text = _STAGES[args.stage](kernel_of(args)).rstrip("\n") + "\n"
    if args.output and args.output != "-":
        write_text(args.output, text)
    else:
        sys.stdout.write(text)
    return 0
