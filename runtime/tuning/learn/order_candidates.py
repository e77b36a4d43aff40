"""`ordered_candidates`: candidates that are not compiled yet, by a learned model.

FIRST  The schedule as it was, and the closed form's first choice, keep their places: a model may be wrong about what nobody
       measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ....codegen.enumerate_schedules import CandidateSchedule
from ....dsl.errors import AndironError
from ....dsl.errors.run import NoPackage
from ...variant import Variant
from .model_store import LearnedModel
from .ranker import Ranker

if TYPE_CHECKING:
    from ...compile import CompileRequest

_FIRST = 2  # FIRST
Listed = tuple[CandidateSchedule, Mapping[str, int]]  # with the values of its parameters


def ordered_candidates(
    request: CompileRequest, model: LearnedModel, dims: Mapping[str, int], listed: Sequence[Listed]
) -> list[Listed]:
    """The same candidates, the best first; those that cannot be compiled come last. As they were, where LightGBM is missing.

    dims  the value of each size of the op
    """
    try:
        ranker = Ranker(request, model, dims)
    except NoPackage:
        return list(listed)
    made: list[Variant] = []
    places: list[int] = []
    for place, (candidate, values) in enumerate(listed):
        try:
            made.append(request.variant(candidate.schedule, values, _no_text))
            places.append(place)
        except AndironError:
            continue
    seconds = {places[n]: x for n, x in ranker.best(made, len(made))}
    order = [*range(min(_FIRST, len(listed))), *(p for p in seconds if p >= _FIRST)]
    order += [p for p in range(_FIRST, len(listed)) if p not in seconds]
    found = (listed[p] for p in order)
    return [
        (c if (x := seconds.get(p)) is None else replace(c, seconds=x), values)
        for p, (c, values) in zip(order, found, strict=True)
    ]


def _no_text(*_: object) -> str:
    """Of programs that are only ranked no source code is needed."""
    return ""
