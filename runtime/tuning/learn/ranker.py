"""`ranker_for`: an order of candidates by a learned model, where a database has one that may be used.

USED  The model is of this kind of machine, its features are of this version, and on ops that it had not seen it was better than
      the closed form. Otherwise the closed form ranks, and the reason is stated.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ....dsl.errors import AndironError, UserError
from ....dsl.support.amounts import counted
from ....dsl.text.parser import parse_schedule
from ...random_inputs import default_sizes
from ...variant import Variant
from ..database.database import Database
from ..database.describe import fingerprint_of
from ..database.open_database import open_database
from .model_store import LearnedModel, newest_model
from .schedule_features import ScheduleFeatures, features_of_program
from .trees import Trees, means

if TYPE_CHECKING:
    from ...compile import CompileRequest


class Ranker:
    """Predicts the seconds of a call by schedules of one request; called with one, or `seconds` of several.

    The trees compare a schedule with others of the same task. Those that are asked for first are these others: ask for the
    constructed candidates first, and all at once.

    sizes  of all dimensions of the op, at which candidates are measured
    """

    def __init__(self, request: CompileRequest, model: LearnedModel, sizes: Mapping[str, int]) -> None:
        self.model = model
        self._request, self._sizes, self._trees = request, sizes, Trees(model.trees)
        self._centre: np.ndarray | None = None

    def __call__(self, variant: Variant) -> float | None:
        """The predicted seconds of one; None where the model has no opinion."""
        return self.seconds([variant])[0]

    def seconds(self, variants: Sequence[Variant]) -> list[float | None]:
        """The predicted seconds of each."""
        described = [self._features(v) for v in variants]
        there = [s for s in described if s is not None]
        if not there:
            return [None] * len(variants)
        features = np.array([s.features for s in there])
        if self._centre is None:
            self._centre = means(features)
        logs = np.log([s.seconds for s in there]) + self._trees.correct(features, self._centre) + self.model.offset
        found = iter(np.exp(logs).tolist())
        return [next(found) if s is not None else None for s in described]

    def best(self, variants: Sequence[Variant], count: int) -> list[tuple[int, float | None]]:
        """The places of the `count` best in order, with their seconds. Those without an opinion come last, in their order."""
        found = list(enumerate(self.seconds(variants)))
        return sorted(found, key=lambda x: (x[1] is None, x[1] or 0.0))[:count]

    def _features(self, variant: Variant) -> ScheduleFeatures | None:
        try:
            return features_of_program(self._request, parse_schedule(variant.schedule), variant.program, self._sizes)
        except (AndironError, ValueError, ArithmeticError):
            return None


def ranker_for(
    request: CompileRequest, database: Database | str | os.PathLike[str] | None, dims: Mapping[str, int] | None = None
) -> tuple[Ranker | None, str]:
    """The ranker of a request, and how candidates are ranked, in words: USED, or why not.

    database  one, its path or its URL; None is the default one
    dims      the value of each size of the op; None is `default_sizes`
    """
    try:
        if not isinstance(database, Database):
            database = open_database(database, create=False)
        model, how = usable_model(database, request.target.name, fingerprint_of(request))
        sizes = default_sizes(request.op, request.sizes) if dims is None else dims
        return Ranker(request, model, sizes) if model is not None else None, how
    except UserError as error:
        return None, f"no learned model is used: {error.message}" + (f"; {error.help}" if error.help else "")


def usable_model(database: Database, target: str, fingerprint: str) -> tuple[LearnedModel | None, str]:
    """The model for a target on a kind of machine, and how candidates are ranked, in words: USED, or why not."""
    model = newest_model(database, target, fingerprint)
    if model is None:
        return None, f"{database.name} has no model for this kind of machine"
    if not model.is_current:
        return None, f"the model of {database.name} is of Andiron {model.version}: `andiron db train` trains it anew"
    if model.refusal:
        return None, f"the model of {database.name} is not used: {model.refusal}"
    return (
        model,
        f"candidates are ordered by the model that learned from {counted(model.rows, 'measurement')}, {model.time[:10]}",
    )
