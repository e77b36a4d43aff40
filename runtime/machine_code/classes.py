"""The classes of instructions, in the order of reports."""

from __future__ import annotations

MEMORY = ("shared load", "shared store", "global load", "global store", "local memory", "atomic", "async copy")
OTHER = "other"
CLASSES = (
    "mma",
    "fma",
    "float",
    "integer",
    "conversion",
    "special function",
    *MEMORY,
    "shuffle",
    "wait",
    "barrier",
    "branch",
    OTHER,
)
