"""A few rounds of measurements are enough for tests that look at what becomes of them."""

from __future__ import annotations

import pytest
from andiron.runtime.tuning import racing


@pytest.fixture(autouse=True)
def few_rounds(monkeypatch):
    monkeypatch.setattr(racing, "ROUNDS", 3)
