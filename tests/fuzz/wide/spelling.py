"""The same declarations, spelled otherwise: commas after lists, comments, blank lines, blocks on the line of their colon,
the version of the language."""

from __future__ import annotations

import re
from random import Random


def spelled(text: str, rng: Random) -> str:
    """`text` with some lines spelled in other ways; it means the same."""
    share = rng.choice((0.1, 0.5, 1.0))

    def maybe(chance: float) -> bool:
        return rng.random() < share * chance

    lines = [x for line in text.split("\n") for x in _line(line, maybe)]
    text = "\n".join(lines)
    if maybe(0.7):
        text = _blocks_on_their_lines(text, maybe)
    if maybe(0.3):
        text = "\n# what follows is a random case\n\n" + text
    if maybe(0.1):
        text = text.replace("\n", "\r\n")
    return "language 1\n\n" + text if maybe(0.2) else text


def _line(line: str, maybe) -> list[str]:
    if "emit" in line or '"' in line:
        return [line]
    if re.match(r"op |schedule |strategy ", line) or re.match(r" +(?:apply|move|keep|op) ?", line):
        line = _with_commas(line, maybe)
    if re.match(r" +t\d+\b.* = ", line):
        line = _with_commas(line, maybe)
    if re.match(r" +t\d+\b.* = ", line) and maybe(0.3):
        line = re.sub(r"(?<!,) else ", ", else ", line, count=1)
    if line.startswith("op ") and maybe(0.4):
        line = line.replace(" -> ", "\n        -> ", 1)
    if line.startswith(("op ", "schedule ")) and " where " in line and maybe(0.4):
        line = line.replace(" where ", "\n        where ", 1)
    if line.startswith("op ") and maybe(0.6):
        line = line.replace("[]", "", 1)
    if line.strip() and maybe(0.1):
        line += "  # as drawn"
    return [line, ""] if maybe(0.05) else [line]


def _with_commas(line: str, maybe) -> str:
    """Commas before closing brackets of lists, wherever a list may end with one; a group of a value is none."""
    out, opened = [], []
    for n, c in enumerate(line):
        if c in "([":
            before = line[n - 1] if n else " "
            head = re.search(r"(?:swizzle|layout|as|op|for|\w\w ->) $|^op .*\]$", line[:n])
            opened.append((c == "[" or before.isalnum() or before == "_" or head is not None, n))
        elif c in ")]" and opened:
            call, start = opened.pop()
            inside = line[start + 1 : n]
            if call and inside.strip() and not inside.rstrip().endswith(",") and " else " not in _own(inside) and maybe(0.4):
                out.append(",")
        out.append(c)
    return "".join(out)


def _own(text: str) -> str:
    """The text without what stands in brackets."""
    depth, out = 0, []
    for c in text:
        depth += (c in "([") - (c in ")]")
        if depth == 0:
            out.append(c)
    return "".join(out)


def _blocks_on_their_lines(text: str, maybe) -> str:
    """A block of one line goes to the line of its colon."""
    lines, out, n = text.split("\n"), [], 0
    while n < len(lines):
        line = lines[n]
        below = [x for x in lines[n + 1 : n + 3]]
        depth = len(line) - len(line.lstrip())
        whole = line.endswith(":") and "#" not in line and len(below) > 0 and below[0].startswith(" " * (depth + 4))
        single = (
            whole
            and "#" not in below[0]
            and not below[0].endswith(":")
            and '"' not in below[0]
            and (len(below) < 2 or not below[1].strip() or len(below[1]) - len(below[1].lstrip()) <= depth)
        )
        if single and len(below) == 2 and not below[1].strip():  # a blank line may stand inside a block
            rest = next((x for x in lines[n + 2 :] if x.strip()), "")
            single = len(rest) - len(rest.lstrip()) <= depth
        if single and maybe(0.6):
            out.append(f"{line} {below[0].strip()}")
            n += 2
            continue
        out.append(line)
        n += 1
    return "\n".join(out)
