"""Cases that a module gives to `both` compilers are built by one of them each, in turn; with `FUZZ=N` by both."""

from __future__ import annotations

from pathlib import Path

import pytest

from ....support.cpp.build import COMPILERS
from ....support.rotation import LONG

HERE = Path(__file__).parent


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if LONG or len(COMPILERS) < 2:
        return
    cases: dict[tuple[object, ...], int] = {}
    left_out = [x for x in items if x.path.parent == HERE and isinstance(x, pytest.Function) and not _is_next(x, cases)]
    config.hook.pytest_deselected(items=left_out)
    gone = set(left_out)
    items[:] = [x for x in items if x not in gone]


def _is_next(item: pytest.Function, cases: dict[tuple[object, ...], int]) -> bool:
    """Whether it is its compiler's turn; true of what is not given to both."""
    params = item.callspec.params if hasattr(item, "callspec") else {}
    if "compiler" not in params or not hasattr(item.module, "both"):
        return True
    case = item.path, item.originalname, *(repr(x) for name, x in params.items() if name != "compiler")
    turn = cases.setdefault(case, len(cases))
    return COMPILERS.index(params["compiler"]) == turn % len(COMPILERS)
