"""The symbol of each name in a text, for references, definitions, renaming and colours.

SAME_SYMBOL   two names are one thing when kind, scope and spelling agree. The scope of tensors, sizes and indices is their
              op; schedules for the op share them. Ops, devices, schedules, strategies and instructions have the whole text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lark import Token

from ...dsl import syntax
from ...dsl.op import Op
from ...dsl.types import TYPES

RENAMABLE = ("op", "schedule", "strategy", "instr", "tensor", "size", "index", "param", "device")


@dataclass(frozen=True)
class Symbol:
    """kind  op, device, schedule, strategy, instr, tensor, size, index, param, level, memory, type, function, word
    scope    the op (or the strategy) whose name it is; "" where it is everyone's
    """

    kind: str
    scope: str
    name: str

    @property
    def renamable(self) -> bool:
        return self.kind in RENAMABLE


@dataclass(frozen=True)
class Occurrence:
    """A name at a place: characters [start, end)."""

    symbol: Symbol
    start: int
    end: int
    declares: bool = False


_AFTER = {
    "_FOR": "op",
    "_ON": "device",
    "_EXTENDS": "device",
    "APPLY": "strategy",
    "WITH": "instr",
    "_OF": "level",
    "_AT": "word",
}
_DECLARES = {"OP": "op", "DEVICE": "device", "SCHEDULE": "schedule", "STRATEGY": "strategy", "INSTR": "instr"}
_NAMES = ("NAME", "DEVICE_NAME", "PART_NAME")


def occurrences(file: syntax.File, tokens: Sequence[Token], ops: dict[str, Op]) -> list[Occurrence]:
    """Every name of a text, in order. `ops`: what is known of the text's ops and of imported ones."""
    starts = [d.span.start for d in file.declarations]
    found: list[Occurrence] = []
    for n, declaration in enumerate(file.declarations):
        end = starts[n + 1] if n + 1 < len(starts) else len(file.source.text) + 1
        own = [t for t in tokens if t.start_pos is not None and starts[n] <= t.start_pos < end]
        found += _names(declaration, own, ops)
    return found


def _names(declaration: syntax.Decl, tokens: list[Token], ops: dict[str, Op]) -> Iterator[Occurrence]:
    if isinstance(declaration, syntax.Import):
        return
    scope, kinds = _scope(declaration, ops)
    inside_instr: dict[str, str] = {}
    for i, t in enumerate(tokens):
        if t.type not in _NAMES:
            continue
        before = tokens[i - 1].type if i else ""
        after = tokens[i + 1].type if i + 1 < len(tokens) else ""
        name, start = str(t), int(t.start_pos or 0)
        if t.type == "PART_NAME":  # `Y.sum1`: the part before the dot is the tensor
            name = name.split(".")[0]
        if before in _DECLARES and not (before == "OP" and isinstance(declaration, syntax.DeviceDecl)):
            symbol, declares = Symbol(_DECLARES[before], "", name), True
            if before == "INSTR":
                inside_instr = {}
        else:
            kind = _kind(declaration, name, before, after, tokens[max(0, i - 6) : i], kinds | inside_instr)
            whole = kind in ("op", "device", "schedule", "strategy", "instr", "level", "memory", "type", "function", "word")
            symbol = Symbol(kind, "" if whole else scope, name)
            declares = kind in ("tensor", "size", "param") and _first(declaration, name, before, after, tokens[:i])
        yield Occurrence(symbol, start, start + len(name), declares)


def _scope(declaration: syntax.Decl, ops: dict[str, Op]) -> tuple[str, dict[str, str]]:
    """Whose tensors, sizes and indices the declaration speaks of, and what is what among them."""
    if isinstance(declaration, syntax.OpDecl):
        kinds = {t.name: "tensor" for t in (*declaration.inputs, *declaration.outputs) if isinstance(t, syntax.TensorDecl)}
        kinds |= {a.target: "tensor" for a in declaration.body}
        kinds |= dict.fromkeys(declaration.dims, "size")
        kinds |= {w.left.id: "size" for w in declaration.where if isinstance(w.left, syntax.Name) and w.op == "="}
        kinds |= {p.name: "param" for p in declaration.inputs if isinstance(p, syntax.IntParam)}
        return declaration.name, kinds
    if isinstance(declaration, syntax.ScheduleDecl):
        op = ops.get(declaration.op)
        kinds = {line.name: "param" for line in declaration.lines if isinstance(line, syntax.Param)}
        if op is not None:
            kinds |= {t.name: "tensor" for t in op.tensors} | {s.target: "tensor" for s in op.statements}
            kinds |= {v.name: "size" for v in op.dims} | {v.name: "size" for v, _ in op.derived}
            kinds |= {i: "index" for s in op.statements for i, _ in s.ranges}
        return declaration.op, kinds
    if isinstance(declaration, syntax.StrategyDecl):
        return f"strategy {declaration.name}", {name: "param" for name, _ in declaration.params}
    return f"device {declaration.name}" if isinstance(declaration, syntax.DeviceDecl) else "", {}


def _kind(declaration: syntax.Decl, name: str, before: str, after: str, near: Sequence[Token], kinds: dict[str, str]) -> str:
    if before in _AFTER:
        return _AFTER[before]
    if isinstance(declaration, syntax.DeviceDecl):
        return {"LEVEL": "level", "MEMORY": "memory", "_IN": "memory"}.get(before, "type" if name in TYPES else "word")
    if before == "_ARROW" and not isinstance(declaration, syntax.OpDecl):
        line = [t.type for t in near]
        return "level" if "TILE" in line or ("_COLON" in line and "MOVE" not in line) else "memory"
    if before == "_IN" and not isinstance(declaration, syntax.OpDecl) and not (near and near[-2:][0].type == "PARAM"):
        return "memory"
    if before == "BY" or before == "LAYOUT":
        return "word"
    if name in kinds:
        return kinds[name]
    if name in TYPES:
        return "type"
    return "function" if after == "LPAR" else "index"


def _first(declaration: syntax.Decl, name: str, before: str, after: str, earlier: Sequence[Token]) -> bool:
    """Whether this is where the name is introduced: the first time that it stands in an op, or after `param`."""
    if isinstance(declaration, syntax.OpDecl | syntax.StrategyDecl):
        return not any(t.type in _NAMES and str(t) == name for t in earlier[2:])
    return before == "PARAM"
