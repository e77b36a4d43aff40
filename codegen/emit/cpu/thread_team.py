"""The threads of CPU kernels as a text of their own: who builds many kernels builds it once and links it."""

from __future__ import annotations

from functools import lru_cache

from ...abi import MAX_THREADS
from ..c.templates import environment

LINKED = "m_team_is_linked"
"""Defined where a kernel is built to be linked with what `thread_team` is built to."""


@lru_cache(maxsize=1)
def thread_team() -> str:
    """A C++ text. It defines the functions that a kernel declares where `LINKED` is defined, hidden from other libraries."""
    return environment().get_template("team.cpp.j2").render(max_threads=MAX_THREADS, linked=LINKED)
