"""Tests of what is chosen: an error of the first candidate fails them."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def no_other_candidate(first_choices: None) -> None:
    """`first_choices` for every test of this folder."""
