"""The leaf that is an instruction: repetitions, operand fragments, the call.

DEMAND        an operand that the instruction needs in registers but that is in memory is moved first, before the outermost
              repetition in which it does not change.
ZERO_PAST_THE_EDGE   of what is demanded from registers, elements past the end of a reduced index are zero.
DIRECT        an operand that a `move` already laid out as the instruction's fragment is passed as it is.
WHOLE_OR_NOT  an instruction that accesses memory is executed if its whole operand is inside; otherwise elements go one by one.
ALIGNED       the same holds if its operand in a staged copy is not provably aligned. A pad may be the reason. For several units
              it also holds if an operand in an argument is misaligned whatever the sizes are.
WHERE_IT_READS  the same holds if the operand is in another memory than the instruction accesses.
ONE_WRITER    if several units would copy the same elements, unit 0 copies them (`predicated_store`).
TOGETHER      units that execute one instruction do not diverge.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ....dsl.device import Instr, Operand
from ....dsl.errors.schedule import InstrMismatch
from ....dsl.index.expr import Expr, Var, as_expr
from ....dsl.support.fast_replace import replace
from ....dsl.values import Load, Masked, Value, loads, transform
from ...analysis.divisibility import KnownMultiples, divisor, required_divisors
from ...analysis.loop_nest import linear_address
from ...ir.schedule_tree import fragment_of
from ...ir.tile_ir import Alloc, Buffer, Call, If, Piece, Stmt, Store
from ...plan.computations import Computation, indices_of
from ...plan.derived_names import StagedCopy, tensor_of
from ...schedule.synthetic_spans import author_of
from ..addressing import coordinates, edge_conds, translate, unfilled_edge_conds, zero_is_neutral
from ..lowering_context import LoweringContext
from ..reductions.accumulator_computations import counting_term
from ..reductions.contributions import added_by
from ..reductions.reduce_element import note_reduced
from ..spec import ZERO, Focus, RangeStep, View
from ..stores.predicated_store import one_writer
from .check_instr import UnusableInstr, cannot_mask, check_lanes, note_unused
from .fragment_fit import same_fragment
from .match_instr import FragmentMap, InstrMatch, fragment_map
from .scalar_leaf import _registers, lanes_below, lower_element, open_index
from .shared_values import mask_value

_UNKNOWN = KnownMultiples(frozenset(), {}, {})


@dataclass(frozen=True)
class _Demand:
    """An operand on its way: its value, the indices it depends on, its fragment, and the view once it is loaded."""

    operand: Operand
    value: Value
    indices: frozenset[str]
    fragment: FragmentMap
    view: View | None = None


def instr_leaf(
    ctx: LoweringContext,
    focus: Focus,
    computation: Computation,
    m: InstrMatch,
    order: tuple[str, ...] = (),
    unroll: int = 1,
    span=None,
) -> list[Stmt]:
    """Runs the instruction over what is left of the focus. Raises InstrMismatch (ITS_LANES), UnusableInstr."""
    check_lanes(ctx, m, span)
    ctx.instrs[m.instr.name] = m.instr
    names = computation.leaf_order(order)
    values = dict(m.operands)
    demands = []
    for op in m.instr.operands:
        if op.name == m.instr.statement.target:
            continue
        value = values[op.name]
        if (
            isinstance(computation.value, Masked) and not computation.domain and ctx.register(op.memory)
        ):  # of a copy: it is loaded where the mask says
            value = replace(computation.value, value=value)
        direct = _direct(ctx, focus, m, op, value)
        demands.append(_Demand(op, value, frozenset(indices_of(value, computation.alias)), fragment_map(m, op.name), direct))
    return _repeat(ctx, focus, computation, m, tuple(names), tuple(demands), unroll, span)


def _direct(ctx: LoweringContext, focus: Focus, m: InstrMatch, op: Operand, value: Value) -> View | None:
    """The view of an operand that is where the instruction wants it."""
    if not isinstance(value, Load):
        return None
    view = focus.views[value.tensor]
    if not ctx.register(op.memory):
        return view
    whole = view.form == "path" and view.zero_padded  # what was computed there is not
    return view if whole and same_fragment(fragment_of(view.owner), fragment_map(m, op.name)) else None


def _repeat(
    ctx: LoweringContext, focus: Focus, computation: Computation, m: InstrMatch, todo, demands, unroll: int, span
) -> list[Stmt]:
    if todo:
        index = todo[0]
        for n, d in enumerate(demands):
            static = all(focus.ranges[i].capacity is not None for i in d.indices if i in todo)
            if d.view is None and index not in d.indices and static and ctx.register(d.operand.memory):
                return _load(
                    ctx,
                    focus,
                    computation,
                    d,
                    todo,
                    m,
                    lambda f, v, n=n, d=d: _repeat(ctx, f, computation, m, todo, _loaded(demands, n, d, v), unroll, span),
                )
        cell = index in computation.indices and _cell_target(focus, computation)
        return open_index(
            ctx,
            focus,
            index,
            m.extent(index),
            cell,
            lambda f: _repeat(ctx, f, computation, m, todo[1:], demands, 1, span),
            unroll,
        )
    for n, d in enumerate(demands):
        if d.view is None:
            return _load(
                ctx,
                focus,
                computation,
                d,
                (),
                m,
                lambda f, v, n=n, d=d: _repeat(ctx, f, computation, m, (), _loaded(demands, n, d, v), unroll, span),
            )
    return _call(ctx, focus, computation, m, demands, span)


def _loaded(demands, n: int, d: _Demand, view: View):
    return (*demands[:n], replace(d, view=view), *demands[n + 1 :])


def _cell_target(focus: Focus, computation: Computation) -> bool:
    return focus.views[computation.name].form == "path"


def _load(ctx: LoweringContext, focus: Focus, computation: Computation, d: _Demand, todo, m: InstrMatch, then) -> list[Stmt]:
    """`move operand -> register`, as the leaf demands it, then the rest inside its lifetime."""
    name = ctx.fresh(d.operand.name.lower())
    mine = tuple(i for i in focus.ranges if i in d.indices)
    view = View(name, "path", mine, depth=tuple(len(focus.ranges[i].steps) for i in mine))
    loops = [i for i in todo if i in d.indices]
    spread = [i for i in mine if d.fragment.of(i)]

    def fill(f: Focus) -> list[Stmt]:
        coords = coordinates(ctx, f.with_view(name, view), name, ())
        over = tuple(i for i in computation.reduced if i in d.indices and f.ranges[i].bounds)
        conds = edge_conds(f, over) if _reads_registers(f, d.value) else ()
        return [Store(name, coords, mask_value(translate(ctx, f, d.value), conds))]

    def tiles(f: Focus, rest: list[str]) -> list[Stmt]:
        if not rest:
            return _registers(ctx, f, d.fragment, spread, fill)
        return open_index(ctx, f, rest[0], m.extent(rest[0]), True, lambda g: tiles(g, rest[1:]))

    filled = tiles(focus, loops)
    body = then(focus.with_view(name, view), view)
    buffer = register_buffer(ctx, name, d.operand.dtype, d.operand.memory)
    return [Alloc(buffer, (*filled, *body))]


def register_buffer(ctx: LoweringContext, name: str, dtype, memory: str, span=None) -> Buffer:
    """A buffer private to each innermost unit, shaped as its accesses found."""
    return Buffer.row_major(name, dtype, "local", memory, ctx.innermost, ctx.cells.get(name, ()), span)


def _call(ctx: LoweringContext, focus: Focus, computation: Computation, m: InstrMatch, demands, span) -> list[Stmt]:
    """The instruction, where the terms that it adds count (`match_instr`, ONE_TERM)."""
    inside = tuple(c.subs(focus.binding) for c in computation.domain)
    if inside:
        return [If(inside, tuple(_call(ctx, focus, counting_term(computation), m, demands, span)))]
    over = tuple(i for i in computation.reduced if focus.ranges[i].bounds)
    conds = edge_conds(focus, over)
    adds = computation.reduction is not None and computation.reduction.kind == "sum"
    neutral = adds and zero_is_neutral(_as_demanded(focus, computation.value, demands), over, focus)
    if conds and computation.reduction and not neutral:
        raise cannot_mask(focus, computation, m, over, span)
    if computation.reduction is not None:
        note_reduced(ctx, focus, computation)
    by_name = {d.operand.name: d for d in demands}
    pieces = []
    guards: tuple = ()
    for op in m.instr.operands:
        f = fragment_map(m, op.name)
        if op.name == m.instr.statement.target:
            view, indices = (
                focus.views[computation.name],
                tuple(as_expr(Var(i)) for i in computation.subscripts or computation.indices),
            )
            tensor = computation.name
        else:
            d = by_name[op.name]
            assert d.view is not None
            view, tensor = d.view, d.value.tensor if isinstance(d.value, Load) else d.view.buffer
            indices = d.value.indices if isinstance(d.value, Load) else ()
        if view.form == "path":
            if not ctx.register(op.memory) and focus.views.get(tensor) is view:
                held = tensor_of(tensor)
                raise InstrMismatch(
                    f"operand `{op.name}` of `{m.instr.name}` lies in `{op.memory}`, and `{held}` is held in registers",
                    span,
                    help="end the schedule with `compute`, or hold it in a memory",
                )
            at = replace(focus, element=(ZERO, f.registers), fragment=f)
            coords = coordinates(ctx, at.with_view(tensor, view), tensor, ())
        else:
            halo = op.name in by_name and getattr(by_name[op.name].value, "otherwise", None) is not None
            coords, more, why = _address(ctx, focus, f, op, tensor, indices, strip_mask(computation)[1], halo)
            if view.form == "global" and m.instr.level != ctx.innermost and _never_aligned(ctx, view, op, coords):
                why = why or f"`{op.name}` is not aligned for it, whatever the sizes are"
            if why:
                laid_out = view.layout is not None and (view.layout.pad or view.layout.swizzle is not None)
                elsewhere = _lies_in(ctx, _buffer(ctx, view).memory) != _lies_in(ctx, op.memory)
                if isinstance(computation.name, StagedCopy) and (laid_out or elsewhere):
                    raise UnusableInstr(m.instr.name, why)
                note_unused(ctx, m.instr.name, why, m.named_at)
                return _one_by_one(ctx, focus, computation, m)
            guards = (*guards, *more)
        pieces.append(Piece(view.buffer, coords, f.registers))
    target = fragment_map(m, m.instr.statement.target)
    lane, _ = ctx.number(lanes_below(ctx, focus.level, target.lanes))
    contribution = added_by(focus, computation, m, target, lane, neutral)
    call = Call(m.instr.name, tuple(pieces), author_of(span, computation.span), contribution)
    stmt = _once(ctx, focus, computation, m.instr, call)
    guards = tuple(dict.fromkeys(guards))
    if not guards:
        return [stmt]
    elementwise = _one_by_one(ctx, focus, computation, m)
    together = _for_all(ctx, focus, guards)
    return elementwise if together is None else [If(together, (stmt,), tuple(elementwise))]


def _reads_registers(focus: Focus, value: Value) -> bool:
    return any(focus.views[ld.tensor].form == "path" for ld in loads(value))


def _as_demanded(focus: Focus, value: Value, demands) -> Value:
    """The value of a computation that reads operands where they were filled from registers (ZERO_PAST_THE_EDGE)."""
    filled = (d for d in demands if d.view.form == "path" and d.view.owner is None and _reads_registers(focus, d.value))
    loaded = {d.value: d.view for d in filled}

    def step(v: Value) -> Value | None:
        view = loaded.get(v)
        return None if view is None else Load(view.buffer, tuple(as_expr(Var(i)) for i in view.axes), v.dtype)

    return transform(value, step)


def _once(ctx: LoweringContext, focus: Focus, computation: Computation, instr: Instr, call: Call) -> Stmt:
    """ONE_WRITER: of the units of the instruction's level that would all write the same to a memory, unit 0 does."""
    view = focus.views[computation.name]
    if view.form == "path":
        return call
    alias = focus.aliases
    indices = tuple(dict.fromkeys(alias.get(i, i) for i in (computation.subscripts or computation.indices)))
    conds = one_writer(ctx, focus, indices, view.buffer, innermost=instr.level)
    return If(conds, (call,)) if conds else call


