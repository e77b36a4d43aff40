"""Instructions that come in several kinds: `instr cp_async on thread for f32 x 4, f16 x 8:` is one instruction for each.

In its statement, its places, facts and texts `T` stands for the type and `N` for the count. A line of its own for each kind,
`for 16 B: V = uint4, W = 16`, gives values to other names. `for 16 B` is one kind for every type of whole bytes, with as many
elements as fill 16 bytes.

A name of an instruction with braces, `mma_${SHAPE}_${T}`, has the values in their places. Any other gets the type and the
count: `cp_async_f32x4`, or `mma_f16` without a count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from functools import cache
from operator import is_
from typing import Any

from .. import syntax
from ..errors import Diagnostics, UserError
from ..errors.device import KindNameTaken, MissingKindValue, UnusedKindName, WrongKindValue
from ..types import TYPES
from .device_facts import is_unit
from .emit_text import KindNames, Value, fill_text, spell_out

TYPE, COUNT = "T", "N"
_COORDINATES = ("lane", "r")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def expand_kinds(decl: syntax.InstrDecl) -> tuple[syntax.InstrDecl, ...]:
    """The instructions that `decl` declares. Raises a UserError of `dsl.errors.device`, or UserErrors for several."""
    diagnostics = Diagnostics()
    _check_values(decl, diagnostics)
    diagnostics.raise_if_any()
    meant = [(kind, *of) for kind in decl.kinds for of in _types(kind)]
    if not meant:
        name = fill_text(decl.name, KindNames({}), decl.span)
        return (replace(decl, name=name, emits=tuple(_emit(e, None) for e in decl.emits)),)
    used: set[str] = set()
    out = []
    for kind, dtype, count in meant:
        values: dict[str, Value] = {v.name: v.value for v in kind.values}
        values[TYPE] = dtype
        if count is not None:
            values[COUNT] = count
        names = KindNames(values)
        try:
            out.append(_of_kind(decl, names))
        except UserError as e:
            diagnostics.add(e)
        used |= names.used
    diagnostics.raise_if_any()
    for v in decl.kinds[0].values:
        if v.name not in used:
            message = f"`{decl.name}` has values for `{v.name}` and never uses it"
            diagnostics.add(UnusedKindName(message, v.span, help="inside a word it is written `${NAME}`"))
    diagnostics.raise_if_any()
    return tuple(out)


def _types(kind: syntax.Kind) -> list[tuple[str, int | None]]:
    if kind.dtype is not None:
        return [(kind.dtype, kind.count)]
    size = kind.count or 0
    return [(t.name, size // t.bytes) for t in TYPES.values() if t.bits >= 8 and size % t.bytes == 0]


def _check_values(decl: syntax.InstrDecl, diagnostics: Diagnostics) -> None:
    operands = [t.name for t in (*decl.operands, *decl.results)]
    taken = dict.fromkeys(_indices(decl.body), "an index")
    taken |= dict.fromkeys((*operands, *(x.lower() for x in operands)), "an operand")
    taken |= dict.fromkeys(_COORDINATES, "a coordinate") | dict.fromkeys(TYPES, "a type")
    taken |= {TYPE: "the type of the kind", COUNT: "the count of the kind"}
    names = list(dict.fromkeys(v.name for kind in decl.kinds for v in kind.values))
    for kind in decl.kinds:
        given = [v.name for v in kind.values]
        for n, v in enumerate(kind.values):
            if v.name in taken:
                message = f"`{v.name}` is {taken[v.name]} in `{decl.name}`"
                diagnostics.add(KindNameTaken(message, v.span, help="take another name"))
            elif v.name in given[:n]:
                message = f"`{v.name}` is given twice"
                diagnostics.add(KindNameTaken(message, v.span, help="keep one of its values, or take another name"))
        for name in names:
            if name not in given:
                message = f"this kind of `{decl.name}` has no value for `{name}`"
                help = f"write `{name} = ...` in every `for` line"
                diagnostics.add(MissingKindValue(message, kind.span, help=help))


def _indices(x: Any) -> Iterator[str]:
    match x:
        case syntax.Assign() | syntax.Reduce():
            yield from x.indices
            yield from _indices(x.value if isinstance(x, syntax.Assign) else x.body)
        case tuple():
            for y in x:
                yield from _indices(y)
        case syntax.Node() if is_dataclass(x):
            yield from _indices(tuple(getattr(x, f.name) for f in fields(x) if f.name != "span"))


def _of_kind(decl: syntax.InstrDecl, names: KindNames) -> syntax.InstrDecl:
    if "${" in decl.name:
        name = fill_text(decl.name, names, decl.span)
        if not _NAME.fullmatch(name):
            message = f"`{decl.name}` would be `{name}`, which is no name"
            raise WrongKindValue(message, decl.span, help="names are made of letters, digits and `_`")
    else:
        name = f"{decl.name}_{names[TYPE]}" + (f"x{names[COUNT]}" if COUNT in names else "")
    meant = {f: _put(getattr(decl, f), names) for f in ("operands", "results", "body", "places", "facts", "awaits")}
    return replace(decl, name=name, kinds=(), emits=tuple(_emit(e, names) for e in decl.emits), **meant)


def _emit(e: syntax.Emit, names: KindNames | None) -> syntax.Emit:
    return replace(e, text=spell_out(e.text if names is None else fill_text(e.text, names, e.span), e.span))


def _put(x: Any, names: KindNames) -> Any:
    """A part of the instruction with what the names stand for."""
    match x:
        case syntax.Name(id=name) if name in names:
            return syntax.Num(_number(name, names, x), span=x.span)
        case syntax.TensorDecl(dtype=name) if name in names:
            return replace(x, dtype=_word(name, names, x), shape=_put(x.shape, names))
        case syntax.Call(function=name) if name in names:
            return replace(x, function=_word(name, names, x), args=_put(x.args, names))
        case syntax.Fact():
            return replace(x, parts=tuple(_parts(x, names)))
        case tuple():
            parts = tuple(_put(y, names) for y in x)
            return x if all(map(is_, parts, x)) else parts
        case syntax.Node() if is_dataclass(x):
            made = {name: _put(getattr(x, name), names) for name in _parts_of(type(x))}
            changed = {name: part for name, part in made.items() if part is not getattr(x, name)}
            return replace(x, **changed) if changed else x
    return x


@cache
def _parts_of(kind: type) -> tuple[str, ...]:
    return tuple(f.name for f in fields(kind) if f.name != "span")


def _parts(fact: syntax.Fact, names: KindNames) -> Iterator[str | syntax.Quantity]:
    """The words and numbers of a fact: `S W B` is `S 16 B` where W is 16."""
    parts = iter(fact.parts)
    for part in parts:
        value = names[part] if isinstance(part, str) and part in names else part
        if not isinstance(value, int | float):
            yield value
            continue
        unit = next(parts, None)
        if isinstance(unit, str) and is_unit(unit):
            yield syntax.Quantity(value, unit, span=fact.span)
            continue
        yield syntax.Quantity(value, span=fact.span)
        if unit is not None:
            yield unit


def _number(name: str, names: KindNames, at: syntax.Node) -> int:
    value = names[name]
    if isinstance(value, int):
        return value
    raise WrongKindValue(f"`{name}` is {value}, and a whole number stands here", at.span, help=f"`for ...: {name} = 16`")


def _word(name: str, names: KindNames, at: syntax.Node) -> str:
    value = names[name]
    if isinstance(value, str):
        return value
    raise WrongKindValue(f"`{name}` is {value}, and a type stands here", at.span, help=f"`for ...: {name} = f32`")
