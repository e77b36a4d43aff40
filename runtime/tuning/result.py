"""`Tuning`: the result of a search, for people and for programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...dsl.support.amounts import counted, seconds_text
from ..variant import Variant


@dataclass
class Trial:
    """One candidate of a search.

    number     its number. 0 is the schedule as it was
    about      how it differs from the others
    predicted  the predicted time of a call in seconds, or None
    bound      the memory or the arithmetic that bounds the prediction
    variant    its compiled form
    first      the time of the first call, in seconds
    samples    measured times of a call, in seconds
    rejected   the reason why it cannot win; empty while it can
    verdict    `right` while it can win, else `wrong`, `refused`, `failed to build`, `died`, `late`;
               `unable` where there was no memory, which says nothing of it
    """

    number: int
    about: str
    predicted: float | None
    bound: str
    variant: Variant
    first: float = 0.0
    samples: list[float] = field(default_factory=list)
    rejected: str = ""
    verdict: str = "right"

    def reject(self, verdict: str, reason: str) -> None:
        """Takes the candidate out of the search. It cannot win any more.

        verdict  one of the words for `verdict`
        reason   the reason, for people

        Raises nothing.
        """
        self.verdict, self.rejected = verdict, reason

    @property
    def schedule(self) -> str:
        """Its explicit schedule, as text."""
        return self.variant.schedule

    @property
    def seconds(self) -> float | None:
        """The lower quartile of the samples, in seconds; None without samples. Other work on the machine disturbs it little."""
        return sorted(self.samples)[len(self.samples) // 4] if self.samples else None

    def as_dict(self) -> dict[str, Any]:
        """Gives the candidate as a dictionary of strings, numbers and lists.

        Returns a dictionary from name to value.

        Raises nothing.
        """
        names = ("number", "about", "predicted", "bound", "seconds", "samples", "rejected", "verdict", "schedule")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class Tuning:
    """The result of a search. Printing it gives a table.

    op           the name of the op
    target       the name of the target
    threads      how many threads took part; None for a GPU
    sizes        the sizes of the arrays, by name
    trials       the candidates. The first is the schedule as it was
    best         the fastest candidate
    took         the time of the search, in seconds
    refused      for each schedule that could not be made: a description, and the reason
    interrupted  the reason why the search ended early; empty if it did not
    kept         whether the result is in the cache
    note         how results were checked
    ended        why a search outwards from the first candidates ended; empty if there was none
    """

    op: str
    target: str
    threads: int | None
    sizes: Mapping[str, int]
    trials: tuple[Trial, ...]
    best: Trial
    took: float
    refused: tuple[tuple[str, str], ...] = ()
    interrupted: str = ""
    kept: bool = False
    note: str = ""
    ended: str = ""

    @property
    def gain(self) -> float:
        """The time of the schedule as it was, divided by the time of the best."""
        mine, base = self.best.seconds, self.trials[0].seconds
        return base / mine if mine and base else 1.0

    @property
    def schedule(self) -> str:
        """The explicit schedule of the best, as text."""
        return self.best.schedule

    def as_dict(self) -> dict[str, Any]:
        """Gives the result as dictionaries, lists, strings and numbers. The fastest candidate comes first.

        Returns a dictionary from name to value.

        Raises nothing.
        """
        order = sorted(self.trials, key=_rank)
        return {
            "op": self.op,
            "target": self.target,
            "threads": self.threads,
            "sizes": dict(self.sizes),
            "gain": self.gain,
            "schedule": self.schedule,
            "best": self.best.number,
            "seconds": self.best.seconds,
            "took": self.took,
            "kept": self.kept,
            "interrupted": self.interrupted,
            "note": self.note,
            "ended": self.ended,
            "candidates": [t.as_dict() for t in order],
            "refused": [{"about": about, "reason": reason} for about, reason in self.refused],
        }

    def __str__(self) -> str:
        sizes = ", ".join(f"{n}={v}" for n, v in self.sizes.items())
        threads = f", threads {self.threads}" if self.threads else ""
        head = (
            f"{self.op}: {sizes}; {self.target}{threads}; {counted(len(self.trials), 'candidate')} in {seconds_text(self.took)}"
        )
        out = [head, *table(self.trials, self.best)]
        if self.refused:
            reasons = dict.fromkeys(reason for _, reason in self.refused)
            out.append(f"  {len(self.refused)} more could not be made: {'; '.join(reasons)}")
        if self.note:
            out.append(f"  note: {self.note}")
        if self.ended:
            out.append(f"  the search ended: {self.ended}")
        if self.interrupted:
            out.append(f"  {self.interrupted}: the best so far counts")
        said = "kept in the cache" if self.kept else "not kept"
        if self.best.number == 0:
            out.append(f"nothing is faster than the schedule as it was; {said}")
        else:
            out.append(f"{self.gain:.2f}x as fast as the schedule as it was; {said}")
        return "\n".join(out)


def table(trials: tuple[Trial, ...], best: Trial | None = None) -> list[str]:
    """Lines of a table, the fastest first; those that were rejected last. `best` gets a mark."""
    rows = [["", "time", "predicted", "bound by", ""]]
    for t in sorted(trials, key=_rank):
        predicted = seconds_text(t.predicted) if t.predicted else "-"
        took = seconds_text(t.seconds) if t.seconds is not None else "-"
        about = t.about + (f"; {t.rejected}" if t.rejected else "")
        rows.append([f"{t.number}{'*' if t is best else ' '}", took, predicted, t.bound or "-", about])
    widths = [max(len(r[n]) for r in rows) for n in range(4)]
    return ["  " + "  ".join([*(c.rjust(w) for c, w in zip(r, widths, strict=False)), r[4]]).rstrip() for r in rows]


def _rank(t: Trial) -> tuple[bool, float, int]:
    return bool(t.rejected) and t.number > 0, t.seconds if t.seconds is not None else float("inf"), t.number
