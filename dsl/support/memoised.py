"""`@memoised`: a function of one object, whose result is kept with the object and freed with it.

A weak table beside the objects would keep them for ever: most results contain the object that they are of.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Generic, TypeVar

M = TypeVar("M")
K = TypeVar("K")
R = TypeVar("R")


def memoised(function: Callable[[M], R]) -> Callable[[M], R]:
    """The function, computed once for each object, which is immutable and has a dictionary `memos` of functions' results."""

    @wraps(function)
    def remembered(x: M) -> R:
        memos = x.memos  # type: ignore[attr-defined]
        if function in memos:
            return memos[function]
        return memos.setdefault(function, function(x))  # of two threads the first counts

    return remembered


class IdentityMemo(Generic[M, R]):
    """Results by the object that they are of, for objects that are hashed in depth, or of which equal ones may have different
    results (1 == 1.0). The objects live as long as this does."""

    def __init__(self) -> None:
        self._results: dict[int, tuple[R, M]] = {}

    def of(self, x: M, compute: Callable[[M], R]) -> R:
        """What `compute` gives for the object, the first time."""
        found = self._results.get(id(x))
        if found is None:
            found = self._results[id(x)] = compute(x), x
        return found[0]


def memoised_with(function: Callable[[M, K], R]) -> Callable[[M, K], R]:
    """The function, computed once for each such object and each other one with it, which lives as long as the first."""

    @memoised
    def results(x: M) -> IdentityMemo[K, R]:
        return IdentityMemo()

    @wraps(function)
    def remembered(x: M, other: K) -> R:
        return results(x).of(other, lambda other: function(x, other))

    return remembered
