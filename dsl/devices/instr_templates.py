"""Instructions that come for several types: `instr cp_async on thread for f32 x 4, f16 x 8:` is one instruction for each.

In what it computes, in its places and in its texts `T` stands for the type and `N` for the count. Their names are those of the
type and the count after that of the instruction: `cp_async_f32x4`, or `mma_f16` where no count is given. `for 16 B` is one for
every type of whole bytes, with as many elements as fill 16 bytes.
"""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass, replace
from typing import Any

from .. import syntax
from ..types import TYPES

TYPE, COUNT = "T", "N"


def expand_types(decl: syntax.InstrDecl) -> tuple[syntax.InstrDecl, ...]:
    """The instructions that `decl` declares; itself, where it names no types."""
    return tuple(_of(decl, dtype, count) for kind in decl.kinds for dtype, count in _meant(*kind)) or (decl,)


def _meant(dtype: str | None, count: int | None) -> list[tuple[str, int | None]]:
    if dtype is not None:
        return [(dtype, count)]
    whole = [t for t in TYPES.values() if t.bits >= 8 and (count or 0) % t.bytes == 0]
    return [(t.name, (count or 0) // t.bytes) for t in whole]


def _of(decl: syntax.InstrDecl, dtype: str, count: int | None) -> syntax.InstrDecl:
    emits = tuple(replace(e, text=_text(e.text, dtype, count)) for e in decl.emits)
    named = replace(decl, name=f"{decl.name}_{dtype}" + (f"x{count}" if count else ""), emits=emits, kinds=())
    meant = {f: _put(getattr(decl, f), dtype, count) for f in ("operands", "results", "body", "places")}
    return replace(named, **meant)


def _text(text: str, dtype: str, count: int | None) -> str:
    text = re.sub(rf"\b{TYPE}\b", dtype, text)
    return text if count is None else re.sub(rf"\b{COUNT}\b", str(count), text)


def _put(x: Any, dtype: str, count: int | None) -> Any:
    match x:
        case syntax.Name(id=id) if id == COUNT and count is not None:
            return syntax.Num(count, span=x.span)
        case syntax.TensorDecl(dtype=name) if name == TYPE:
            return replace(x, dtype=dtype, shape=_put(x.shape, dtype, count))
        case syntax.Call(function=name) if name == TYPE:
            return replace(x, function=dtype, args=_put(x.args, dtype, count))
        case tuple():
            return tuple(_put(y, dtype, count) for y in x)
        case syntax.Node() if is_dataclass(x):
            return replace(x, **{f.name: _put(getattr(x, f.name), dtype, count) for f in fields(x) if f.name != "span"})
    return x
