"""Declarations that nothing uses, taken out of text: compilers warn of them, and readers wonder."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_DECLARATION = re.compile(r" *(?:const )?\w+\*?(?: __restrict__)? (\w+) = .*;$")
_WORD = re.compile(r"\w+")


def words(lines: Iterable[str]) -> set[str]:
    """Those that the lines mention."""
    return {w for x in lines for w in _WORD.findall(x)}


def used_only(lines: Sequence[str], after: str = "") -> list[str]:
    """`lines` without declarations whose name is used neither in the rest of its block nor in `after`.

    Their values have no effects. From the last line up, so that what only an unused declaration needs goes as well.
    """
    end = _ends(lines)
    mentioned = dict.fromkeys(_WORD.findall(after), len(lines))  # where words are next, below the line that is looked at
    kept: list[str] = []
    for i in reversed(range(len(lines))):
        m = _DECLARATION.match(lines[i])
        if m is not None and mentioned.get(m[1], end[i]) >= end[i]:
            continue
        kept.append(lines[i])
        mentioned.update(dict.fromkeys(_WORD.findall(lines[i]), i))
    return kept[::-1]


def _ends(lines: Sequence[str]) -> list[int]:
    """For each line the first one that is less indented: where its block has ended. Nothing ends the outermost one."""
    out = [len(lines) + 1] * len(lines)
    around: list[tuple[int, int]] = []  # lines whose blocks are open, and how far they are indented
    for i, line in enumerate(lines):
        depth = len(line) - len(line.lstrip(" ")) if line else around[-1][1] if around else 0
        while around and around[-1][1] > depth:
            out[around.pop()[0]] = i
        around.append((i, depth))
    return out
