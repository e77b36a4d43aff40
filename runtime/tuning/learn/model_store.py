"""`LearnedModel`: trees with what they were trained on and how good they are; and the table of a database that it is in.

BESIDE  Models stand in the database of their measurements: whoever shares the rows shares them. They are only added; of a kind
        of machine the newest counts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ....dsl.errors.database import DamagedDatabase
from ...native.cpu_name import todays_name
from ...storage.cache import key_of
from ..database.database import Database
from .features import NAMES, VERSION
from .figures import Figures

_ADD = """INSERT INTO andiron_models (id, target, fingerprint, version, time, facts, trees)
    VALUES (:id, :target, :fingerprint, :version, :time, :facts, :trees) ON CONFLICT DO NOTHING"""
_LIST = "SELECT time, id, fingerprint FROM andiron_models WHERE target = :target"
_FIND = "SELECT facts, trees FROM andiron_models WHERE id = :id"


@dataclass(frozen=True)
class LearnedModel:
    """A model for a target on a kind of machine.

    rows, tasks, ops  what it was trained on
    closed, learned   the figures of the closed form, and of models that have not seen the op
    refusal           why it is not used; "" where it is better than the closed form
    offset            what the logarithm of a time differs from the closed form's, at the median of the tasks
    importances       of features, the share of the gain of all splits
    version           of Andiron              time      when it was trained, UTC
    features          the version of the features, and their names
    trees             LightGBM's text
    """

    target: str
    fingerprint: str
    rows: int
    tasks: int
    ops: int
    closed: Figures
    learned: Figures
    refusal: str
    offset: float
    importances: Mapping[str, float]
    version: str
    time: str
    trees: str
    features: tuple[int, tuple[str, ...]] = (VERSION, NAMES)

    @property
    def is_current(self) -> bool:
        """Whether its features are those of this version of Andiron."""
        return self.features == (VERSION, NAMES)

    def facts(self) -> dict[str, Any]:
        """All but the trees, as dictionaries, lists, strings and numbers."""
        return {name: value for name, value in asdict(self).items() if name != "trees"}


def store_model(database: Database, model: LearnedModel) -> None:
    """Adds a model."""
    facts = json.dumps(model.facts(), sort_keys=True)
    values = {name: getattr(model, name) for name in ("target", "fingerprint", "version", "time", "trees")}
    with database.storage.transaction(write=True) as session:
        session.execute_many(_ADD, [{"id": key_of(facts, model.trees), "facts": facts, **values}])


def newest_model(database: Database, target: str, fingerprint: str) -> LearnedModel | None:
    """The model of a kind of machine; None where there is none. Raises DamagedDatabase."""
    with database.storage.transaction() as session:
        listed = [x for x in session.execute(_LIST, target=target) if todays_name(x[2]) == fingerprint]
        if not listed:
            return None
        latest = max(time for time, *_ in listed)
        key = min(key for time, key, _ in listed if time == latest)
        ((said, trees),) = session.execute(_FIND, id=key)
    try:
        if key_of(said, trees) != key:  # LightGBM ends the process at texts that were cut
            raise ValueError(key)
        facts = json.loads(said)
        version, names = facts.pop("features")
        closed, learned = (Figures(**facts.pop(name)) for name in ("closed", "learned"))
        return LearnedModel(closed=closed, learned=learned, features=(version, tuple(names)), trees=trees, **facts)
    except (TypeError, ValueError, KeyError):
        raise DamagedDatabase(f"{database.name} is damaged: a model is not what was stored", help="train it anew") from None
