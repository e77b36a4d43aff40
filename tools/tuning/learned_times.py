"""`learned_times`: what a trained model says of the candidates of a kernel, in the order in which tuning would measure them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...dsl.support.amounts import seconds_text
from ...runtime.random_inputs import default_sizes
from ...runtime.tuning.candidates import leaves_open
from ...runtime.tuning.learn.ranker import ranker_for
from ...runtime.tuning.trials import prediction, trials_for

if TYPE_CHECKING:
    from ...runtime.kernel import Kernel


@dataclass(frozen=True)
class LearnedCandidate:
    """A candidate for the whole schedule.

    about    how it differs from the others
    learned  seconds of a call by the model, None where it has no opinion     closed  by the closed form; None: not known
    """

    about: str
    learned: float | None
    closed: float | None


@dataclass(frozen=True)
class LearnedTimes:
    """The candidates as tuning orders them: the schedule as it was, then the fastest by the model.

    how  which model, in words
    """

    how: str
    candidates: tuple[LearnedCandidate, ...]

    def as_dict(self) -> dict[str, Any]:
        """As dictionaries, lists, strings and numbers."""
        return {"note": self.how, "candidates": [vars(c) for c in self.candidates]}

    def __str__(self) -> str:
        rows = [("", "learned", "closed form", "")]
        rows += [(str(n), _text(c.learned), _text(c.closed), c.about) for n, c in enumerate(self.candidates)]
        widths = [max(len(r[n]) for r in rows) for n in range(3)]
        lines = ("  ".join([*(x.rjust(w) for x, w in zip(r, widths, strict=False)), r[3]]).rstrip() for r in rows)
        return "\n".join([f"tuning: {self.how}", *(f"  {line}" for line in lines)])


def learned_times(kernel: Kernel, count: int) -> LearnedTimes | None:
    """Of so many candidates; None where tuning uses no learned model, or the schedule leaves nothing open.

    The model is that of the database which `andiron tune` uses.
    """
    request = kernel.request
    if request is None or not leaves_open(request, 0):
        return None
    dims = default_sizes(kernel.op, kernel.sizes)
    ranker, how = ranker_for(request, None, dims)
    if ranker is None:
        return None
    trials, _ = trials_for(request, 0, count, dims, lambda _: None, ranker=ranker)
    learned = ranker.seconds([t.variant for t in trials])
    closed = (prediction(request, t.variant, dims)[0] for t in trials)
    return LearnedTimes(how, tuple(LearnedCandidate(t.about, a, b) for t, a, b in zip(trials, learned, closed, strict=True)))


def _text(seconds: float | None) -> str:
    return "-" if seconds is None else seconds_text(seconds)
