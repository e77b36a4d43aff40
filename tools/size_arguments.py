"""Sizes in the arguments of a command line."""

from __future__ import annotations

from collections.abc import Sequence

from ..dsl.errors.target import BadAssignment


def assignments(words: Sequence[str], what: str) -> dict[str, int]:
    """`M=512` and `M=512,N=64` as numbers by name. Raises BadAssignment for anything else."""
    out: dict[str, int] = {}
    given = [piece for group in words for piece in group.split(",") if piece.strip()]
    for word in given:
        name, eq, value = word.partition("=")
        try:
            if not eq or not name.strip().isidentifier():
                raise ValueError
            number = int(value.replace("_", ""), 0)
        except ValueError:
            raise BadAssignment(f"`{word}` is no {what}; expected NAME=NUMBER, as in M=512") from None
        if name.strip() in out:
            raise BadAssignment(f"`{name.strip()}` is given twice", help="leave one out")
        out[name.strip()] = number
    return out
