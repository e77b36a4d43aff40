"""Print a schedule with all lines that the compiler fills in. The result is a schedule that you can edit and compile."""

from __future__ import annotations

import argparse
from itertools import count

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
    texts = _named_apart([v.schedule.rstrip("\n") for v in kernel.variants])
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


def _named_apart(texts: list[str]) -> list[str]:
    """Schedules for different sizes, of which no two have one name: then the file may have all of them.

    One that says what an earlier one says is never taken: the compiler's own, in a file that has it as text.
    """
    names: list[str] = []
    said: set[str] = set()
    out = []
    for text in texts:
        word, name, rest = text.split(" ", 2)
        if rest in said:
            continue
        said.add(rest)
        apart = next(x for n in count(1) if (x := name if n == 1 else f"{name}_{n}") not in names)
        names.append(apart)
        out.append(f"{word} {apart} {rest}")
    return out
