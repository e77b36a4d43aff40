"""Shorter text for one thread. Each rule looks at consecutive statements, and changes no value.

CLEARED   m_set_part_u16(a, 0, 0); m_set_part_u16(a, 1, 0);   -->   a = 0;
PACKED    m_set_part_u16(a, 0, x); m_set_part_u16(a, 1, y);   -->   a = m_pack_u16(x, y);
GROWN     y = y + x;                                          -->   y += x;
ONCE      const int i = t / 4; ... const int j = t / 4;     -->   const int i = t / 4; ... with i for j
TOGETHER  float a = 0.0f; float b = 0.0f;                     -->   float a = 0.0f, b = 0.0f;
          a = 0.0f; b = 0.0f;                                 -->   a = b = 0.0f;
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.limits import TEXT_WIDTH
from .c_text import INDENT, line_of
from .c_tree import (
    Assign,
    AssignAll,
    Binary,
    Declaration,
    Declarations,
    SetPart,
    Statement,
    identifiers,
    map_bodies,
    map_texts,
    mentioned,
    renamed,
)

_ZERO = ("0", "0.0", "0.0f")
_DIGITS = "_0123456789"
_GROWING = ("+", "*", "&", "|")


def peephole(stmts: Sequence[Statement]) -> list[Statement]:
    """All the rules, in their order."""
    return _shorter(_once(stmts, {}, {}), 0)


def _shorter(stmts: Sequence[Statement], depth: int) -> list[Statement]:
    """All rules but ONCE, in a block that is so deep in others."""
    grown = [
        s if getattr(s, "short", False) else map_bodies(_grown(s), lambda b: _shorter(b, depth + 1)) for s in _words(stmts)
    ]
    return _together(grown, depth * len(INDENT))


def _once(stmts: Sequence[Statement], known: dict[tuple, str], other: dict[str, str]) -> list[Statement]:
    """ONCE: in a block and the blocks in it. A name means the same in all of them (NO_SHADOW). `known`: names by what is
    declared; `other`: other names for them."""
    out: list[Statement] = []
    known, other = dict(known), dict(other)
    for s in stmts:
        if other and not other.keys().isdisjoint(mentioned(s)):
            s = map_texts(s, lambda text: renamed(text, other))
        if isinstance(s, Declaration) and _never_changes(s):
            said = s.name.rstrip(_DIGITS), s.const, s.type, s.value  # what has another name means something else
            if said in known:
                other[s.name] = known[said]
                continue
            known[said] = s.name
        out.append(map_bodies(s, lambda body: _once(body, known, other)))
    return out


def _never_changes(s: Declaration) -> bool:
    if s.value is None or s.size is not None or s.note:
        return False
    return (s.const and s.type in ("int", "int64_t")) or s.type[-1] == "*"


def _words(stmts: Sequence[Statement]) -> list[Statement]:
    """CLEARED, PACKED"""
    out: list[Statement] = []
    done = 0
    for at, s in enumerate(stmts):
        if at < done:
            continue
        found = _parts(stmts, at) if isinstance(s, SetPart) else []
        if not found:
            out.append(s)
            continue
        first, values = found[0], [p.value for p in found]
        shown = "0" if all([v == "0" for v in values]) else f"m_pack_{first.element}({', '.join(values)})"
        out.append(Assign(first.word, shown, span=first.span))
        done = at + len(found)
    return out


def _parts(stmts: Sequence[Statement], at: int) -> list[SetPart]:
    """The statements from there on that fill all parts of one word, in order, without reading it."""
    first = stmts[at]
    assert isinstance(first, SetPart)
    count = 32 // int(first.element.strip("iu"))
    found = [s for s in stmts[at : at + count] if isinstance(s, SetPart)]
    whole = [(s.element, s.word, s.part) for s in found] == [(first.element, first.word, str(i)) for i in range(count)]
    return found if whole and not any(first.word in identifiers(s.value) for s in found) else []


def _grown(s: Statement) -> Statement:
    """GROWN"""
    match s:
        case Assign(value=Binary(left=left, op=op, right=right), op="") if left == s.target and op in _GROWING:
            return Assign(left, right, op, span=s.span) if left.isidentifier() else s
    return s


def _together(stmts: Sequence[Statement], indent: int) -> list[Statement]:
    """TOGETHER: as many as fit into a line. `indent`: of the lines."""
    out: list[Statement] = []
    for s in stmts:
        joined = _joined(out[-1], s) if out else None
        if joined is not None and indent + len(line_of(joined)) < TEXT_WIDTH:
            out[-1] = joined
        else:
            out.append(s)
    return out


def _joined(a: Statement, b: Statement) -> Statement | None:
    """Two statements as one."""
    match a, b:
        case ((Declaration() | Declarations()), Declaration()) if _zeroed(a) == _zeroed(b) and _zeroed(a):
            variables = a.variables if isinstance(a, Declarations) else ((a.name, a.value),)
            return Declarations(a.type, (*variables, (b.name, b.value)), span=a.span)
        case ((Assign() | AssignAll()), Assign()) if not b.op and a.value == b.value and a.value in _ZERO:
            targets = a.targets if isinstance(a, AssignAll) else (a.target,)
            if (isinstance(a, Assign) and a.op) or not all(x.isidentifier() for x in (*targets, b.target)):
                return None
            return AssignAll((*targets, b.target), a.value, span=a.span)
    return None


def _zeroed(s: Declaration | Declarations) -> str:
    """The type of variables that a statement declares as zero; empty if it is not that."""
    if isinstance(s, Declarations):
        return s.type if all(value in _ZERO for _, value in s.variables) else ""
    plain = s.type in ("float", "double") or s.type.endswith("_t")
    return s.type if plain and not s.const and not s.note and s.value in _ZERO else ""
