"""Each test of measured search has a cache of its own, and races are short."""

from __future__ import annotations

import pytest
from andiron.runtime.tuning import racing


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("ANDIRON_CACHE", str(tmp_path / "cache"))


@pytest.fixture(autouse=True)
def few_rounds(monkeypatch):
    """What is fastest is for `test_racing.py`, which has times of its own and calls no race."""
    monkeypatch.setattr(racing, "ROUNDS", 3)
