"""Words whose parts are all set to 0, one after the other, are set to 0."""

from __future__ import annotations

import re
from collections.abc import Sequence

_PART = re.compile(r"( *)m_set_part_\w?(8|16)\((\w+), 0, 0\);$")


def cleared(lines: Sequence[str]) -> list[str]:
    """m_set_part_u16(a_0, 0, 0); m_set_part_u16(a_0, 1, 0);   -->   a_0 = 0;"""
    out: list[str] = []
    at = 0
    while at < len(lines):
        m = _PART.match(lines[at])
        parts = 32 // int(m[2]) if m else 1
        if m and all(lines[at + i : at + i + 1] == [lines[at].replace(", 0, 0);", f", {i}, 0);")] for i in range(1, parts)):
            out.append(f"{m[1]}{m[3]} = 0;")
        else:
            out += lines[at : at + 1]
            parts = 1
        at += parts
    return out
