"""Shorter text for one thread. Each rule looks at consecutive lines, and changes no value.

CLEARED   m_set_part_u16(a, 0, 0); m_set_part_u16(a, 1, 0);   -->   a = 0;
PACKED    m_set_part_u16(a, 0, x); m_set_part_u16(a, 1, y);   -->   a = m_pack_u16(x, y);
GROWN     y = y + x;                                          -->   y += x;
ONCE      const int i = t / 4; ... const int j = t / 4;     -->   const int i = t / 4; ... with i for j
TOGETHER  float a = 0.0f; float b = 0.0f;                     -->   float a = 0.0f, b = 0.0f;
          a = 0.0f; b = 0.0f;                                 -->   a = b = 0.0f;
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...ir.limits import TEXT_WIDTH
from .dead_declarations import declares, identifiers
from .text_builder import Line

_PART = re.compile(r"( *)m_set_part_(\w?(?:8|16))\((\w+), (\d), (.*)\);$")
_GROWN = re.compile(r"( *)(\w+) = \2 ([+*&|]) (.*);$")
_ZERO = r"0(?:\.0f?)?"
_DECLARED = re.compile(rf"( *)((?:float|double|u?int\d+_t) )(\w+ = (?:{_ZERO}|-?flt\(\w+\)));$")
_ZEROED = re.compile(rf"( *)()(\w+) = ({_ZERO});$")
_DIGITS = "_0123456789"
_NAMED = re.compile(r"( *)(const int(?:64_t)?|(?:const )?\w+\*) (\w+) = (.*);$")  # what never changes
_WORD = re.compile(r"\b[A-Za-z_]\w*")


def peephole(lines: Sequence[str]) -> list[str]:
    """All the rules, in their order."""
    grown = [_grown(x, m) if " = " in x and (m := _GROWN.match(x)) else x for x in _words(_once(lines))]
    return _together(_together(grown, _DECLARED, ", "), _ZEROED, " = ")


def _once(lines: Sequence[str]) -> list[str]:
    """ONCE: in a block and the blocks in it. A name means the same in all of them (NO_SHADOW)."""
    out: list[str] = []
    blocks: list[tuple[dict[str, str], dict[str, str]]] = [({}, {})]  # of what is declared: its name; other names for it
    other: dict[str, str] = {}
    for line in lines:
        if "}" in line and line.lstrip()[0] == "}":
            blocks.pop()
            other = {old: new for _, renamed in blocks for old, new in renamed.items()}
        if other and not other.keys().isdisjoint(identifiers(line)):
            line = _like(line, _WORD.sub(lambda m, other=other: other.get(m[0], m[0]), line))
        m = _NAMED.match(line) if declares(line) else None
        if m is not None:
            said = f"{m[3].rstrip(_DIGITS)} {m[2]} {m[4]}"  # what has another name means something else
            found = next((known[said] for known, _ in blocks if said in known), None)
            if found is not None:
                blocks[-1][1][m[3]] = other[m[3]] = found
                continue
            blocks[-1][0][said] = m[3]
        if line[-1:] == "{":
            blocks.append(({}, {}))
        out.append(line)
    return out


def _words(lines: Sequence[str]) -> list[str]:
    """CLEARED, PACKED"""
    out: list[str] = []
    done = 0
    for at in [i for i, x in enumerate(lines) if "m_set_part_" in x]:
        found = _parts(lines, at) if at >= done else []
        if not found:
            continue
        indent, element, word, *_ = found[0]
        values = [m[4] for m in found]
        shown = "0" if all([v == "0" for v in values]) else f"m_pack_{element}({', '.join(values)})"
        out += lines[done:at]
        out.append(_like(lines[at], f"{indent}{word} = {shown};"))
        done = at + len(found)
    return [*out, *lines[done:]]


def _parts(lines: Sequence[str], at: int) -> list[tuple[str, ...]]:
    """The lines from there on that fill all parts of one word, in order, without reading it."""
    first = _PART.match(lines[at])
    if first is None:
        return []
    count = 32 // int(first[2].strip("iu"))
    found = [m.groups() for x in lines[at : at + count] if (m := _PART.match(x))]
    whole = [(m[:3], m[3]) for m in found] == [(first.groups()[:3], str(i)) for i in range(count)]
    return found if whole and not any(first[3] in identifiers(m[4]) for m in found) else []


def _grown(line: str, m: re.Match[str]) -> str:
    """GROWN"""
    return _like(line, f"{m[1]}{m[2]} {m[3]}= {m[4]};") if _binds(m[4], m[3]) else line


def _binds(text: str, sign: str) -> bool:
    """Whether the operand, put into parentheses, would mean the same: nothing in it binds looser than the sign, or as loose."""
    depth, bare = 0, ""
    for c in text:
        depth += (c in "([") - (c in ")]")
        bare += c if depth == 0 else ""
    return not re.search(r" [-+?:<>=&|^] | (?:<<|>>|&&|\|\||[<>=!]=) " + (r"| [*/%] " if sign != "+" else ""), bare)


def _together(lines: Sequence[str], pattern: re.Pattern[str], between: str) -> list[str]:
    """Consecutive lines of one indentation, kind and end, as many as fit into one."""
    out: list[str] = []
    run: list[str] = []  # what the last line is made of
    before: tuple[str, ...] = ()
    done = 0
    for at in [i for i, x in enumerate(lines) if " = 0" in x or "flt(" in x]:  # what both patterns match has one of them
        m = pattern.match(lines[at])
        if m is None:
            continue
        same = (m[1], m[2], *m.groups()[3:])
        if run and at == done and same == before and len(out[-1]) + len(between) + len(m[3]) < TEXT_WIDTH:
            run.append(m[3])
            end = "".join([f"{between}{e}" for e in same[2:]])
            out[-1] = _like(out[-1], f"{m[1]}{m[2]}{between.join(run)}{end};")
        else:
            out += lines[done : at + 1]
            run, before = [m[3]], same
        done = at + 1
    return [*out, *lines[done:]]


def _like(line: str, text: str) -> str:
    """The text, from where the line is from."""
    return Line.of(text, line.span) if isinstance(line, Line) else text
