"""The leaf that is an instruction: repetitions, operand fragments, the call.

DEMAND        an operand that the instruction needs in registers but that is in memory is moved first, before the outermost
              repetition in which it does not change.
ZERO_PAST_THE_EDGE   of what is demanded from registers, elements past the end of a reduced index are zero.
DIRECT        an operand that a `move` already laid out as the instruction's fragment is passed as it is.
WHOLE_OR_NOT  an instruction that accesses memory is executed if its whole operand is inside; otherwise elements go one by one.
ALIGNED       the same holds if its operand in a staged copy is not provably aligned. A pad may be the reason. For several units
              it also holds if an operand in an argument is misaligned whatever the sizes are.
WHERE_IT_READS  the same holds if the operand is in another memory than the instruction accesses.
SOME_TERMS    of a reduction with a domain, an instruction is called as it is where all terms of a call count; elsewhere that is
              called which an operand tells which terms count (`match_instr`, CHOSEN_TERMS).
ONE_WRITER    if several units would copy the same elements, unit 0 copies them (`predicated_store`).
IN_ORDER      calls that take terms in another order than that of their index (`term_order`) are executed one after another, on
              registers of each. None is executed without the others, so which of their terms a call adds need not be told.
TOGETHER      units that execute one instruction do not diverge.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....dsl.device import Instr, Operand
from ....dsl.errors.schedule import InstrMismatch, RegisterMismatch
from ....dsl.index.expr import Expr, Var, as_expr
from ....dsl.support.fast_replace import replace
from ....dsl.values import Load, Masked, Value, loads, transform
from ...ir.schedule_tree import fragment_of
from ...ir.tile_ir import Alloc, Buffer, Call, For, If, Piece, Stmt, Store
from ...plan.computations import Computation, indices_of
from ...plan.derived_names import StagedCopy, tensor_of
from ...schedule.synthetic_spans import author_of
from ..addressing import coordinates, edge_conds, translate, zero_is_neutral
from ..lowering_context import LoweringContext
from ..reductions.accumulator_computations import counting_term
from ..reductions.contributions import added_by
from ..reductions.reduce_element import note_reduced
from ..spec import ONE, ZERO, Focus, View
from ..stores.predicated_store import one_writer
from .check_instr import UnusableInstr, cannot_mask, check_lanes, note_unused, way_to_share
from .fragment_fit import same_fragment
from .match_instr import FragmentMap, InstrMatch, chosen_terms, domain_indices, fragment_map
from .operand_address import buffer_of, for_all, is_never_aligned, operand_address, other_memory
from .scalar_leaf import _registers, element_loops, lanes_below, lower_element, open_index
from .shared_values import mask_value


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
    if computation.domain and domain_indices(computation).isdisjoint(todo):
        chosen = chosen_terms(m, computation)
        if chosen is not None:
            return _some_terms(ctx, focus, computation, m, chosen, todo, demands, unroll, span)
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


def _some_terms(
    ctx: LoweringContext,
    focus: Focus,
    computation: Computation,
    m: InstrMatch,
    chosen: InstrMatch,
    todo,
    demands,
    unroll: int,
    span,
) -> list[Stmt]:
    """SOME_TERMS, of the call that the focus is at along all indices of the domain."""
    inside = _all_count(focus, computation, m)
    term = counting_term(computation)
    every = _repeat(ctx, focus, term, m, todo, demands, unroll, span) if inside is not None else []
    assert chosen.instr.condition is not None
    name = chosen.instr.condition.tensor
    ctx.instrs[chosen.instr.name] = chosen.instr
    indices = domain_indices(computation) & focus.ranges.keys()
    told = _Demand(chosen.instr.operand(name), dict(chosen.operands)[name], indices, fragment_map(chosen, name))
    some = _repeat(ctx, focus, term, chosen, todo, (*demands, told), unroll, span)
    return some if inside is None else [If(inside, tuple(every), tuple(some))]


def _all_count(focus: Focus, computation: Computation, m: InstrMatch) -> tuple[Expr, ...] | None:
    """What is at least 0 only if all terms of a call count; None where that is not known."""
    out: list[Expr] = []
    for c in computation.domain:
        least = c
        for v in c.variables():
            last = m.extent(computation.alias.get(v.name, v.name)) - 1
            if not last:
                continue
            k = c.coefficient(v)
            if not k or v in (c - as_expr(v) * k).variables() or v.name in computation.alias:
                return None
            least = least + last * k if k < 0 else least
        out.append(least.subs(focus.binding))
    return tuple(out)


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
        conds = edge_conds(f, over) if _lacks_zeros(f, d.value) else ()
        return [Store(name, coords, mask_value(translate(ctx, f, d.value), conds))]

    def tiles(f: Focus, rest: list[str]) -> list[Stmt]:
        if not rest:
            return _registers(ctx, f, d.fragment, spread, fill)
        return open_index(ctx, f, rest[0], m.extent(rest[0]), True, lambda g: tiles(g, rest[1:]))

    try:
        filled = tiles(focus, loops)
    except RegisterMismatch as error:
        if error.span is None:  # it is of this line
            error.help = way_to_share(ctx, focus, computation, d.value) or error.help
        raise
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
            several = m.held is not None and op.name == m.instr.statement.target
            at = _first_held(focus, m) if several else replace(focus, element=(ZERO, f.registers), fragment=f)
            coords = coordinates(ctx, at.with_view(tensor, view), tensor, ())
        else:
            halo = op.name in by_name and getattr(by_name[op.name].value, "otherwise", None) is not None
            coords, more, why = operand_address(ctx, focus, f, op, tensor, indices, strip_mask(computation)[1], halo)
            if view.form == "global" and m.instr.level != ctx.innermost and is_never_aligned(ctx, view, op, coords):
                why = why or f"`{op.name}` is not aligned for it, whatever the sizes are"
            if why:
                laid_out = view.layout is not None and (view.layout.pad or view.layout.swizzle is not None)
                elsewhere = other_memory(ctx, buffer_of(ctx, view), op) is not None
                if m.held is not None or (isinstance(computation.name, StagedCopy) and (laid_out or elsewhere)):
                    raise UnusableInstr(m.instr.name, why)
                note_unused(ctx, m.instr.name, why, m.named_at)
                return _one_by_one(ctx, focus, computation, m)
            guards = (*guards, *more)
        pieces.append(Piece(view.buffer, coords, f.registers))
    target = fragment_map(m, m.instr.statement.target)
    lane, _ = ctx.number(lanes_below(ctx, focus.level, target.lanes))
    number = ctx.var("call", as_expr(m.calls)) if m.calls > 1 else None
    nth = ZERO if number is None else as_expr(number)
    contribution = added_by(focus, computation, m, nth, target, lane, neutral)
    own = tuple(_of_call(m, op.name, piece, nth) for op, piece in zip(m.instr.operands, pieces, strict=True))
    call = Call(m.instr.name, own, author_of(span, computation.span), contribution)
    stmt = _once(ctx, focus, computation, m.instr, call)
    stmt = stmt if number is None else For(number, ZERO, as_expr(m.calls), ONE, (stmt,), unroll=0)
    guards = tuple(dict.fromkeys(guards))
    if not guards:
        return [stmt]
    if m.held is not None:
        raise UnusableInstr(m.instr.name, "of what a call fills, some may be outside")
    elementwise = _one_by_one(ctx, focus, computation, m)
    together = for_all(ctx, focus, guards)
    return elementwise if together is None else [If(together, (stmt,), tuple(elementwise))]


def _of_call(m: InstrMatch, operand: str, piece: Piece, call: Expr) -> Piece:
    """IN_ORDER: the registers of one of the calls, of those of all of them."""
    if m.order is None or fragment_map(m, operand).of(m.order.index) is None:
        return piece
    each = piece.extent // m.calls
    return replace(piece, coords=(*piece.coords[:-1], piece.coords[-1] + call * each), extent=each)


def _first_held(focus: Focus, m: InstrMatch) -> Focus:
    """The first of the fragments that a call fills, among tiles that are as large as one."""
    assert m.held is not None
    for i, n, _ in m.held.maps:
        count = m.extent(i) // n
        if count > 1:
            r = focus.ranges[i]
            last = r.steps[-1]
            each = replace(last, expr=last.expr * count, extent=last.extent * count, stride=n)
            focus = focus.with_range(i, replace(r, steps=(*r.steps[:-1], each)))
    return replace(focus, element=(ZERO, m.held.registers), fragment=m.held)


def _lacks_zeros(focus: Focus, value: Value) -> bool:
    """Does it read what lines of this nest computed, in registers or in a memory, up to its edge?"""
    views = (focus.views[ld.tensor] for ld in loads(value))
    return any(v.form == "path" or not v.zero_padded for v in views)


def _as_demanded(focus: Focus, value: Value, demands) -> Value:
    """The value of a computation that reads operands where they were filled from what was computed (ZERO_PAST_THE_EDGE)."""
    filled = (d for d in demands if d.view.form == "path" and d.view.owner is None and _lacks_zeros(focus, d.value))
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


def _one_by_one(ctx: LoweringContext, focus: Focus, computation: Computation, m: InstrMatch) -> list[Stmt]:
    """The same points, each by itself, spread over the lanes as a fragment says: the target's, if it is spread."""
    spread = fragment_map(m, m.instr.statement.target)
    if spread.lane is None:
        others = (fragment_map(m, o.name) for o in m.instr.operands)
        spread = next((f for f in others if f.lane is not None and len(f.maps) == len(spread.maps)), spread)
    mine = [i for i in computation.indices if spread.of(i)]
    reduced = [i for i in computation.reduced if m.extent(i) > 1]

    def inner(f: Focus) -> list[Stmt]:
        return _registers(ctx, f, spread, mine, lambda g: lower_element(ctx, g, computation))

    return element_loops(ctx, focus, reduced, set(), inner, {})


def strip_mask(computation: Computation) -> tuple[Computation, tuple]:
    """A copy without its mask, and the mask's conditions."""
    if isinstance(computation.value, Masked):
        return replace(computation, value=computation.value.value), computation.value.conds
    return computation, ()
