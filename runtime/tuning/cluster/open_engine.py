"""`open_engine`: the engine for what a user names."""

from __future__ import annotations

from typing import Any

from .dask_engine import DaskEngine
from .engine import Engine
from .executor_engine import ExecutorEngine


def open_engine(executor: Any) -> Engine:
    """The engine for an executor, a function that makes one, the address of a Dask scheduler, or None for this process.

    Raises ArgumentKind, NoPackage, ExecutorFailed.
    """
    return DaskEngine(executor) if isinstance(executor, str) else ExecutorEngine(executor)
