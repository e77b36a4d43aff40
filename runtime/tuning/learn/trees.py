"""Gradient-boosted trees, by LightGBM (extra `learn`): trained, as text, and evaluated.

RELATIVE  Only differences between the schedules of one task matter. So the trees learn how much the logarithm of a time differs
          from what the closed form predicts, less the mean of the task. They get the features as they are, and less their mean
          over the task's schedules.
DATA      A model is LightGBM's text: numbers, no code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....dsl.errors.run import NoPackage
from .training_set import MeasuredTask

ROUNDS = 200  # trees
PARAMETERS = {
    "objective": "regression",
    "learning_rate": 0.05,
    "num_leaves": 15,
    "min_data_in_leaf": 20,
    "feature_fraction": 0.5,
    "bagging_fraction": 0.8,
    "bagging_freq": 1,
    "seed": 0,
    "deterministic": True,
    "num_threads": 1,  # for some thousand rows, threads wait for each other longer than they work
    "force_row_wise": True,
    "verbose": -1,
}


def lightgbm() -> Any:
    """The library. Raises NoPackage without it."""
    try:
        import lightgbm
    except (ImportError, OSError) as error:  # OSError: the system's OpenMP is missing
        raise NoPackage(f"learning needs LightGBM: {error}", help="pip install 'andiron[learn]'") from None
    return lightgbm


def inputs(features: np.ndarray, centre: np.ndarray | None = None) -> np.ndarray:
    """RELATIVE. What the trees get for the schedules of a task. `centre`: the means; None: those of these schedules."""
    return np.hstack([features, features - (means(features) if centre is None else centre)])


def means(features: np.ndarray) -> np.ndarray:
    """The mean of each feature; 0 where no schedule has it."""
    there = ~np.isnan(features)
    return np.where(there, features, 0.0).sum(axis=0) / np.maximum(there.sum(axis=0), 1)


def target(task: MeasuredTask) -> np.ndarray:
    """RELATIVE. What the trees learn for the schedules of a task."""
    wrong = np.log(task.seconds / task.predicted)
    return wrong - wrong.mean()


def fit(tasks: Sequence[MeasuredTask], names: Sequence[str]) -> str:
    """The trees for these tasks, as text. Raises NoPackage."""
    library = lightgbm()
    rows = np.vstack([inputs(t.features) for t in tasks])
    labels = np.concatenate([target(t) for t in tasks])
    columns = [f"{kind}{n}" for kind in ("", "relative ") for n in names]
    columns = [c.replace(":", "").replace(" ", "_") for c in columns]
    data = library.Dataset(rows, labels, feature_name=columns, free_raw_data=True)
    return library.train(PARAMETERS, data, ROUNDS).model_to_string()


def importances(text: str) -> dict[str, float]:
    """By feature, the share of the gain of all splits, the largest first."""
    booster = lightgbm().Booster(model_str=text)
    gains: dict[str, float] = {}
    for name, gain in zip(booster.feature_name(), booster.feature_importance("gain"), strict=True):
        plain = name.removeprefix("relative_").replace("_", " ")
        gains[plain] = gains.get(plain, 0.0) + float(gain)
    total = sum(gains.values()) or 1.0
    return {name: gain / total for name, gain in sorted(gains.items(), key=lambda x: -x[1])}


class Trees:
    """A model that is loaded."""

    def __init__(self, text: str) -> None:
        self._booster = lightgbm().Booster(model_str=text)

    def correct(self, features: np.ndarray, centre: np.ndarray | None = None) -> np.ndarray:
        """What is to be added to the logarithm of the closed form's times, for schedules of one task."""
        return np.asarray(self._booster.predict(inputs(features, centre), num_threads=1))
