"""Tests that are marked `every_second`: half of the combinations, in which every value is, and of three lists every pair.

Those that are marked `fewest`: as few as have that.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from itertools import combinations, product

import pytest

from ..support.paths import ROOT
from ..support.rotation import every_second, fewest

FILE = "tests/codegen/lower/copies/test_copies_of_copies.py"


LENGTHS = [(2, 2), (5, 3), (2, 24), (2, 2, 2), (5, 2, 3), (3, 4, 4), (5, 2, 3, 2)]


def all_of(lengths: tuple[int, ...]) -> list[tuple[int, ...]]:
    return list(product(*(range(n) for n in lengths)))


def has_all(found: list[tuple[int, ...]], lengths: tuple[int, ...]) -> bool:
    """Every value of two lists, and every pair of more."""
    size = 1 if len(lengths) == 2 else 2

    def parts(cases: list[tuple[int, ...]]) -> set[tuple[tuple[int, int], ...]]:
        return {some for case in cases for some in combinations(enumerate(case), size)}

    return parts(found) == parts(all_of(lengths))


@pytest.mark.parametrize("lengths", LENGTHS)
def test_what_is_left(lengths: tuple[int, ...]) -> None:
    every = all_of(lengths)
    found = [c for c, taken in zip(every, every_second(every), strict=True) if taken]
    assert abs(2 * len(found) - len(every)) <= 1
    assert has_all(found, lengths)


@pytest.mark.parametrize("lengths", LENGTHS)
def test_the_fewest_that_are_left(lengths: tuple[int, ...]) -> None:
    """Of two lists as many as the longer has; of more no more than half above what the two longest take."""
    every = all_of(lengths)
    found = [c for c, taken in zip(every, fewest(every), strict=True) if taken]
    assert has_all(found, lengths)
    assert not any(has_all([c for c in found if c != x], lengths) for x in found)
    *_, second, longest = sorted(lengths)
    assert len(found) == longest if len(lengths) == 2 else len(found) <= 1.5 * longest * second
    if len(lengths) == 2:
        often = Counter(c[lengths.index(second)] for c in found)
        assert max(often.values()) - min(often.values()) <= 1


@pytest.mark.parametrize("some", [every_second, fewest])
def test_one_combination_is_run(some: Callable[..., list[bool]]) -> None:
    assert some([("x", 3)]) == [True]
    assert some([]) == []


def test_marked_tests() -> None:
    """By default half of them are collected, all of them with `ALL_OPS=1`; one that is named is."""

    def collected(what: str, **changed: str) -> list[str]:
        env = {k: v for k, v in os.environ.items() if k not in ("FUZZ", "ALL_OPS", "PYTEST_ADDOPTS")} | changed
        command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", what]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=env, check=True)
        return [x for x in done.stdout.splitlines() if "::test_strided_chunks_of_a_copy_of_a_copy[" in x]

    every, half = collected(FILE, ALL_OPS="1"), collected(FILE)
    assert 0 <= 2 * len(half) - len(every) <= 1
    assert set(half) < set(every)
    (left_out, *_) = sorted(set(every) - set(half))
    assert collected(left_out) == [left_out]
