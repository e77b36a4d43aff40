"""Write one page about a kernel: its tiles, who holds what, what moves, the roofline, schedule and code side by side."""

from __future__ import annotations

import argparse

from ...runtime.storage.files import write_text
from ..options import add_choice, add_file, kernel_of

NAME = "view"
HELP = "write a page about a kernel"
EXAMPLES = ("andiron view examples/gemm.sched --schedule blocked -o gemm.html",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_file(parser)
    add_choice(parser)
    parser.add_argument("-o", "--output", default="andiron.html", metavar="PAGE", help="the page (andiron.html)")


def run(args: argparse.Namespace) -> int:
    from .page import page

    kernel = kernel_of(args)
    write_text(args.output, page(kernel))
    print(f"wrote {args.output}")
    return 0
