"""Declarations that nothing uses, taken out of text: compilers warn of them, and readers wonder."""

from __future__ import annotations

import re
from collections.abc import Sequence

_DECLARATION = re.compile(r"( *)(?:const )?\w+\*?(?: __restrict__)? (\w+) = .*;$")


def mentions(text: str, name: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b", text) is not None


def used_only(lines: Sequence[str], after: str = "") -> list[str]:
    """`lines` without declarations whose name is used neither in the rest of its block nor in `after`.

    Their values have no effects. From the last line up, so that what only an unused declaration needs goes as well.
    """
    out = list(lines)
    for i in reversed(range(len(out))):
        m = _DECLARATION.match(out[i])
        if m is None:
            continue
        end = next((j for j in range(i + 1, len(out)) if out[j] and not out[j].startswith(m[1])), len(out))
        rest = "\n".join(out[i + 1 : end]) + ("\n" + after if end == len(out) else "")
        if not mentions(rest, m[2]):
            del out[i]
    return out
