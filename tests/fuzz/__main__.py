"""Runs random cases, shrinks those that fail, and prints what came of them.

    python -m tests.fuzz --seeds 0..999 --kind schedule --run interpreter

model       an op as a tree that writes itself as text
formula     what that tree means, in NumPy, written without the compiler's own reference evaluator
ops         random op trees
schedules   random schedules for an op on a device
devices     random devices
case        an op, a schedule, a device and sizes: all that is needed to run it again
heads       the head of a schedule, its parameters and strategies
drawn       the case of a seed; of the kinds `wide-...` and `product` by the generators in `wide`
execute     runs a case in the interpreter and under the emulator, compares it with the formula, and counts its points
native      runs cases on this CPU, many to a text
shrink      the smallest case that still fails in the same way
"""

from __future__ import annotations

import argparse
import sys

from .drawn import KINDS, WIDE, drawn
from .runner import Summary, many


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description="random cases", epilog=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seeds", default="0..99", help="A..B, both ends included, or one")
    parser.add_argument("--kind", default="schedule", choices=(*KINDS, *WIDE))
    parser.add_argument(
        "--run", default="interpreter", choices=("compile", "fed-back", "interpreter", "verify", "native", "emulate")
    )
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--no-shrink", action="store_true", help="print failing cases as they are")
    parser.add_argument("--show", action="store_true", help="print the cases, run nothing")
    given = parser.parse_args()
    if (given.kind, given.run) == ("device", "native"):
        parser.error("no machine is a device of kind `device`; take `wide-device`")
    first, _, last = given.seeds.partition("..")
    seeds = range(int(first), int(last or first) + 1)
    if given.show:
        for seed in seeds:
            print(drawn(seed, given.kind, given.run), end="\n\n")
        return 0
    summary = Summary()
    for seed, outcome, text in many(seeds, given.kind, given.run, given.jobs, not given.no_shrink):
        summary.add(seed, outcome, text)
        if outcome.failed:
            print(f"---- seed {seed}: {outcome.kind} {outcome.id}\n{text}\n", flush=True)
    print(summary)
    return 1 if summary.failures else 0


if __name__ == "__main__":
    sys.exit(main())
