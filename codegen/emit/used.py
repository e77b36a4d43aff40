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
    declared = {i: m for i, x in enumerate(lines) if " = " in x and (m := _DECLARATION.match(x))}
    ends: dict[int, int] = {}  # of declarations whose block ends, at a line that is indented less
    around: list[tuple[str, int]] = []  # indents and declarations of the blocks that a line is in
    for i, x in enumerate(lines):
        while around and x and x[: len(around[-1][0])] != around[-1][0]:
            ends[around.pop()[1]] = i
        if i in declared:
            around.append((declared[i][1], i))
    names = {m[2] for m in declared.values()}
    outside = set(_WORD.findall(after))
    nearest: dict[str, int] = {}  # below, of the lines that mention a name
    gone: set[int] = set()
    for i in range(len(lines) - 1, -1, -1):
        if i in declared:
            name, end = declared[i][2], ends.get(i, len(lines))
            if nearest.get(name, end) >= end and (i in ends or name not in outside):
                gone.add(i)
                continue
        for name in names.intersection(_WORD.findall(lines[i])):
            nearest[name] = i
    return [x for i, x in enumerate(lines) if i not in gone]
