"""Say what a schedule does without running it: each line with the spec it leaves, footprints, bytes moved, predicted time."""

from __future__ import annotations

import argparse

from .options import add_choice, add_file, add_json, kernel_of
from .terminal import say_json

NAME = "explain"
HELP = "say what a schedule does, without running it"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_file(parser)
    add_choice(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    kernel = kernel_of(args)
    if args.json:
        say_json({**kernel.report.as_dict(), "schedule": kernel.schedule})
    else:
        from ..codegen.lower.trace import show_trace

        print(show_trace(kernel.trace))
        print(kernel.report)
    return 0
