"""Iterations of a loop that is entered at many points at once, in arrays: all of them, or a few that stand for the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class LoopIterations:
    """`points`: how many the loop is entered at. For each iteration its point, its number, and how many it stands for."""

    points: int
    owner: np.ndarray
    number: np.ndarray
    weight: np.ndarray

    def at_owner(self, x: Any) -> Any:
        """What an iteration has of its point: of a number for all points that number."""
        return np.broadcast_to(x, (self.points,))[self.owner] if np.ndim(x) else x

    def variables(self, env: Mapping[str, Any], var: str, start: Any, step: Any) -> dict[str, Any]:
        """The variables in the body of the loop over `var`."""
        inside = {k: self.at_owner(v) for k, v in env.items()}
        inside[var] = self.at_owner(start) + self.number * self.at_owner(step)
        return inside


def all_iterations(trips: np.ndarray) -> LoopIterations:
    """Each iteration; `trips`: how many there are at each point."""
    owner = np.repeat(np.arange(len(trips)), trips)
    number = np.arange(len(owner)) - np.repeat(np.cumsum(trips) - trips, trips)
    return LoopIterations(len(trips), owner, number, np.ones(len(owner)))


def end_iterations(trips: np.ndarray) -> LoopIterations:
    """The first, the second for all in between, and the last."""
    n = len(trips)
    number = np.concatenate([np.zeros(n, np.int64), np.ones(n, np.int64), trips - 1])
    weight = np.concatenate([np.ones(n), trips - 2.0, np.ones(n)])
    some = np.concatenate([trips > 0, trips > 2, trips > 1])
    return LoopIterations(n, np.tile(np.arange(n), 3)[some], number[some], weight[some])
