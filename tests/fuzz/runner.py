"""Many cases in processes of their own, which a case that never ends cannot hold up, and what came of them."""

from __future__ import annotations

import multiprocessing
import resource
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait

from .case import Case
from .drawn import drawn
from .execute import Late, Outcome, run
from .native import one as native_one
from .shrink import shrunk

SECONDS = 60  # for one run of a case; what takes longer is a hang
SHRINKING = 60  # seconds for a case that fails
MEMORY = 8 << 30


@dataclass
class Summary:
    outcomes: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[int, Outcome, str]] = field(default_factory=list)

    def add(self, seed: int, outcome: Outcome, text: str) -> None:
        self.outcomes[outcome.kind] += 1
        if outcome.kind in ("refused", "invalid"):
            self.refused[outcome.id] += 1
        if outcome.failed:
            self.failures.append((seed, outcome, text))

    @property
    def share(self) -> float:
        """Of the cases whose op is one, those that were accepted."""
        whole = self.outcomes.total() - self.outcomes["invalid"]
        return (whole - self.outcomes["refused"]) / whole if whole else 1.0

    def __str__(self) -> str:
        accepted = self.outcomes.total() - self.outcomes["refused"] - self.outcomes["invalid"]
        refused = ", ".join(f"{n} {i}" for i, n in self.refused.most_common())
        total, right, long = self.outcomes.total(), self.outcomes["right"], self.outcomes["long"]
        kinds = Counter(f"{o.kind} {o.id}".strip() for _, o, _ in self.failures)
        failed = ", ".join(f"{n} {i}" for i, n in kinds.most_common())
        return (
            f"{total} cases: {accepted} accepted ({self.share:.0%}), {right} right, {long} too long to run, "
            f"{len(self.failures)} failed\nrefused: {refused}\nfailed: {failed or 'none'}"
        )


def limited(function: Callable[[Case], Outcome], seconds: int = SECONDS) -> Callable[[Case], Outcome]:
    """`function`, whose Python code is broken off after so many seconds."""

    def late(_signal: int, _frame: object) -> None:
        raise Late

    def bounded(case: Case) -> Outcome:
        before = signal.signal(signal.SIGALRM, late)
        signal.alarm(seconds)
        try:
            return function(case)
        except Late:
            return Outcome("hang", "", f"over {seconds} s")
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, before)

    return bounded


def one(seed: int, kind: str, how: str, shrinks: bool) -> tuple[Outcome, str]:
    """What comes of a seed; with `shrinks`, the text is that of the smallest case that fails so."""
    case = drawn(seed, kind, how)
    runs = native_one if how == "native" else lambda c: run(c, how)
    outcome = limited(runs)(case)
    if outcome.failed and shrinks:
        attempts, end = 20 if outcome.kind == "hang" else 1200, time.monotonic() + SHRINKING
        quick = limited(runs, 10)
        if quick(case).same(outcome):
            small, found = shrunk(case, quick, attempts, lambda: time.monotonic() > end)
            return outcome, f"{small}\n{found.text}"
    return outcome, f"{case}\n{outcome.text}" if outcome.failed else ""


def _work(pipe: Connection, kind: str, how: str, shrinks: bool) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    while (seed := pipe.recv()) is not None:
        pipe.send((seed, *one(seed, kind, how, shrinks)))


class _Worker:
    def __init__(self, kind: str, how: str, shrinks: bool) -> None:
        context = multiprocessing.get_context("fork")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, kind, how, shrinks))
        self.process.start()
        theirs.close()
        self.seed: int | None = None
        self.since = 0.0

    def give(self, seed: int) -> None:
        self.seed, self.since = seed, time.monotonic()
        self.pipe.send(seed)

    def end(self) -> None:
        self.process.kill()
        self.process.join()


def many(seeds: Iterable[int], kind: str, how: str, jobs: int = 1, shrinks: bool = True) -> Iterator[tuple[int, Outcome, str]]:
    """The outcome of each seed as it comes, and the text of the case where it failed."""
    todo = iter(seeds)
    limit = 2 * SECONDS + (2 * SHRINKING if shrinks else 0)
    workers = [_Worker(kind, how, shrinks) for _ in range(jobs)]
    try:
        for w in workers:
            if (seed := next(todo, None)) is not None:
                w.give(seed)
        while busy := [w for w in workers if w.seed is not None]:
            ready = wait([w.pipe for w in busy], timeout=5)
            for n, w in enumerate(workers):
                if w.seed is None:
                    continue
                answer: tuple[int, Outcome, str] | None = None
                if w.pipe in ready:
                    try:
                        answer = w.pipe.recv()
                    except EOFError:
                        answer = (
                            w.seed,
                            Outcome("crash", "", f"the process ended: {w.process.exitcode}"),
                            str(drawn(w.seed, kind, how)),
                        )
                elif time.monotonic() - w.since > limit:
                    answer = w.seed, Outcome("hang", "", f"over {limit} s"), str(drawn(w.seed, kind, how))
                if answer is None:
                    continue
                yield answer
                if answer[1].kind in ("crash", "hang"):
                    w.end()
                    w = workers[n] = _Worker(kind, how, shrinks)
                w.seed = None
                if (seed := next(todo, None)) is not None:
                    w.give(seed)
    finally:
        for w in workers:
            w.end()
