"""Print the source code of a schedule, an earlier stage of it, or the effects of the compiler's passes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from difflib import unified_diff
from time import perf_counter
from typing import TYPE_CHECKING

from ...runtime.storage.files import write_text
from ..options import add_choice, add_file, kernel_of, request_of
from ..terminal import complain

if TYPE_CHECKING:
    from ...codegen.record_passes import PassRecord
    from ...runtime.kernel import Kernel

NAME = "emit"
HELP = "print the source code"
EXAMPLES = (
    "andiron emit examples/gemm.sched --target cuda:sm_80 -o gemm.cu",
    "andiron emit examples/gemm.sched --stage program",
    "andiron emit examples/gemm.sched --stage place_barriers --diff",
    "andiron emit examples/gemm.sched --timings",
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


def _stage(name: str) -> str:
    """The type of `--stage`: a stage, or a pass of the compiler."""
    from ...codegen.pipeline import PASSES

    if name in _STAGES or name in (passes := [x.name for x in PASSES]):
        return name
    stages = f"the stages {', '.join(_STAGES)}, and after the passes {', '.join(passes)}"
    raise argparse.ArgumentTypeError(f"there is no stage `{name}`; there are {stages}")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_file(parser)
    add_choice(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="the file to write; default: the output stream")
    parser.add_argument(
        "--stage",
        type=_stage,
        metavar="NAME",
        default="text",
        help=f"the stage to print: {', '.join(_STAGES)}, or the state after a pass (docs/passes.md); default: the source code",
    )
    parser.add_argument("--diff", action="store_true", help="print the changes of the pass")
    parser.add_argument("--timings", action="store_true", help="print the time of each pass instead")


def run(args: argparse.Namespace) -> int:
    if args.diff and args.stage in _STAGES:
        complain(f"andiron emit: error: --diff is for a pass, as in `--stage place_barriers`, not for {args.stage}")
        return 2
    if args.timings:
        text = _timings(args)
    elif args.stage in _STAGES:
        text = _STAGES[args.stage](kernel_of(args))
    else:
        text = _after(args)
    if args.output and args.output != "-":
        write_text(args.output, text.rstrip("\n") + "\n")
    else:
        sys.stdout.write(text.rstrip("\n") + "\n")
    return 0


def _after(args: argparse.Namespace) -> str:
    """What is known after a pass, or what it changed."""
    records = request_of(args).passes()[1]
    n = [x.name for x in records].index(args.stage)
    if not args.diff:
        return records[n].text
    before, after = records[n - 1].text if n else "", records[n].text
    names = (records[n - 1].name if n else "nothing", records[n].name)
    changed = unified_diff(before.splitlines(), after.splitlines(), *names, lineterm="")
    return "\n".join(changed) or f"{args.stage} changed nothing"


def _timings(args: argparse.Namespace) -> str:
    """A table of the passes, and of the printer of the text."""
    from ...codegen.record_passes import PassRecord

    request = request_of(args)
    compiled, records = request.passes(texts=False)
    began = perf_counter()
    request.emitted(compiled.program)
    return _table([*records, PassRecord("text", "", perf_counter() - began)])


def _table(records: list[PassRecord]) -> str:
    total = sum(x.seconds for x in records)
    rows = [(x.name, f"{x.seconds * 1e3:.2f} ms", f"{x.seconds / total:.0%}") for x in records]
    rows.append(("total", f"{total * 1e3:.2f} ms", ""))
    widths = [max(len(row[n]) for row in rows) for n in range(3)]
    return "\n".join(f"{a:{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}".rstrip() for a, b, c in rows)
