"""`train_database`: a model for each kind of machine that a database has measurements of, stored beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ....dsl.errors.database import TooFewMeasurements
from ....dsl.support.amounts import counted
from ..database.database import Database
from .model_store import LearnedModel, store_model
from .train_model import train_model
from .training_set import training_set
from .trees import lightgbm

if TYPE_CHECKING:
    from ...compile import CompileRequest


@dataclass(frozen=True)
class Training:
    """What was trained.

    left_out  how many measurements were of no use, by the reason
    too_few   why kinds of machines have no model
    """

    models: tuple[LearnedModel, ...]
    left_out: Mapping[str, int]
    too_few: tuple[str, ...]


def train_database(
    database: Database,
    resolve: Callable[..., CompileRequest],
    target: str | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Training:
    """Trains, and adds the models to the database. What was computed stays in the cache when it is interrupted.

    resolve  `CompileRequest.from_text`     target  only measurements for it     say  is told of progress

    Raises TooFewMeasurements, NoPackage, and what the database raises.
    """
    lightgbm()
    found = training_set(database, resolve, target, say)
    models: list[LearnedModel] = []
    too_few: list[TooFewMeasurements] = []
    for kind, tasks in sorted(found.kinds.items()):
        try:
            models.append(train_model(kind, tasks, lambda text, kind=kind: say(f"{kind[0]} on {kind[1]}: {text}")))
        except TooFewMeasurements as error:
            too_few.append(error)
            continue
        store_model(database, models[-1])
    if not models:
        raise too_few[0] if too_few else _nothing(database, found.left_out)
    return Training(tuple(models), dict(found.left_out), tuple(e.message for e in too_few))


def _nothing(database: Database, left_out: Mapping[str, int]) -> TooFewMeasurements:
    reasons = "; ".join(f"{counted(n, 'row')} left out: {reason}" for reason, n in left_out.items())
    return TooFewMeasurements(
        f"{database.name} has no schedules to compare{': ' if reasons else ''}{reasons}",
        help="measure some: `andiron tune --tasks FILE`",
    )
