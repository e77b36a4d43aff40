"""Declarations that nothing uses, taken out of text: compilers warn of them, and readers wonder."""

from __future__ import annotations

import re
from collections.abc import Sequence

_DECLARATION = re.compile(r"( *)(?:const )?\w+\*?(?: __restrict__)? (\w+) = .*;$")
_WORD = re.compile(r"\w+")


def mentions(text: str, name: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b", text) is not None


def used_only(lines: Sequence[str], after: str = "") -> list[str]:
    """`lines` without declarations whose name is used neither in the rest of its block nor in `after`.

    Their values have no effects. From the last line up, so that what only an unused declaration needs goes as well.
    """
    out = list(lines)
    words = [set(_WORD.findall(x)) for x in out]
    below = set(_WORD.findall(after))
    for i in reversed(range(len(out))):
        m = _DECLARATION.match(out[i])
        if m is None:
            continue
        if not _used(m[2], out, words, i, m[1], below):
            del out[i], words[i]
    return out


def _used(name: str, lines: Sequence[str], words: Sequence[set[str]], at: int, indent: str, below: set[str]) -> bool:
    for j in range(at + 1, len(lines)):
        if lines[j] and not lines[j].startswith(indent):
            return False  # the block ends here
        if name in words[j]:
            return True
    return name in below
