"""`Tuning`: what a search found, for people and for programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..timing import duration
from ..variant import Variant


@dataclass
class Trial:
    """One candidate. Number 0 is the schedule as it was.

    predicted  seconds; None: nothing is known      bound     what the prediction says that it waits for
    about      what tells it from others            schedule  explicit, as text
    samples    seconds of a call                    rejected  why it cannot win; "" while it can
    """

    number: int
    about: str
    predicted: float | None
    bound: str
    variant: Variant
    first: float = 0.0
    samples: list[float] = field(default_factory=list)
    rejected: str = ""

    @property
    def schedule(self) -> str:
        return self.variant.schedule

    @property
    def seconds(self) -> float | None:
        """The lower quartile: what it takes when little else is going on."""
        return sorted(self.samples)[len(self.samples) // 4] if self.samples else None

    def as_dict(self) -> dict[str, Any]:
        names = ("number", "about", "predicted", "bound", "seconds", "samples", "rejected", "schedule")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class Tuning:
    """`best` among `trials`; `gain`: how many times faster than the schedule as it was.

    refused      schedules that could not be made, and why
    interrupted  by Ctrl-C, or by the end of the time given: what was found by then counts
    kept         whether the result is in the cache
    note         how results were checked
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

    @property
    def gain(self) -> float:
        mine, base = self.best.seconds, self.trials[0].seconds
        return base / mine if mine and base else 1.0

    @property
    def schedule(self) -> str:
        return self.best.schedule

    def as_dict(self) -> dict[str, Any]:
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
            "candidates": [t.as_dict() for t in order],
            "refused": [{"about": about, "reason": reason} for about, reason in self.refused],
        }

    def __str__(self) -> str:
        sizes = ", ".join(f"{n}={v}" for n, v in self.sizes.items())
        threads = f", threads {self.threads}" if self.threads else ""
        head = f"{self.op}: {sizes}; {self.target}{threads}; {len(self.trials)} candidates in {duration(self.took)}"
        out = [head, *table(self.trials, self.best)]
        if self.refused:
            reasons = dict.fromkeys(reason for _, reason in self.refused)
            out.append(f"  {len(self.refused)} more could not be made: {'; '.join(reasons)}")
        if self.note:
            out.append(f"  note: {self.note}")
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
        predicted = duration(t.predicted) if t.predicted else "-"
        took = duration(t.seconds) if t.seconds is not None else "-"
        about = t.about + (f"; {t.rejected}" if t.rejected else "")
        rows.append([f"{t.number}{'*' if t is best else ' '}", took, predicted, t.bound or "-", about])
    widths = [max(len(r[n]) for r in rows) for n in range(4)]
    return ["  " + "  ".join([*(c.rjust(w) for c, w in zip(r, widths, strict=False)), r[4]]).rstrip() for r in rows]


def _rank(t: Trial) -> tuple[bool, float, int]:
    return bool(t.rejected) and t.number > 0, t.seconds if t.seconds is not None else float("inf"), t.number