def _for_all(ctx: LoweringContext, focus: Focus, guards: tuple[Expr, ...]) -> tuple[Expr, ...] | None:
    """TOGETHER: conditions, the same for all units that execute the instruction, under which the guards hold for each of them;
    None where there are no simple ones."""
    units = {ctx.unit_var(x): ctx.units[x].constant for x in ctx.below(focus.level, ctx.innermost) if x in ctx.units}
    if not any(not v.isdisjoint(units) for v in (c.variables() for c in guards)):
        return guards

    if None in units.values():
        return None
    at = np.indices(tuple(n or 1 for n in units.values()), sparse=True)
    env = {v.name: x for v, x in zip(units, at, strict=True)}
    out = []
    for c in guards:
        own = [(a, k) for a, k in c.terms if not Expr(((a, 1),)).variables().isdisjoint(units)]
        mine = Expr(tuple(own))
        if not mine.variables() <= set(units):
            return None
        out.append(c - mine + int(np.min(mine.evaluate(env))))
    return tuple(dict.fromkeys(c for c in out if c.interval[0] is None or c.interval[0] < 0))


def _address(ctx: LoweringContext, focus: Focus, f: FragmentMap, op: Operand, tensor: str, indices, inside, halo: bool):
    """The address this unit passes, what must hold for the whole operand to be inside, and why no call can access it.

    The reason is empty where a call can.

    `halo`: the tensor may be read outside of its shape, where something `else` counts.
    """
    lane, _ = ctx.number(lanes_below(ctx, focus.level, f.lanes))
    view = focus.views[tensor]
    buffer = _buffer(ctx, view)
    guards: list = []

    def of(register: Expr) -> Focus:
        ranges = dict(focus.ranges)
        for i, extent, e in f.maps:
            subs = {v: lane if v.name == "lane" else register for v in e.variables()}
            ranges[i] = focus.ranges[i].split(1, RangeStep(e.subs(subs), as_expr(extent), "fragment"))
        return replace(focus, ranges=ranges)

    def address(at: Focus) -> Expr:
        return linear_address(buffer, coordinates(ctx, at, tensor, indices))

    alias = focus.aliases
    visited = (alias.get(v.name, v.name) for e in indices for v in sorted(e.variables(), key=str))
    all_indices = dict.fromkeys((*(i for i, _, _ in f.maps), *(i for i in visited if i in focus.ranges)))
    ends = {n: of(as_expr(n)) for n in sorted({0, f.registers - 1})}
    for at in ends.values():
        # a staged tile is as large as what is read of it, so only arguments need their edges guarded
        mine = [i for i, _, _ in f.maps]
        guards += edge_conds(at, all_indices) if view.form == "global" else unfilled_edge_conds(at, view, mine)
        within = list(inside)
        if halo and view.form == "global":
            within += [c for e, n in zip(indices, ctx.shapes[tensor], strict=True) for c in (e, n - e - 1)]
        guards += [c for c in (x.subs(at.binding) for x in within) if c.interval[0] is None or c.interval[0] < 0]
    coords = coordinates(ctx, ends[0], tensor, indices)
    first, r = linear_address(buffer, coords), Var("$r", 0, f.registers - 1)
    straight = f.registers == 1 or first + r == address(of(as_expr(r)))
    straight = straight or all((address(of(as_expr(n))) - first).constant == n for n in range(1, f.registers))
    why = "" if straight else f"the {f.registers} elements of `{op.name}` are not adjacent in `{tensor_of(tensor)}`"
    aligned = divisor(first * buffer.dtype.bytes, _UNKNOWN) % max(op.alignment, 1) == 0
    if view.form != "global" and not aligned and buffer.size.constant != 0:  # ALIGNED; no address is in what has no elements
        why = f"it wants addresses that are multiples of {op.alignment}, and the copy of `{tensor_of(tensor)}` has others"
    if (there := _lies_in(ctx, buffer.memory)) != _lies_in(ctx, op.memory):  # WHERE_IT_READS
        why = f"`{op.name}` lies in `{op.memory}`, and `{tensor_of(tensor)}` in `{there}`"
    return coords, tuple(dict.fromkeys(guards)), why


