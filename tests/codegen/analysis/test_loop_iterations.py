"""Iterations in arrays are those of loops, and a few stand for all of them."""

import numpy as np
import pytest
from andiron.codegen.analysis.loop_iterations import all_iterations, end_iterations


@pytest.mark.parametrize("seed", range(6))
def test_iterations_are_those_of_loops(seed):
    rng = np.random.default_rng(seed)
    trips = rng.integers(0, 6, rng.integers(0, 7))
    start, step = rng.integers(-3, 9, len(trips)), rng.integers(1, 4, len(trips))
    found = all_iterations(trips)
    env = found.variables({"p": np.arange(len(trips)), "N": 7}, "i", start, step)
    wanted = [(p, start[p] + n * step[p]) for p, count in enumerate(trips) for n in range(count)]
    assert list(zip(env["p"].tolist(), env["i"].tolist(), strict=True)) == wanted
    assert env["N"] == 7
    assert (found.weight == 1).all()


@pytest.mark.parametrize("trips", [[0], [1], [2], [3, 0, 100], [], [5, 2, 1, 0]])
def test_the_ends_stand_for_all(trips):
    trips = np.array(trips, int)
    found = end_iterations(trips)
    assert np.bincount(found.owner, found.weight, len(trips)).tolist() == trips.tolist()
    for p, count in enumerate(trips):
        assert sorted(found.number[found.owner == p]) == sorted({0, 1, count - 1} if count > 1 else set(range(count)))
