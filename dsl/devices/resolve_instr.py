"""From the syntax of an instruction to its meaning: `resolve_instr(decl, levels, memories) -> Instr`.

Its statement is resolved as an op of one statement. The place of an operand is a map from (lane, r), whose ranges are not
written: `lane` has as many values as there are units below, `r` as many as it takes to reach every element. The maps are
checked by enumeration.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import prod
from typing import Any

from .. import syntax
from ..device import AWAITED, Instr, Level, Memory, Operand
from ..errors import Diagnostics, UserError, did_you_mean
from ..errors.device import (
    BadFact,
    DuplicateItem,
    FragmentNotCovering,
    InstructionBody,
    MapOutOfRange,
    MissingMapAxis,
    MissingPlace,
    ResultReplicated,
    UnknownCoordinate,
    UnknownLevel,
    UnknownMapAxis,
    UnknownMemory,
    UnknownOperand,
)
from ..fragment import REGISTER, FragmentLayout
from ..index.expr import Expr, Var, as_expr
from ..op import Op, Statement
from ..ops.index_syntax import index_term, word_span
from ..ops.resolve_op import resolve_op
from ..syntax import Quantity
from ..values import loads
from .device_facts import number_in, quantity_text, whole_number

LANE = "lane"
_MOST_LANES = 1024  # looked at where the device does not say how many units there are
_MOST_ELEMENTS = 1 << 18  # of an operand; maps are checked by enumeration


def resolve_instr(decl: syntax.InstrDecl, levels: tuple[Level, ...], memories: Mapping[str, Memory]) -> Instr:
    """The resolved instruction. Raises a UserError of `dsl.errors.device` or `dsl.errors.op`, or UserErrors for several."""
    diagnostics = Diagnostics()
    names = [x.name for x in levels]
    if decl.level not in names:
        diagnostics.add(UnknownLevel(
            f"there is no level `{decl.level}` to execute `{decl.name}`",
            word_span(decl.span, decl.level), help=did_you_mean(decl.level, names),
        ))  # fmt: skip
    op, statement, accumulate = _body(decl)
    axes = _axes(statement)
    places = _places(decl, op, diagnostics)
    below = levels[names.index(decl.level) + 1 :] if decl.level in names else ()
    maps = {name: m for name, p in places.items() if (m := _map(p, axes[name], memories, diagnostics)) is not None}
    diagnostics.raise_if_any()
    shapes = {t.name: tuple(e.constant or 0 for e in t.shape) for t in op.tensors}
    widest = max(t.dtype.bytes for t in op.tensors)
    lanes = _lanes(below, [(maps[n], shapes[n]) for n in maps], widest)
    figures = _figures(decl, op, diagnostics)
    operands = []
    for t in (*decl.operands, *decl.results):
        role = "input" if t.name != statement.target else "inout" if accumulate else "output"
        tensor, place = op.tensor(t.name), places[t.name]
        try:
            private = memories[place.memory].level == names[-1]
            f = _fragment(place, maps[t.name], shapes[t.name], lanes, role, private)
        except UserError as e:
            diagnostics.add(e)
            continue
        align, least = (int(figures.get(f"{fact} {t.name}", 0)) for fact in ("align", "least"))
        operands.append(Operand(t.name, tensor.dtype, f.shape, role, place.memory, f.coords, f.map, align, least))
    emits: dict[str, str] = {}
    for e in decl.emits:
        if e.dialect in emits:
            diagnostics.add(DuplicateItem(f"the text for {e.dialect} is given twice", e.span, help="leave one out"))
        emits[e.dialect] = e.text
    awaits = tuple(p if isinstance(p, str) else str(p.value) for p in decl.awaits.parts) if decl.awaits else None
    if decl.awaits and awaits and awaits[0] not in AWAITED:
        message = f"nothing is awaited by `{awaits[0]}`"
        diagnostics.add(BadFact(message, decl.awaits.span or decl.span, help=did_you_mean(awaits[0], AWAITED)))
    diagnostics.raise_if_any()
    instr = Instr(
        decl.name, decl.level, decl.family, tuple(operands), statement, accumulate,
        tuple(emits.items()), figures.get("cost"), figures.get("latency"), awaits, figures.get("error"), decl.span,
    )  # fmt: skip
    if instr.error is not None and instr.function is None:
        raise BadFact(
            f"`{decl.name}` states an error, but is no function of f32",
            decl.span,
            help="its op is `Y[] = exp2(X[])`, say, with `X in register at ()`; other instructions do what they say",
        )
    return instr


def _body(decl: syntax.InstrDecl) -> tuple[Op, Statement, bool]:
    """The op an instruction computes, its statement, and whether it adds to what was there."""
    if len(decl.body) != 1:
        raise InstructionBody(
            f"`{decl.name}` has {len(decl.body)} statements; an instruction is one",
            decl.span,
            help="write an instruction for each",
        )
    assign = decl.body[0]
    operands = [t for t in (*decl.operands, *decl.results) if isinstance(t, syntax.TensorDecl)]
    outputs = tuple(t for t in operands if t.name == assign.target)
    if not outputs:
        known = [t.name for t in operands]
        raise UnknownOperand(
            f"`{assign.target}` is no operand of `{decl.name}`", assign.span, help=did_you_mean(assign.target, known)
        )
    if extra := next((t for t in decl.results if t.name != assign.target), None):
        raise InstructionBody(f"`{extra.name}` is a result that no statement assigns", extra.span)
    inputs = tuple(t for t in operands if t.name != assign.target)
    op = resolve_op(
        syntax.OpDecl(name=decl.name, dims=(), inputs=inputs, outputs=outputs, where=(), body=decl.body, span=decl.span),
        instruction=True,
    )
    if len(op.statements) != 1:
        raise InstructionBody(f"`{decl.name}` reduces inside an expression; the reduction stands at the root", assign.span)
    for t in op.tensors:
        count = prod(e.constant or 0 for e in t.shape)
        if not (0 < count <= _MOST_ELEMENTS and all((e.constant or 0) > 0 for e in t.shape)):
            raise InstructionBody(f"`{t.name}` has {count} elements; an operand has 1 to {_MOST_ELEMENTS}", t.span)
    return op, op.statements[0], assign.accumulate


def _axes(s: Statement) -> dict[str, tuple[str, ...]]:
    """For each operand, the index that subscripts each of its axes."""
    out = {s.target: s.indices}
    for load in loads(s.value):
        names = []
        for e in load.indices:
            if not isinstance(e.atom, Var):
                raise InstructionBody(f"`{load.tensor}` is subscripted by `{e}`; instructions take plain indices", s.span)
            names.append(e.atom.name)
        if out.setdefault(load.tensor, tuple(names)) != tuple(names):
            raise InstructionBody(f"`{load.tensor}` is read with two different subscripts", s.span)
    return out


def _places(decl: syntax.InstrDecl, op: Op, diagnostics: Diagnostics) -> dict[str, syntax.OperandPlace]:
    known = [t.name for t in (*decl.operands, *decl.results)]
    places: dict[str, syntax.OperandPlace] = {}
    for p in decl.places:
        if p.operand not in known:
            message = f"`{p.operand}` is no operand of `{decl.name}`"
            diagnostics.add(UnknownOperand(message, word_span(p.span, p.operand), help=did_you_mean(p.operand, known)))
        elif p.operand in places:
            diagnostics.add(DuplicateItem(f"`{p.operand}` is placed twice", p.span, help="leave one out"))
        else:
            places[p.operand] = p
    read = {load.tensor for load in loads(op.statements[0].value)} | {op.statements[0].target}
    for name in known:
        if name not in read:
            diagnostics.add(
                InstructionBody(f"`{decl.name}` does not use its operand `{name}`", decl.span, help="leave the operand out")
            )
        elif name not in places:
            diagnostics.add(
                MissingPlace(
                    f"`{decl.name}` has no place for `{name}`",
                    decl.span,
                    help=f"add `{name} in register at (lane, r): ...`, say",
                )
            )
    return {n: p for n, p in places.items() if n in read}


def _map(
    p: syntax.OperandPlace, axes: tuple[str, ...], memories: Mapping[str, Memory], diagnostics: Diagnostics
) -> tuple[Expr, ...] | None:
    """The index along each axis, as expressions of `lane` and `r` (with open ends)."""
    before = len(diagnostics.errors)
    if p.memory not in memories:
        message = f"there is no memory `{p.memory}`"
        diagnostics.add(UnknownMemory(message, word_span(p.span, p.memory), help=did_you_mean(p.memory, memories)))
    for c in p.coords:
        if c not in (LANE, REGISTER) or p.coords.count(c) > 1:
            diagnostics.add(
                UnknownCoordinate(f"`{c}` is no coordinate of a place; those are `lane` and `r`, each once", p.span)
            )
    names = {c: as_expr(Var(c)) for c in p.coords}
    found: dict[str, Expr] = {}
    for axis, value in p.maps:
        if axis not in axes or axis in found:
            message = f"`{p.operand}` has no axis `{axis}`" if axis not in axes else f"`{axis}` is given twice"
            diagnostics.add(UnknownMapAxis(message, p.span, help=did_you_mean(axis, axes)))
            continue
        try:
            found[axis] = index_term(value, names, lambda e: e.constant is not None)
        except UserError as e:
            diagnostics.add(e)
            found[axis] = as_expr(0)
    for axis in axes:
        if axis not in found:
            diagnostics.add(
                MissingMapAxis(
                    f"the place of `{p.operand}` does not give the axis `{axis}`", p.span, help=f"add `{axis} = ...`"
                )
            )
    return tuple(found[a] for a in axes) if len(diagnostics.errors) == before else None


def _lanes(below: tuple[Level, ...], maps: list[tuple[tuple[Expr, ...], tuple[int, ...]]], widest: int) -> int:
    """How many units below take part: the device's figure, else as many as the operands need."""
    if not below:
        return 1
    if all(x.width for x in below):
        return prod(x.width or 1 for x in below)
    flat = [(m, shape) for m, shape in maps if {v.name for e in m for v in e.variables()} == {LANE}]
    needed = [n for m, shape in flat if (n := _reach(m, shape, LANE, _MOST_LANES, {})) is not None]
    if needed:
        return max(needed)
    return max(1, (below[-1].bytes or widest) // widest)


def _reach(m: tuple[Expr, ...], shape: tuple[int, ...], name: str, most: int, others: Mapping[str, Any]) -> int | None:
    """The fewest values of coordinate `name` with which the map reaches every element; None if `most` do not."""
    import numpy as np

    steps = np.arange(most)[:, None]
    env = {**others, name: steps}
    lanes = max((np.size(v) for v in others.values()), default=1)
    first = np.full(shape, most, np.int64)
    index = [np.broadcast_to(e.evaluate(env), (most, lanes)) for e in m]
    inside = np.ones((most, lanes), bool)
    for i, n in zip(index, shape, strict=True):
        inside &= (i >= 0) & (i < n)
    np.minimum.at(first, tuple(i[inside] for i in index), np.broadcast_to(steps, (most, lanes))[inside])
    return None if (first == most).any() else int(first.max()) + 1


@lru_cache(maxsize=1 << 10)
def _spread(coords: tuple[str, ...], m: tuple[Expr, ...], shape: tuple[int, ...], lanes: int) -> FragmentLayout:
    """The fragment, which instructions for several types have in common, with the fewest registers that hold all elements."""
    import numpy as np

    lane = Var(LANE, 0, lanes - 1)
    registers = 1
    if REGISTER in coords:
        fewest = -(-prod(shape) // lanes)
        most = fewest  # more are needed where lanes replicate
        while (found := _reach(m, shape, REGISTER, most, {LANE: np.arange(lanes)[None, :]})) is None and most < prod(shape):
            most = min(2 * most, prod(shape))
        registers = found or fewest
    variables = tuple(lane if c == LANE else Var(REGISTER, 0, registers - 1) for c in coords)
    return FragmentLayout(variables, tuple(e.subs({Var(v.name): v for v in variables}) for e in m), shape)


def _fragment(
    p: syntax.OperandPlace, m: tuple[Expr, ...], shape: tuple[int, ...], lanes: int, role: str, private: bool
) -> FragmentLayout:
    """The operand's fragment with the ranges of its coordinates. Raises where the map does not fit the operand.

    `private`: in a memory of which every lane has its own.
    """
    import numpy as np

    f = _spread(p.coords, m, shape, lanes)
    if not f.inside:
        unit, r = (int(x) for x in np.argwhere(f.linear() < 0)[0])
        at = ", ".join(map(str, f.table()[unit, r].tolist()))
        where = f"lane {unit}, register {r}" if REGISTER in p.coords else f"lane {unit}"
        size = ", ".join(map(str, shape))
        raise MapOutOfRange(f"`{p.operand}` is {p.operand}[{size}], but {where} would hold [{at}]", p.span)
    if not f.covers:
        held = set(f.linear().ravel().tolist())
        lost = next(i for i in range(prod(shape)) if i not in held)
        at = ", ".join(str(int(x)) for x in np.unravel_index(lost, shape))
        raise FragmentNotCovering(f"no lane holds {p.operand}[{at}]", p.span)
    if role != "input" and private and lanes > 1 and LANE not in p.coords:
        raise ResultReplicated(f"every lane holds all of the result `{p.operand}`; a result has one owner", p.span)
    if role != "input" and not f.unique:
        numbers = f.linear().ravel().tolist()
        twice = next(i for i in numbers if numbers.count(i) > 1)
        index = [int(x) for x in np.unravel_index(twice, shape)] if shape else []
        (a, _), (b, _) = f.owner(index)[:2]
        at = ", ".join(map(str, index))
        raise ResultReplicated(f"{p.operand}[{at}] is held twice, by lanes {a} and {b}; a result has one owner", p.span)
    return f


def _figures(decl: syntax.InstrDecl, op: Op, diagnostics: Diagnostics) -> dict[str, float]:
    """`cost` and `latency` in cycles, `error` in units in the last place, `align NAME` and `least NAME` in bytes."""
    out: dict[str, float] = {}
    for f in decl.facts:
        try:
            match f.parts:
                case ("cost" | "latency" as key, Quantity() as q, *tail) if tail in ([], ["cycles"], ["cycle"]) or (
                    tail[0] in ("cycles", "cycle") and tail[1:2] == ["per"] and len(tail) == 3
                ):
                    value = number_in(q, "", f.span)
                case ("error" as key, Quantity() as q, "ulp"):
                    value = number_in(q, "", f.span)
                case ("align" | "least" as fact, str(name), Quantity() as q):
                    known = [t.name for t in op.tensors]
                    if name not in known:
                        raise UnknownOperand(f"`{name}` is no operand of `{decl.name}`", f.span, help=did_you_mean(name, known))
                    key, value = f"{fact} {name}", whole_number(q, "B", f.span, 1)
                    if fact == "align" and value & (value - 1):
                        raise BadFact(f"`{quantity_text(q)}` is no alignment; those are 1, 2, 4, 8, ... B", q.span or f.span)
                case _:
                    help = "an instruction states `cost 4 cycles`, `latency 20`, `align A 16 B`"
                    raise BadFact(f"`{f.span.text if f.span else f.parts}` is not a fact of an instruction", f.span, help=help)
            if key in out:
                raise BadFact(f"`{key}` is stated twice", f.span, help="leave one out")
            out[key] = value
        except UserError as e:
            diagnostics.add(e)
    return out
