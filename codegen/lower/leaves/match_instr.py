"""Matching of an instruction with a computation: its operands with factors, its indices with indices of the computation.

The instruction's op is unified with the computation's value; operands bind to the factors (any expression of the operand's
type). An instruction index may stand for an index that occurs in exactly the same operands. If there are several, one with
contiguous accesses is chosen.

Of a reduction with a domain an instruction computes

ONE_TERM        one of its values, so that all that a call adds counts, or nothing;
CHOSEN_TERMS    or several, if the device has an instruction that does the same of the terms that an operand says: where only
                some of a call's terms count, that one is called (`instr_leaf`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from math import prod
from operator import itemgetter

from ....dsl.device import Instr
from ....dsl.index.expr import ZERO, Expr, Var, as_expr
from ....dsl.op import Statement
from ....dsl.source import Span
from ....dsl.support.fast_replace import replace
from ....dsl.values import Apply, Cast, Const, Load, Masked, Value, loads
from ...plan.computations import Computation, indices_of
from .term_order import TermOrder

COMMUTE = ("add", "mul", "min", "max")


@dataclass(frozen=True)
class InstrMatch:
    """`index` maps the instruction's indices to the work's; `operands` the operands to values over the work's indices.

    The target operand is bound to the work's own result. `named_at` is the line that names the instruction. `held`: the
    fragment in which the result is held, where a call fills several of them (`copy_leaf`, SEVERAL). `order`: in which the terms
    of a reduction are taken, where it is another one than that of its index.
    """

    instr: Instr
    index: tuple[tuple[str, str], ...]
    operands: tuple[tuple[str, Value], ...]
    score: int
    named_at: Span | None = field(default=None, compare=False)
    held: FragmentMap | None = None
    order: TermOrder | None = None

    def extent(self, work_index: str) -> int:
        """How many of a computation's index are covered together: by one call (1 when the instruction does not have it), or by
        the calls of an order."""
        if self.order is not None and self.order.index == work_index:
            return self.order.span
        for mine, theirs in self.index:
            if theirs == work_index:
                return self.extents()[mine]
        return 1

    @property
    def volume(self) -> int:
        return prod(self.extents().values())

    @property
    def calls(self) -> int:
        """How many calls an order is of."""
        return 1 if self.order is None else self.order.span // replace(self, order=None).extent(self.order.index)

    def extents(self) -> dict[str, int]:
        out: dict[str, int] = {}
        for name, e in self.instr.statement.ranges:
            assert e.constant is not None
            out[name] = e.constant
        return out


def best_match(instr: Instr, computation: Computation, tiles: Mapping[str, int] | None = None) -> InstrMatch | None:
    """The best way the instruction computes the work, or None.

    tiles  the smallest of each index, where lines cut it: an instruction takes no more of an index than that if it may take
           another
    """
    found = _found(instr, computation)
    if tiles and len(found) > 1:
        least = min((_beyond(instr, x, tiles) for x in found), default=0)
        found = tuple(x for x in found if _beyond(instr, x, tiles) == least)
    best = max(found, key=SCORE, default=None)
    return None if best is None else InstrMatch(instr, best[0], best[1], best[2])


def _beyond(instr: Instr, way: Way, tiles: Mapping[str, int]) -> int:
    """Indices of which the instruction takes more at once than a tile has."""
    extents = {name: e.constant or 1 for name, e in instr.statement.ranges}
    return sum(theirs in tiles and extents[mine] > tiles[theirs] for mine, theirs in way[0])


def all_matches(instr: Instr, computation: Computation, taking: frozenset[str] = frozenset()) -> Iterator[InstrMatch]:
    """All ways; `taking`: only those by which the instruction has these indices of the computation."""
    for index, operands, score in _found(instr, computation):
        if not taking or taking.issubset([theirs for _, theirs in index]):
            yield InstrMatch(instr, index, operands, score)


Way = tuple[tuple[tuple[str, str], ...], tuple[tuple[str, Value], ...], int]  # what a match says besides the instruction
SCORE = itemgetter(2)


def _found(instr: Instr, computation: Computation) -> tuple[Way, ...]:
    """All ways, looked for once for all instructions that do the same."""
    if mismatch_reason(instr, computation):
        return ()
    found = computation.found.get(instr.does)
    if found is None:
        computation.found[instr.does] = found = tuple(_ways(instr, computation))
    return tuple(x for x in found if _serves_domain(instr, computation, dict(x[0]))) if computation.domain else found


def _serves_domain(instr: Instr, computation: Computation, index: dict[str, str]) -> bool:
    """ONE_TERM, CHOSEN_TERMS"""
    extents = {theirs: e.constant for mine, e in instr.statement.ranges if (theirs := index.get(mine))}
    several = {i for i in domain_indices(computation) if extents.get(i, 1) != 1}
    if instr.restricted is None or instr.restricted.condition is None:
        return not several
    return several <= {index[v.name] for e in instr.restricted.condition.indices for v in e.variables()}


def domain_indices(computation: Computation) -> frozenset[str]:
    """The indices on which it depends whether a term counts, and variables that are none."""
    alias = computation.alias
    return frozenset(alias.get(v.name, v.name) for c in computation.domain for v in c.variables())


def chosen_terms(m: InstrMatch, computation: Computation) -> InstrMatch | None:
    """CHOSEN_TERMS: the same by the instruction that is told which terms count; None where a call has ONE_TERM of a domain."""
    if all(m.extent(i) == 1 for i in domain_indices(computation)):
        return None
    chosen = m.instr.restricted
    assert chosen is not None, "it serves the domain"
    assert chosen.condition is not None
    true, false = (Const(x, chosen.condition.dtype) for x in (True, False))
    condition = Masked(computation.domain, true, false, chosen.condition.dtype)
    return replace(m, instr=chosen, operands=(*m.operands, (chosen.condition.tensor, condition)))


def _ways(instr: Instr, computation: Computation) -> Iterator[Way]:
    for binding in bindings(instr, computation):
        choices = compatible_indices(instr, computation, binding)
        near = [_neighbours(ld) for v in binding.values() for ld in loads(v)]
        operands = tuple(binding.items())
        for pick in product(*choices.values()):
            if len(set(pick)) == len(pick):
                index = tuple(zip(choices, pick, strict=True))
                yield index, operands, _score(computation, near, dict(index), instr.statement)


def mismatch_reason(instr: Instr, computation: Computation) -> str:
    """Why what the instruction does is not what the work does, before any operand is looked at; empty where it may be."""
    s = instr.statement
    if instr.used_everywhere is not None:
        return instr.used_everywhere
    if instr.accumulate != (computation.reduction is not None):
        return "it accumulates, and this is no reduction" if instr.accumulate else "it does not accumulate"
    kind = s.reduction.kind if s.reduction else "sum"
    if computation.reduction is not None and computation.reduction.kind != kind:
        return f"it does a {kind}, not a {computation.reduction.kind}"
    held = instr.operand(s.target).dtype
    if instr.accumulate and held != computation.value.dtype:
        return f"it accumulates in {held}, and this {kind} is {computation.value.dtype}"
    return ""


def bindings(instr: Instr, computation: Computation) -> Iterator[dict[str, Value]]:
    """Each way to read the work's value as the instruction's: what every operand but the target is bound to."""
    yield from _unify(instr.statement.value, computation.term, {o.name: o.dtype.name for o in instr.operands})


def compatible_indices(instr: Instr, computation: Computation, binding: dict[str, Value]) -> dict[str, tuple[str, ...]]:
    """For each index of the instruction those of the work that occur in exactly the same operands."""
    s = instr.statement
    theirs = {name: indices_of(v, computation.alias) for name, v in binding.items()}
    theirs[s.target] = set(computation.indices)
    ours: dict[str, set[str]] = {s.target: set(s.indices)}
    for ld in loads(s.value):
        ours.setdefault(ld.tensor, set()).update(v.name for e in ld.indices for v in e.variables())
    names = (*s.indices, *(s.reduction.indices if s.reduction else ()))
    return {x: tuple(_candidates(x, ours, theirs, computation, s.reduction)) for x in names}


def _candidates(
    x: str, ours: dict[str, set[str]], theirs: dict[str, set[str]], computation: Computation, reduction
) -> list[str]:
    inside = {name for name, has in ours.items() if x in has}
    pool = computation.reduced if reduction and x in reduction.indices else computation.indices
    return [i for i in pool if {name for name, has in theirs.items() if i in has} == inside]


def _neighbours(ld: Load) -> frozenset[str]:
    """Indices along which it has its neighbours in memory."""
    return frozenset(a.name for a, c in ld.indices[-1].terms if c == 1 and isinstance(a, Var)) if ld.indices else frozenset()


def _score(computation: Computation, near: list[frozenset[str]], index: dict[str, str], s: Statement) -> int:
    """Contiguity of the result counts most, then of the operands (on indices that the instruction spreads over lanes), then of
    operands along another index of the result: what an instruction turns. `near`: `_neighbours` of what is read."""
    score = 0
    spread = [index[x] for x in s.indices]
    if computation.indices and spread and computation.indices[-1] == spread[-1]:
        score += 4
    for names in near:
        if spread and spread[-1] in names:
            score += 2
        elif not names.isdisjoint(spread):
            score += 1
    if computation.reduced and s.reduction:
        score += sum(1 for x in s.reduction.indices if index[x] == computation.reduced[-1])
    return score


def _unify(pattern: Value, value: Value, operands: dict[str, str]) -> Iterator[dict[str, Value]]:
    match pattern:
        case Load():
            if value.dtype.name == operands[pattern.tensor]:
                yield {pattern.tensor: value}
        case Cast():
            if isinstance(value, Cast) and value.dtype == pattern.dtype:
                yield from _unify(pattern.arg, value.arg, operands)
        case Const():
            if isinstance(value, Const) and value == pattern:
                yield {}
        case Apply():
            if not (isinstance(value, Apply) and value.fn == pattern.fn and len(value.args) == len(pattern.args)):
                return
            orders = [value.args]
            if pattern.fn in COMMUTE and len(value.args) == 2:
                orders.append(value.args[::-1])
            for args in orders:
                yield from _unify_all(pattern.args, args, operands)
        case _:
            return


def _unify_all(patterns: tuple[Value, ...], values: tuple[Value, ...], operands: dict[str, str]) -> Iterator[dict[str, Value]]:
    if not patterns:
        yield {}
        return
    for head in _unify(patterns[0], values[0], operands):
        for rest in _unify_all(patterns[1:], values[1:], operands):
            if all(rest.get(k, v) == v for k, v in head.items()):
                yield {**head, **rest}


@dataclass(frozen=True)
class FragmentMap:
    """How an operand's elements lie over the executing unit's lanes and registers, for the work's indices.

    `maps`: for each work index the instruction has in this operand, (extent, expression of lane and r).
    """

    maps: tuple[tuple[str, int, Expr], ...]
    lane: Var | None
    lanes: int
    r: Var | None
    registers: int

    def of(self, index: str) -> tuple[int, Expr] | None:
        return next(((n, e) for i, n, e in self.maps if i == index), None)


def fragment_map(m: InstrMatch, operand: str) -> FragmentMap:
    """The fragment of a register operand, in terms of the work's indices: of all calls of an order, one after another."""
    own, index = own_fragment(m.instr, operand), dict(m.index)
    f = FragmentMap(tuple((index[a], n, e) for a, n, e in own.maps), own.lane, own.lanes, own.r, own.registers)
    return f if m.order is None else in_order(f, m.order)


