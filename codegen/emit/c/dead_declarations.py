"""Removes declarations that nothing uses: compilers warn of them, and they puzzle readers."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

_DECLARATION = re.compile(r"( *)(?:const )?\w+\*?(?: __restrict__)? (\w+) = .*;$")
_BETWEEN = str.maketrans({c: " " for c in map(chr, range(128)) if not (c.isalnum() or c in "_\n")})


def identifiers(text: str) -> list[str]:
    """Names and numbers of C text, in order."""
    return text.translate(_BETWEEN).split()


def identifiers_of(lines: Sequence[str]) -> list[list[str]]:
    """The identifiers of each line: all lines are translated at once, in a fifth of the time of a regular expression a line."""
    return [x.split() for x in "\n".join(lines).translate(_BETWEEN).split("\n")]


def declares(line: str) -> bool:
    """Whether at least two words stand before the first `=`; other lines are not declarations."""
    return " = " in line and " " in line.partition(" = ")[0].lstrip()


def remove_dead(lines: Sequence[str], after: str = "") -> list[str]:
    """`lines` without declarations whose name is used neither later in their block nor in `after`.

    Their values have no effects. It goes from the last line up, so that declarations for removed ones are removed as well.
    """
    return live_lines(lines, set(identifiers(after)))[0]


def live_lines(lines: Sequence[str], after: Collection[str] = ()) -> tuple[list[str], Collection[str]]:
    """As `remove_dead`, with the words that the lines mention; `after`: words of what follows."""
    declared: dict[int, str] = {}
    ends: dict[int, int] = {}  # of declarations whose block ends, at a line that is indented less
    around: list[tuple[str, int]] = []  # indents and declarations of the blocks that a line is in
    for i, x in enumerate(lines):
        if declares(x) and (m := _DECLARATION.match(x)):
            declared[i] = m[2]
            around.append((m[1], i))
        elif "}" in x:
            while around and not x.startswith(around[-1][0]):
                ends[around.pop()[1]] = i
    mentioned = identifiers_of(lines)
    nearest: dict[str, int] = {}  # below, of the lines that mention a word
    gone: set[int] = set()
    for i in range(len(lines) - 1, -1, -1):
        if i in declared:
            name, end = declared[i], ends.get(i, len(lines))
            if nearest.get(name, end) >= end and (i in ends or name not in after):
                gone.add(i)
                continue
        nearest |= dict.fromkeys(mentioned[i], i)
    return [x for i, x in enumerate(lines) if i not in gone], nearest.keys()
