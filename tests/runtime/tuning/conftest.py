"""Each test of measured search has a cache of its own."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("ANDIRON_CACHE", str(tmp_path / "cache"))
