"""`train_model`: trees for a kind of machine, and whether they order schedules of other ops better than the closed form does.

BY_OP    Ops are split into parts. The trees that order an op's schedules have seen none of it: no row, no other size.
BETTER   The mean tau over ops is higher, by more than chance explains (one-sided, 5 %); the schedule that comes first is at
         least as fast; and the best of the first ten is not slower, by more than chance explains.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ....dsl.errors.database import TooFewMeasurements
from ...native.build_library import version
from ..database.measurement import utc_now
from . import trees
from .features import NAMES
from .figures import summary, task_figures
from .model_store import LearnedModel
from .training_set import Kind, MeasuredTask, by_op

PARTS = 10  # BY_OP
FEWEST_OPS, FEWEST_ROWS = 5, 100  # below them no part of the rows says anything about the others
_CHANCE = 1.645  # BETTER: standard errors that chance exceeds once in 20 times


def train_model(kind: Kind, tasks: Sequence[MeasuredTask], say: Callable[[str], None]) -> LearnedModel:
    """Trains for a kind of machine: for the figures without each part of the ops, then with all of them.

    say  is told of progress

    Raises TooFewMeasurements, NoPackage.
    """
    groups = list(by_op(list(tasks)))
    rows = sum(len(t.seconds) for t in tasks)
    if len(groups) < FEWEST_OPS or rows < FEWEST_ROWS:
        raise TooFewMeasurements(
            f"{rows:,} schedules of {len(groups)} ops were measured for {kind[0]} on {kind[1]}",
            help=f"measure {FEWEST_ROWS} schedules of {FEWEST_OPS} ops at least: `andiron tune --tasks FILE`",
        )
    parts = min(PARTS, len(groups))
    closed: dict[str, dict[str, float]] = {}
    learned: dict[str, dict[str, float]] = {}
    for part in range(parts):
        say(f"part {part + 1} of {parts}")
        held_out = {op for n, (op, _) in enumerate(groups) if n % parts == part}
        model = trees.Trees(trees.fit([t for t in tasks if t.op[0] not in held_out], NAMES))
        for t in tasks:
            if t.op[0] in held_out:
                closed[t.key] = task_figures(t.predicted, t.seconds)
                learned[t.key] = task_figures(np.log(t.predicted) + model.correct(t.features), t.seconds)
    say("all ops")
    text = trees.fit(tasks, NAMES)
    offsets = [float(np.mean(np.log(t.seconds / t.predicted))) for t in tasks]
    return LearnedModel(
        *kind, rows, len(tasks), len(groups), summary(list(closed.values())), summary(list(learned.values())),
        _refusal(groups, closed, learned), float(np.median(offsets)), trees.importances(text), version(), utc_now(), text,
    )  # fmt: skip


def _refusal(
    groups: Sequence[tuple[str, list[MeasuredTask]]],
    closed: Mapping[str, Mapping[str, float]],
    learned: Mapping[str, Mapping[str, float]],
) -> str:
    """BETTER. Why it is not; "" where it is."""

    def gains(name: str) -> np.ndarray:
        """By op, the mean of what the learned figure is more than the closed form's."""
        return np.array([np.mean([learned[t.key][name] - closed[t.key][name] for t in tasks]) for _, tasks in groups])

    def error(x: np.ndarray) -> float:
        return float(x.std(ddof=1) / np.sqrt(len(x)))

    tau, first, ten = gains("tau"), gains("regret@1"), gains("regret@10")
    if tau.mean() <= _CHANCE * error(tau):
        return "on ops that it has not seen, its order is no better than the closed form's, or not by more than chance"
    if first.mean() > 0:
        return "on ops that it has not seen, what it puts first is slower than what the closed form puts first"
    if ten.mean() > _CHANCE * error(ten):
        return "on ops that it has not seen, its first ten schedules are slower than the closed form's"
    return ""
