"""How many random cases are wanted, and from which seed on: `FUZZ` and `FUZZ_FROM`. An empty variable is none."""

from __future__ import annotations

import os


def case_count(usual: int) -> int:
    return int(os.environ.get("FUZZ") or usual)


def first_seed(usual: int = 0) -> int:
    return int(os.environ.get("FUZZ_FROM") or usual)