@lru_cache(maxsize=1 << 10)
def in_order(f: FragmentMap, order: TermOrder) -> FragmentMap:
    """The fragments of all calls of an order as one: registers of the first call, then those of the second, and so on."""
    part = f.of(order.index)
    if part is None:
        return f
    each, own = part
    calls = order.span // each
    r, subs, first = f.r, {}, ZERO
    if calls > 1:
        r = Var("r" if f.r is None else f.r.name, 0, f.registers * calls - 1)
        subs, first = ({} if f.r is None else {f.r: as_expr(r) % f.registers}), as_expr(r) // f.registers * each
    ordered = order.span, order.of(first + own.subs(subs))
    maps = tuple((i, *(ordered if i == order.index else (n, e.subs(subs)))) for i, n, e in f.maps)
    return FragmentMap(maps, f.lane, f.lanes, r, f.registers * calls)


def own_fragment(instr: Instr, operand: str) -> FragmentMap:
    """The same in terms of the instruction's own indices: of each of its matches the lanes and registers."""
    key = "fragment", operand
    if key not in instr.found:
        instr.found[key] = _own(instr, operand)
    return instr.found[key]


def _own(instr: Instr, operand: str) -> FragmentMap:
    op, s = instr.operand(operand), instr.statement
    if operand == s.target:
        axes = list(s.indices)
    else:
        ld = next(x for x in loads(s.value) if x.tensor == operand)
        axes = [next(iter(e.variables())).name for e in ld.indices]
    lane = next((v for v in op.coords if v.name == "lane"), None)
    lanes = lane.hi + 1 if lane is not None and lane.hi is not None else 1
    return FragmentMap(tuple(zip(axes, op.shape, op.map, strict=True)), lane, lanes, op.register, op.registers)
