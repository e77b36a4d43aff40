"""Renaming: the names that may be renamed, the allowed new names, and the places that change.

SAME_MEANING   A renaming is returned only if it changes nothing but the name: every name in the new text refers to the same
               symbol as before, and there is no new error. Any other renaming is refused, with the reason.
"""

from __future__ import annotations

import re
from collections import Counter

from ...dsl import syntax
from .analysis import Analysis
from .names import Occurrence, Symbol

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OF_DEVICE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(:[A-Za-z_][A-Za-z0-9_]*)?")
RESERVED = frozenset(["and", "or", "not", "else", "auto", "inf", "nan", "true", "false"])


class RenameRefused(Exception):
    """A renaming that cannot be; the text says why, to people."""


def renamable_at(found: Analysis, offset: int) -> Occurrence:
    """The name at a place, if it may be renamed. Raises Refused."""
    name = found.name_at(offset)
    if name is None:
        raise RenameRefused("there is no name here")
    symbol = name.symbol
    if not symbol.renamable:
        raise RenameRefused(f"`{symbol.name}` is {_what(symbol)}, which no text of yours declares here")
    if found.module is None or found.file is None:
        raise RenameRefused("the text has mistakes; mend them first")
    owner = symbol.scope.removeprefix("strategy ").removeprefix("device ") or symbol.name
    declared = {getattr(d, "name", None) for d in found.file.declarations if not isinstance(d, syntax.Import)}
    if owner not in declared and not any(o.declares for o in found.all_of(name)):
        raise RenameRefused(f"`{symbol.name}` is declared in another file")
    return name


def rename_edits(found: Analysis, offset: int, new: str) -> list[Occurrence]:
    """The places that change when the name at a place gets another. Raises Refused."""
    name = renamable_at(found, offset)
    symbol = name.symbol
    if symbol.name == new:
        return []
    pattern = _OF_DEVICE if symbol.kind == "device" else _NAME
    if not pattern.fullmatch(new):
        raise RenameRefused(f"`{new}` is not a name: a letter or `_`, then letters, digits and `_`")
    if new in RESERVED:
        raise RenameRefused(f"`{new}` is a reserved word")
    taken = _taken(found, symbol, new)
    if taken is not None:
        raise RenameRefused(f"`{new}` is already {_what(taken)}{f' of `{taken.scope}`' if taken.scope else ''}")
    places = found.all_of(name)
    _means_the_same(found, symbol, places, new)
    return places


def _taken(found: Analysis, symbol: Symbol, new: str) -> Symbol | None:
    """What has the new name already, where both could not be told apart."""
    for o in found.names:
        other = o.symbol
        alike = symbol.scope == other.scope if symbol.scope else symbol.kind == other.kind
        if other.name == new and alike:
            return other
    if not symbol.scope and found.module is not None and (symbol.kind, new) in found.module.declared:
        return Symbol(symbol.kind, "", new)  # imported, and not named here
    return None


def _means_the_same(found: Analysis, symbol: Symbol, places: list[Occurrence], new: str) -> None:
    """SAME_MEANING."""
    longer = len(new) - len(symbol.name)
    text, starts = found.text, sorted(o.start for o in places)
    for start in reversed(starts):
        text = text[:start] + new + text[start + len(symbol.name) :]
    after = Analysis(text, found.name, found.base)
    before = Counter(e.id for e in found.mistakes)
    for error in after.mistakes:
        before[error.id] -= 1
        if before[error.id] < 0:
            raise RenameRefused(f"with the name `{new}` the text would be wrong: {error.message}")
    expected = [(_renamed(o.symbol, symbol, new), o.start + longer * sum(s < o.start for s in starts)) for o in found.names]
    if [(o.symbol, o.start) for o in after.names] != expected:
        raise RenameRefused(f"with the name `{new}` names in this text would stand for something else")


def _renamed(other: Symbol, symbol: Symbol, new: str) -> Symbol:
    """A name of the text as it is called afterwards; a declaration's name is the scope of others too."""
    if other == symbol:
        return Symbol(other.kind, other.scope, new)
    prefix = {"strategy": "strategy ", "device": "device "}.get(symbol.kind, "")
    if symbol.kind in ("op", "strategy", "device") and other.scope == prefix + symbol.name:
        return Symbol(other.kind, prefix + new, other.name)
    return other


def _what(symbol: Symbol) -> str:
    return f"{'an' if symbol.kind[0] in 'aeiou' else 'a'} {symbol.kind}"