def _never_aligned(ctx: LoweringContext, view: View, op: Operand, coords: tuple[Expr, ...]) -> bool:
    """ALIGNED: whether the address is misaligned whatever the sizes are. Copies of one unit are made narrower later."""
    buffer = _buffer(ctx, view)
    sizes = {v for shape in ctx.shapes.values() for e in shape for v in e.variables()} | dict(ctx.derived).keys()
    known = KnownMultiples(frozenset(sizes), dict(ctx.derived), {})
    return required_divisors(linear_address(buffer, coords), max(1, op.alignment // buffer.dtype.bytes), known) is None


def _buffer(ctx: LoweringContext, view: View) -> Buffer:
    return next(b for b in ctx.buffers if b.name == view.buffer)


def _lies_in(ctx: LoweringContext, memory: str) -> str:
    """The memory that addresses are of: that behind a cache."""
    return ctx.device.memory(memory).backing or memory


def _one_by_one(ctx: LoweringContext, focus: Focus, computation: Computation, m: InstrMatch) -> list[Stmt]:
    """The same points, each by itself, spread over the lanes as a fragment says: the target's, if it is spread."""
    spread = fragment_map(m, m.instr.statement.target)
    if spread.lane is None:
        others = (fragment_map(m, o.name) for o in m.instr.operands)
        spread = next((f for f in others if f.lane is not None and len(f.maps) == len(spread.maps)), spread)
    mine = [i for i in computation.indices if spread.of(i)]

    def reduced(f: Focus, left: list[str]) -> list[Stmt]:
        if left:
            return open_index(ctx, f, left[0], 1, False, lambda g: reduced(g, left[1:]))
        return _registers(ctx, f, spread, mine, lambda g: lower_element(ctx, g, computation))

    return reduced(focus, [i for i in computation.reduced if m.extent(i) > 1])


def strip_mask(computation: Computation) -> tuple[Computation, tuple]:
    """A copy without its mask, and the mask's conditions."""
    if isinstance(computation.value, Masked):
        return replace(computation, value=computation.value.value), computation.value.conds
    return computation, ()
