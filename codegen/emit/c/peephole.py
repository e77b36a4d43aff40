"""Shorter text for one thread. Each rule looks at consecutive statements, and changes no value.

CLEARED   m_set_part_u16(a, 0, 0); m_set_part_u16(a, 1, 0);   -->   a = 0;
PACKED    m_set_part_u16(a, 0, x); m_set_part_u16(a, 1, y);   -->   a = m_pack_u16(x, y);
GROWN     y = y + x;                                          -->   y += x;
ONCE      const int i = t / 4; ... const int j = t / 4;     -->   const int i = t / 4; ... with i for j
TOGETHER  float a = 0.0f; float b = 0.0f;                     -->   float a = 0.0f, b = 0.0f;
          a = 0.0f; b = 0.0f;                                 -->   a = b = 0.0f;
FILLED    uint32_t a[2]; a[0] = x; a[1] = y;                  -->   uint32_t a[2] = {x, y};
STEPS     T* q = p + x; ... T* r = q + y;                     -->   ... T* r = p + x + y;
ALONE     T* q = p + x; f(q + 1);                             -->   f(p + x + 1);
          T* q = p + x; q[0] = y;                             -->   p[x] = y;
SHORT     for (int i = 0; i < n; i++) { f(a[i]); }            -->   for (int i = 0; i < n; i++) f(a[i]);
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

from ....dsl.support.fast_replace import replace
from ...ir.limits import TEXT_WIDTH
from ...name_mangling import stem
from .c_text import INDENT, line_of
from .c_tree import (
    Assign,
    AssignAll,
    Binary,
    Declaration,
    Declarations,
    ExprStatement,
    For,
    If,
    SetPart,
    Statement,
    identifiers,
    map_bodies,
    map_texts,
    renamed,
    texts,
)
from .text_builder import join_short

_ZERO = ("0", "0.0", "0.0f")
_WIDE = ("float", "double", "int32_t", "uint32_t", "int64_t")  # whose values have no wider type
_GROWING = ("+", "*", "&", "|")


def peephole(stmts: Sequence[Statement]) -> list[Statement]:
    """All the rules, in their order."""
    return _shorter(_once(stmts, {}, {}), 0)


def _shorter(stmts: Sequence[Statement], depth: int) -> list[Statement]:
    """All rules but ONCE, in a block that is so deep in others."""
    grown = [s if isinstance(s, If) and s.short else _in_bodies(_grown(s), depth) for s in _words(stmts)]
    indent = depth * len(INDENT)
    return _together(_alone(_steps(_filled(grown, indent), indent), indent), indent)


def _in_bodies(s: Statement, depth: int) -> Statement:
    """All rules but ONCE in the blocks of a statement, and SHORT."""
    s = map_bodies(s, lambda b: _shorter(b, depth + 1))
    return join_short(s) if isinstance(s, For) else s


def _once(stmts: Sequence[Statement], known: dict[tuple, str], other: dict[str, str]) -> list[Statement]:
    """ONCE: in a block and the blocks in it. A name means the same in all of them (NO_SHADOW). `known`: names by what is
    declared; `other`: other names for them."""
    out: list[Statement] = []
    known, other = dict(known), dict(other)
    for s in stmts:
        if other and not other.keys().isdisjoint(s.mentioned):
            s = map_texts(s, lambda text: renamed(text, other))
        if isinstance(s, Declaration) and _never_changes(s):
            said = stem(s.name), s.const, s.type, s.value  # what has another name means something else
            if said in known:
                other[s.name] = known[said]
                continue
            known[said] = s.name
        out.append(map_bodies(s, lambda body: _once(body, known, other)))
    return out


def _never_changes(s: Declaration) -> bool:
    if s.value is None or s.sizes or s.note:
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
    return found if whole and not any(_variable(first.word) in identifiers(s.value) for s in found) else []


def _filled(stmts: Sequence[Statement], indent: int) -> list[Statement]:
    """FILLED: arrays whose elements have their own type as values too, so that nothing is narrowed."""
    out: list[Statement] = []
    done = 0
    for at, s in enumerate(stmts):
        if at < done:
            continue
        out.append(s)
        if isinstance(s, Declaration) and len(s.sizes) == 1 and s.type in _WIDE and s.value in (None, "{}"):
            values = _elements(s, stmts[at + 1 :])
            made = replace(s, value=f"{{{', '.join(map(str, values))}}}")
            if len(values) == 1 or (values and indent + len(line_of(made)) < TEXT_WIDTH):
                out[-1] = made
                done = at + 1 + len(values)
    return out


def _elements(s: Declaration, after: Sequence[Statement]) -> list[str | Binary]:
    """The values of all elements of an array, which the next statements assign in order; none if they do not."""
    count = int(s.sizes[0])
    found = [x for x in after[:count] if isinstance(x, Assign) and not x.op and s.name not in identifiers(str(x.value))]
    return [x.value for x in found] if [x.target for x in found] == [f"{s.name}[{i}]" for i in range(count)] else []


def _steps(stmts: Sequence[Statement], indent: int) -> list[Statement]:
    """STEPS: a pointer that is there for another one only, in the same block, so that nothing is computed more often.

    Not past a condition. Assemblers move nothing across a branch, and would compute the address where its value is waited for.
    """
    out = list(stmts)
    names = [s.within for s in out] if any(map(_has_address, out)) else []
    for at in reversed(range(len(names) - 1)):
        first = out[at]
        if not _has_address(first):
            continue
        users = [n for n in range(at + 1, len(out)) if first.name in names[n]]
        user = out[users[0]] if len(users) == 1 and not any(isinstance(s, If) for s in out[at : users[0]]) else None
        if isinstance(user, Declaration) and user.type == first.type and str(user.value).startswith(f"{first.name} + "):
            shown = _without_name(first, user)
            if shown is not None and indent + len(line_of(shown)) < TEXT_WIDTH:
                out[users[0]], names[users[0]] = shown, shown.within
                del out[at], names[at]
    return out


def _has_address(s: Statement) -> TypeGuard[Declaration]:
    return isinstance(s, Declaration) and s.type[-1] == "*" and s.value is not None


def _alone(stmts: Sequence[Statement], indent: int) -> list[Statement]:
    """ALONE: a pointer that the next statement uses, once, and nothing else does."""
    out = list(stmts)
    for at in reversed(range(len(out) - 1)):
        pointer, user = out[at], out[at + 1]
        if isinstance(pointer, Declaration) and pointer.type[-1] == "*" and isinstance(user, (Assign, ExprStatement)):
            shown = _without_name(pointer, user)
            if shown is None or indent + len(line_of(shown)) >= TEXT_WIDTH:
                continue
            if not any(pointer.name in s.within for s in out[at + 2 :]):
                out[at : at + 2] = [shown]
    return out


def _without_name(pointer: Declaration, user: Statement) -> Statement | None:
    """The statement with the address in place of the pointer; None if it uses it otherwise than the rule says."""
    name, address = pointer.name, str(pointer.value)
    base, plus, index = address.partition(" + ")
    if not plus or not base.isidentifier() or user.mentioned.count(name) != 1:
        return None
    shown = " ".join(texts(user))
    if f"{name}[0]" in shown:
        return map_texts(user, lambda text: text.replace(f"{name}[0]", f"{base}[{index}]"))
    return None if f"{name}[" in shown else map_texts(user, lambda text: renamed(text, {name: address}))


def _variable(place: str) -> str:
    """Of which it is an element."""
    return place.partition("[")[0]


def _grown(s: Statement) -> Statement:
    """GROWN"""
    match s:
        case Assign(value=Binary(left=left, op=op, right=right), op="") if left == s.target and op in _GROWING:
            return Assign(left, right, op, span=s.span)
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
