"""Declarations that nothing uses, taken out of text: compilers warn of them, and readers wonder."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_DECLARATION = re.compile(r"( *)(?:const )?\w+\*?(?: __restrict__)? (\w+) = .*;$")
_WORD = re.compile(r"\w+")


def words(lines: Iterable[str]) -> set[str]:
    """Those that the lines mention."""
    return set(_WORD.findall("\n".join(lines)))


def used_only(lines: Sequence[str], after: str = "") -> list[str]:
    """`lines` without declarations whose name is used neither in the rest of its block nor in `after`.

    Their values have no effects. From the last line up, so that what only an unused declaration needs goes as well.
    """
    kept: list[str | None] = [*lines]  # without text where one is taken out
    said = set(_WORD.findall(after))
    for i in reversed([i for i, x in enumerate(lines) if " = " in x]):
        m = _DECLARATION.match(lines[i])
        if m is not None and not _mentioned(m[2], kept, i, len(m[1]), said):
            kept[i] = None
    return [x for x in kept if x is not None]


def _mentioned(name: str, lines: Sequence[str | None], at: int, depth: int, after: set[str]) -> bool:
    """Below line `at`, before a line that is indented less: there its block has ended. Nothing ends the outermost one."""
    inside = " " * depth
    for i in range(at + 1, len(lines)):
        x = lines[i]
        if not x:
            continue
        if x[:depth] != inside:
            return False
        if name in x and name in _WORD.findall(x):
            return True
    return name in after
