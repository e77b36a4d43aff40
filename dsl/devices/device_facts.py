"""The meaning of the facts of a device's levels and memories, and of its plain figures.

Facts have a generic syntax (`words and quantities, comma-separated`); their vocabulary is here, and independent of devices.
A fact of an extending device replaces the same fact of its parent, the others stay.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from .. import syntax
from ..device import Level, Memory
from ..errors import Diagnostics, UserError, did_you_mean
from ..errors.device import BadFact, IncompleteLevel, UnknownUnit
from ..source import Span
from ..syntax import Fact, LimitDecl, Quantity

_PREFIX = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_PREFIX |= {"Ki": 2**10, "ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_UNIT = re.compile(r"([kKMGTP]i?)?(B|bit|Hz|FLOP|OP)(/s|/cycle)?")


def base_units(q: Quantity) -> tuple[float, str]:
    """The value in base units, and the base unit: `B`, `B/s`, `Hz`, `FLOP/s`, `s`, or none."""
    if q.unit in _SECONDS:
        return q.value * _SECONDS[q.unit], "s"
    match = _UNIT.fullmatch(q.unit)
    if match is None:
        return q.value, q.unit
    prefix, base, per = match.groups(default="")
    factor, base = (1 / 8, "B") if base == "bit" else (1, base)
    return q.value * factor * _PREFIX[prefix], base + per


def is_unit(word: str) -> bool:
    return word in _SECONDS or _UNIT.fullmatch(word) is not None


def number_in(q: Quantity, unit: str, span: Span | None) -> float:
    """The value in `unit`. Raises UnknownUnit where it has another one."""
    value, found = base_units(q)
    if found != unit or q.count is not None:
        wanted = f"in {unit}" if unit else "a plain number"
        raise UnknownUnit(f"`{quantity_text(q)}` should be {wanted}", q.span or span)
    if value < 0 or value != value:
        raise BadFact(f"`{quantity_text(q)}` cannot be", q.span or span)
    return value


def whole_number(q: Quantity, unit: str, span: Span | None, least: int = 0) -> int:
    """The value in `unit`, a whole number of at least `least`."""
    value = number_in(q, unit, span)
    if value != int(value) or value < least:
        raise BadFact(f"`{quantity_text(q)}` should be a whole number" + (f" from {least} on" if least else ""), q.span or span)
    return int(value)


def _positive(q: Quantity, value: float, span: Span | None) -> float:
    if value <= 0:
        raise BadFact(f"`{quantity_text(q)}` should be more than 0", q.span or span)
    return value


def _count(q: Quantity, span: Span | None) -> int:
    """The count of `32 x 4 B`, at least 1."""
    if not q.count:
        raise BadFact(f"`{quantity_text(q)}` has a count of 0; it is a whole number from 1 on", q.span or span)
    return q.count


def quantity_text(q: Quantity) -> str:
    return (f"{q.count} x " if q.count is not None else "") + f"{q.value} {q.unit}".strip()


def level(decl: syntax.LevelDecl, parent: Level | None, deeper: set[str], diagnostics: Diagnostics) -> tuple[Level, list]:
    """The level, and limits on units further down that its facts state (`at most 1024 threads`), by name."""
    found: dict[str, Any] = {}
    limits: list[tuple[str, float]] = []

    def read(f: Fact) -> None:
        match f.parts:
            case ("open" | "shaped" as units,):
                _once(found, "units", units, f)
            case ("finite", Quantity() as q):
                _once(found, "units", "finite", f)
                _once(found, "most", whole_number(q, "", f.span, 1), f)
            case ("siblings", "nothing" | "barrier" | "lockstep" as how):
                _once(found, "siblings", how, f)
            case ("at", "most", Quantity() as q, str(what)):
                below = next((x for x in deeper if what in (x, x + "s")), None)
                if below is not None:
                    limits.append((f"{decl.name} {below}", whole_number(q, "", f.span, 1)))
                elif what in ("units", decl.name, decl.name + "s"):
                    _once(found, "most", whole_number(q, "", f.span, 1), f)
                else:
                    raise BadFact(
                        f"`at most ... {what}`: {what} is no level", f.span, help=did_you_mean(what, ["units", *deeper])
                    )
            case ("width", Quantity() as q):
                _once(found, "width", whole_number(q, "", f.span, 1), f)
            case (Quantity() as q, "bytes" | "byte"):
                _once(found, "bytes", whole_number(q, "", f.span, 1), f)
            case (Quantity(unit=unit) as q,) if unit:
                _once(found, "bytes", whole_number(q, "B", f.span, 1), f)
            case _:
                raise _unknown(f, "level", _LEVEL_FORMS)

    before = len(diagnostics.errors)
    _each(decl.facts, read, diagnostics)
    if parent is not None:
        if "units" in found and found["units"] != parent.units:
            found.setdefault("most", None)
        return replace(parent, **found), limits
    missing = [word for word, key in (("open, shaped or finite", "units"), ("siblings", "siblings")) if key not in found]
    if missing and len(diagnostics.errors) == before:
        diagnostics.add(IncompleteLevel(f"level `{decl.name}` does not say {' nor '.join(missing)}", decl.span))
    found.setdefault("units", "open")
    found.setdefault("siblings", "nothing")
    return Level(decl.name, **found), limits


def memory(decl: syntax.MemoryDecl, parent: Memory | None, diagnostics: Diagnostics) -> Memory:
    found: dict[str, Any] = {"level": decl.level, "span": decl.span}

    def read(f: Fact) -> None:
        match f.parts:
            case (Quantity(count=int() as count) as q,):
                size = whole_number(replace(q, count=None), "B", f.span, 1)
                _once(found, "registers", (_count(q, f.span), size), f)
                _once(found, "capacity", count * size, f)
            case (Quantity(unit=unit) as q,) if unit.endswith("/s"):
                _once(found, "bandwidth", _positive(q, number_in(q, "B/s", f.span), f.span), f)
            case (Quantity() as q,):
                _once(found, "capacity", whole_number(q, "B", f.span, 1), f)
            case ("transaction" | "reserve" | "spill" as name, Quantity() as q):
                _once(found, name, whole_number(q, "B", f.span), f)
            case ("banks", Quantity(count=int() as count) as q):
                _once(found, "banks", (_count(q, f.span), whole_number(replace(q, count=None), "B", f.span, 1)), f)
            case ("slices", Quantity() as q):
                _once(found, "slices", whole_number(q, "", f.span, 1), f)
            case ("in", str(backing)):
                _once(found, "backing", backing, f)
            case _:
                raise _unknown(f, "memory", _MEMORY_FORMS)

    _each(decl.facts, read, diagnostics)
    return replace(parent, **found) if parent is not None else Memory(decl.name, **found)


def figures(decl: LimitDecl, diagnostics: Diagnostics) -> dict[str, float]:
    """Plain figures by name, in base units (Hz, FLOP/s, B, s). A trailing `per unit`, `per core` is for people."""
    found: dict[str, float] = {}

    def read(f: Fact) -> None:
        if _is_cost(f) or f.parts[0] == "without":
            return
        words = [p for p in f.parts if isinstance(p, str)]
        numbers = [p for p in f.parts if isinstance(p, Quantity)]
        before = f.parts.index(numbers[0]) if len(numbers) == 1 else 0
        tail = f.parts[before + 1 :]
        if not before or (tail and not (len(tail) == 2 and tail[0] == "per")):
            raise BadFact("a figure is a name and a number, such as `clock 1.41 GHz`", f.span)
        name = " ".join(words[:before])
        if name in found:
            raise BadFact(f"`{name}` is stated twice", f.span, help="leave one out")
        q = numbers[0]
        if q.count is not None:
            raise BadFact(f"`{quantity_text(q)}` is no plain number", q.span or f.span)
        found[name] = _positive(q, base_units(q)[0], f.span)

    _each(decl.facts, read, diagnostics)
    return found


def costs(decl: LimitDecl, instrs: Collection[str], diagnostics: Diagnostics) -> dict[str, dict[str, float]]:
    """What `cost NAME 8 cycles` and `latency NAME 33` say of instructions, as fields of theirs."""
    found: dict[str, dict[str, float]] = {}

    def read(f: Fact) -> None:
        if not _is_cost(f):
            return
        word, name, q, *_ = f.parts
        if name not in instrs:
            raise BadFact(f"there is no instruction `{name}`", f.span, help=did_you_mean(str(name), instrs))
        assert isinstance(q, Quantity)
        _once(found.setdefault(str(name), {}), {"cost": "cycles"}.get(str(word), str(word)), number_in(q, "", f.span), f)

    _each(decl.facts, read, diagnostics)
    return found


def absent_facts(decl: LimitDecl, known: Collection[str], diagnostics: Diagnostics) -> set[str]:
    """The instructions and figures of the parent that `without NAME` says are not here; `known` are all of them."""
    found: set[str] = set()

    def read(f: Fact) -> None:
        if f.parts[0] != "without":
            return
        name = " ".join(map(str, f.parts[1:]))
        if name not in known:
            raise BadFact(f"the device extended has no `{name}`", f.span, help=did_you_mean(name, known))
        found.add(name)

    _each(decl.facts, read, diagnostics)
    return found


def _is_cost(f: Fact) -> bool:
    match f.parts:
        case ("cost" | "latency", str(), Quantity(), *tail):
            return tail in ([], ["cycles"], ["cycle"])
    return False


def _each(facts: tuple[Fact, ...], read: Any, diagnostics: Diagnostics) -> None:
    for f in facts:
        try:
            read(f)
        except UserError as e:
            diagnostics.add(e)


def _once(found: dict[str, Any], key: str, value: Any, f: Fact) -> None:
    if key in found:
        raise BadFact(f"the {key} is stated twice", f.span, help="leave one out")
    found[key] = value


_LEVEL_FORMS = {
    "open": "open",
    "shaped": "shaped",
    "finite": "finite 8",
    "siblings": "siblings nothing`, `siblings barrier` or `siblings lockstep",
    "at": "at most 32 units",
    "width": "width 32",
}
_MEMORY_FORMS = {
    "capacity": "128 KiB",
    "bandwidth": "1.5 TB/s",
    "banks": "banks 32 x 4 B",
    "transaction": "transaction 64 B",
    "reserve": "reserve 1 KiB",
    "spill": "spill 64 KiB",
    "slices": "slices 8",
    "in": "in dram",
}


def _unknown(f: Fact, what: str, forms: dict[str, str]) -> BadFact:
    text = " ".join(p if isinstance(p, str) else quantity_text(p) for p in f.parts)
    first = f.parts[0] if isinstance(f.parts[0], str) else ""
    near = did_you_mean(first, forms) if first else None
    help = f"it reads `{forms[first]}`" if first in forms else near
    if help is None or not help.startswith(("it reads", "did you mean")):
        help = "write " + ", ".join(f"`{form}`" for form in forms.values())
    return BadFact(f"`{text}` is not a fact of a {what}", f.span, help=help)
