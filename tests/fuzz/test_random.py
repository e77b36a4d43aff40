"""Random schedules, ops and devices: right, or refused with a line; in the interpreter, on this CPU and under the emulator.
What is printed of them is fed back.

Fixed seeds; `FUZZ=5000 python -m pytest tests/fuzz` runs as many new ones and says from which seed on (`FUZZ_FROM` sets it).
What fails is printed as drawn: `python -m tests.fuzz --seeds N` shrinks it.
"""

from __future__ import annotations

from collections import Counter

import pytest

from ..support.cpp.build import COMPILERS
from ..support.random.counts import case_count, first_seed
from .drawn import drawn
from .execute import Outcome, run
from .native import outcomes
from .runner import Summary

CASES = case_count(0)
FIRST = first_seed(250)
BATCH = 5
# how many seeds of each kind are run where; `FUZZ=N` runs N of the first, and of the others in proportion
COUNTS = {
    ("schedule", "interpreter"): 20,
    ("op", "interpreter"): 5,
    ("device", "interpreter"): 5,
    ("schedule", "native"): 5,
    ("op", "native"): 5,
    ("schedule", "emulate"): 5,
    ("wide-schedule", "interpreter"): 5,
    ("wide-device", "interpreter"): 5,
    ("wide-op", "interpreter"): 5,
    ("product", "interpreter"): 5,
    ("wide-schedule", "native"): 5,
    ("wide-device", "native"): 5,
    ("product", "native"): 5,
    ("product", "emulate"): 5,
    ("schedule", "fed-back"): 5,
    ("wide-schedule", "fed-back"): 5,
    ("device", "fed-back"): 5,
    ("product", "fed-back"): 5,
}
# seeds that fail today, each for a cause that is known; they are run again once it is mended
LEFT_OUT: dict[tuple[str, str], set[int]] = {}
LEAST = 0.45  # of the schedules, those that are accepted


def batches(*hows: str) -> list[tuple[str, str, int]]:
    """The kind, how it is run, and the number of the batch."""
    return [
        (kind, how, n)
        for (kind, how), count in COUNTS.items()
        if how in hows
        for n in range((CASES * count // COUNTS["schedule", "interpreter"] if CASES else count) // BATCH)
    ]


def summed(kind: str, how: str, n: int) -> Summary:
    seeds = range(FIRST + n * BATCH, FIRST + (n + 1) * BATCH)
    cases = {s: drawn(s, kind, how) for s in seeds if s not in LEFT_OUT.get((kind, how), ())}
    found = outcomes(list(cases.values())) if how == "native" else {s: run(c, how) for s, c in cases.items()}
    total = Summary()
    for s, outcome in found.items():
        total.add(s, outcome, str(cases[s]))
    return total


def right(total: Summary, kind: str, how: str) -> None:
    texts = [f"{kind} {how} seed {s}: {o.kind} {o.id}\n{text}\n{o.text}" for s, o, text in total.failures]
    assert not texts, f"{len(texts)} failed (FUZZ_FROM={FIRST})\n" + "\n\n".join(texts)
    if kind in ("op", "wide-op"):
        assert not total.refused, total


@pytest.mark.parametrize(("kind", "how", "n"), batches("interpreter", "emulate"))
def test_results(kind: str, how: str, n: int) -> None:
    right(summed(kind, how, n), kind, how)


@pytest.mark.parametrize(("kind", "how", "n"), batches("fed-back"))
def test_printed_schedules_are_the_same(kind: str, how: str, n: int) -> None:
    """Law 2: what the compiler chose is a schedule, which gives the same program."""
    right(summed(kind, how, n), kind, how)


@pytest.mark.skipif(COMPILERS[0] != "gcc", reason="no g++")
@pytest.mark.parametrize(("kind", "how", "n"), batches("native"))
def test_results_on_this_machine(kind: str, how: str, n: int) -> None:
    total = summed(kind, how, n)
    if not total.outcomes:
        pytest.skip("this machine runs none of them")
    right(total, kind, how)


@pytest.mark.parametrize("kind", ["schedule", "wide-schedule", "product"] if CASES else ["schedule"])
def test_most_schedules_are_accepted(kind, record_property) -> None:
    """Of those that the interpreter runs: what refuses much mends nothing."""
    count = CASES or COUNTS[kind, "interpreter"]
    found: Counter[str] = Counter(
        run(drawn(s, kind), "compile").kind for s in range(FIRST, FIRST + (CASES or min(2 * count, 20)))
    )
    total = Summary()
    for outcome, n in found.items():
        for _ in range(n):
            total.add(0, Outcome(outcome), "")
    print(f"\n{total.share:.0%} of {found.total()} cases of kind {kind} are accepted (from seed {FIRST})")
    record_property("accepted", f"{total.share:.3f}")
    assert total.share >= LEAST, total
