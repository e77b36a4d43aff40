"""How well an order of a task's schedules fits their times.

tau        Kendall's: of pairs of schedules, those in the right order less those in the wrong one, as a share of all pairs that
           the times and the scores tell apart (tau b; Kendall, "The treatment of ties in ranking problems", 1945)
regret@k   how much slower the best of the first k schedules is than the best of all: 0.1 is 10 % slower
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

FIRST = (1, 10)  # k of regret@k


@dataclass(frozen=True)
class Figures:
    """Of many tasks, by the name of the figure: the mean and the median."""

    mean: Mapping[str, float]
    median: Mapping[str, float]


def kendall_tau(scores: np.ndarray, seconds: np.ndarray) -> float:
    """Of one task; 0 where the scores, or the times, are all alike."""
    above = np.triu_indices(len(scores), 1)
    a, b = (np.sign(x[above[0]] - x[above[1]]) for x in (scores, seconds))
    pairs = np.sqrt(float(np.abs(a).sum()) * float(np.abs(b).sum()))
    return float((a * b).sum() / pairs) if pairs else 0.0


def regret(scores: np.ndarray, seconds: np.ndarray, first: int) -> float:
    """Of one task; scores that are alike stand in the order in which they are given."""
    chosen = np.argsort(scores, kind="stable")[:first]
    return float(seconds[chosen].min() / seconds.min() - 1)


def task_figures(scores: np.ndarray, seconds: np.ndarray) -> dict[str, float]:
    """All figures of one task. Small scores are for small times."""
    return {"tau": kendall_tau(scores, seconds)} | {f"regret@{k}": regret(scores, seconds, k) for k in FIRST}


def summary(tasks: Sequence[Mapping[str, float]]) -> Figures:
    """Of the figures of many tasks."""
    columns = {name: [t[name] for t in tasks] for name in tasks[0]}
    return Figures(
        {name: float(np.mean(x)) for name, x in columns.items()}, {name: float(np.median(x)) for name, x in columns.items()}
    )
