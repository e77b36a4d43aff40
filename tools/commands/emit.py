"""Print the text that a schedule compiles to, or an earlier stage of it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...runtime.storage.files import write_text
from ..options import add_choice, add_file, kernel_of

if TYPE_CHECKING:
    from ...runtime.kernel import Kernel

NAME = "emit"
HELP = "print the emitted text"
EXAMPLES = (
    "andiron emit examples/gemm.sched --target cuda:sm_80 -o gemm.cu",
    "andiron emit examples/gemm.sched --stage program",
)


def _op(kernel: Kernel) -> str:
    from ...dsl.text.format import format_node

    return format_node(kernel.op.decl) if kernel.op.decl else repr(kernel.op)


def _program(kernel: Kernel) -> str:
    from ...codegen.ir.printer import show

    return show(kernel.program)


def _specs(kernel: Kernel) -> str:
    from ...codegen.lower.schedule_trace import show_trace

    return show_trace(kernel.trace)


def _barriers(kernel: Kernel) -> str:
    from ...codegen.ir.printer import show_barriers

    return show_barriers(kernel.program)


# Every stage by name, in the order of the compiler. The last one is the default.
_STAGES: dict[str, Callable[[Kernel], str]] = {
    "op": _op,
    "schedule": lambda kernel: kernel.schedule,
    "specs": _specs,
    "program": _program,
    "barriers": _barriers,
    "text": lambda kernel: kernel.source,
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
