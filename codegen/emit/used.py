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
    names = {m[2] for m in declared.values()}
    ends: dict[int, int] = {}  # of declarations whose block ends, at a line that is indented less
    said: dict[str, list[int]] = {name: [] for name in names}  # the lines that mention a name
    seen: list[tuple[str, int]] = []  # indents and declarations of blocks around the line
    for i, x in enumerate(lines):
        while seen and x and x[: len(seen[-1][0])] != seen[-1][0]:
            ends[seen.pop()[1]] = i
        if i in declared:
            seen.append((declared[i][1], i))
        for name in names.intersection(_WORD.findall(x)):
            said[name].append(i)
    outside = set(_WORD.findall(after))
    gone: set[int] = set()
    for i, m in reversed(declared.items()):
        end = ends.get(i, len(lines))
        inside = any([i < j < end and j not in gone for j in said[m[2]]])
        if not inside and (i in ends or m[2] not in outside):
            gone.add(i)
    return [x for i, x in enumerate(lines) if i not in gone]
