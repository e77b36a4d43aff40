"""Print a schedule with all lines that the compiler fills in. The result is a schedule that you can edit and compile."""

from __future__ import annotations

import argparse

from ..options import add_choice, add_file, add_json, kernel_of
from ..terminal import complain, say_json

NAME = "complete"
HELP = "print the schedule with all its lines"
EXAMPLES = ("andiron complete examples/gemm.sched --schedule simple --target cpu:avx2",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_file(parser)
    add_choice(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    kernel = kernel_of(args)
    texts = [v.schedule.rstrip("\n") for v in kernel.variants]
    notes = list(dict.fromkeys(n for v in kernel.variants for n in v.facts.get("notes", ())))
    if args.json:
        tuned = kernel.tuned and str(kernel.tuned)
        say_json({"op": kernel.op.name, "target": kernel.target, "schedules": texts, "tuned": tuned, "notes": notes})
        return 0
    for note in notes:
        complain(f"note: {note}")
    if kernel.tuned is not None:
        print(f"# {kernel.tuned}")
    print("\n\n".join(texts))
    return 0
