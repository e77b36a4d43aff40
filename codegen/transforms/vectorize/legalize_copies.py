"""Legalization of the copies that lowering placed: one whose addresses are not aligned for it uses a narrower instruction.

    copy16(G[a], S[b])  -->  for i in 0 .. 4: copy4(G[a + 2*i], S[b + 2*i])  -->  element by element, synchronous

WIDEST      the widest aligned instruction that copies between the same memories and has the same kind of wait.
ELEMENTS    of an instruction that several units execute there is no narrower one: the elements that stand in the `else` of its
            guard are copied one by one.
FILLED      `if (inside) copy else zeros` is one instruction that every unit executes, if the device has it: elements that are
            not live are not read, and become zero.
"""

from __future__ import annotations

from math import copysign, prod

from ....dsl.index.expr import Expr, Var, as_expr
from ....dsl.support.fast_replace import replace
from ....dsl.values import Const, Load, Masked, Value
from ...analysis.loop_nest import linear_address
from ...analysis.vector_instrs import VectorInstr
from ...ir.tile_ir import Alloc, Call, For, If, Piece, Stmt, Store, goes_on_in_next_row
from .joint_guards import joint_guards, strongest
from .vectorizer_state import AlignmentClaim, VectorizerState


def legalize_copy(state: VectorizerState, s: Stmt) -> list[Stmt] | None:
    """A copying instruction, or one under conditions, as it may stand; None: the statement is none, or good as it is."""
    call = s.body[0] if isinstance(s, If) and not s.turns and len(s.body) == 1 else s
    if not isinstance(call, Call):
        return None
    if (member := state.members.of(state.instrs[call.instr])) is None:
        return _or_elements(state, s, call) if isinstance(s, If) and s.orelse else None
    if member.kind == "filled":
        return None
    source, target = _pieces(call, member)
    chosen = _widest(state, member, source, target)
    if chosen is None:
        state.note(f"`{call.instr}`: {source.buffer} or {target.buffer} is not aligned for it; its elements go one by one")
        return [_conditional(s, _elements(state, call, member, source, target))]
    fit, claims = chosen
    state.take(claims)
    if fit is not member:
        state.note(
            f"`{call.instr}`: {source.buffer} and {target.buffer} are aligned for `{fit.instr.name}` only, which is taken"
        )
    if isinstance(s, If) and (filled := _filled(state, s, member, fit, source, target)) is not None:
        return filled
    if fit is member:
        return [replace(s, conds=strongest(s.conds))] if isinstance(s, If) else None
    return [_conditional(s, _narrow(state, call, member, fit, source, target))]


def _or_elements(state: VectorizerState, s: If, call: Call) -> list[Stmt] | None:
    """ELEMENTS. None: it is aligned, as far as the program may ask for it."""
    operands = zip(state.instrs[call.instr].operands, call.pieces, strict=True)
    claims = [_claim_of(state, p, o.alignment) for o, p in operands]
    known = [c for c in claims if c is not None]
    if len(known) == len(claims):
        state.take(known)
        return None
    state.note(f"`{call.instr}`: an operand is not aligned for it; its elements go one by one")
    return list(s.orelse)


def _pieces(call: Call, member: VectorInstr) -> tuple[Piece, Piece]:
    by_name = {o.name: p for o, p in zip(member.instr.operands, call.pieces, strict=True)}
    return by_name[member.source.name], by_name[member.target.name]


def _conditional(s: Stmt, body: Stmt) -> Stmt:
    return replace(s, body=(body,)) if isinstance(s, If) else body


def _widest(
    state: VectorizerState, member: VectorInstr, source: Piece, target: Piece
) -> tuple[VectorInstr, list[AlignmentClaim]] | None:
    fits = state.members.fitting(member.kind, member.source.memory, member.target.memory, member.dtype, member.instr.awaits)
    for fit in fits:
        if fit.count > member.count or member.count % fit.count:
            continue
        claims = [_claim(state, p, fit) for p in (source, target)]
        known = [c for c in claims if c is not None]
        if len(known) == 2:
            return fit, known
    return None


def _claim(state: VectorizerState, p: Piece, m: VectorInstr) -> AlignmentClaim | None:
    return _claim_of(state, p, m.align)


def _claim_of(state: VectorizerState, p: Piece, bytes_: int) -> AlignmentClaim | None:
    if state.in_register(p.buffer):
        return AlignmentClaim()
    buffer = state.buffers[p.buffer]
    return state.claim(buffer, linear_address(buffer, p.coords), bytes_)


def _moved(state: VectorizerState, p: Piece, by: Expr, extent: int) -> Piece:
    """A piece that begins `by` elements further on. Where `p` may go on in the next row, as after a `fuse`, its coordinates are
    digits of one number, and it is the number that grows:  B[x / 17, x % 17]  -->  B[(x + by) / 17, (x + by) % 17]. Dimensions
    of extent 1 have no next element."""
    shape = state.buffers[p.buffer].shape
    last = max((n for n, e in enumerate(shape) if e.constant != 1), default=len(shape) - 1)
    first = last
    while first > 0 and _goes_on(state, p, first):
        first -= 1
    number, rows = p.coords[first], shape[first + 1 : last + 1]
    for row, c in zip(rows, p.coords[first + 1 : last + 1], strict=True):
        number = number * row + c
    number = number + by
    digits: list[Expr] = []
    for row in reversed(rows):
        digits.insert(0, number % row)
        number = number // row
    return Piece(p.buffer, (*p.coords[:first], number, *digits, *p.coords[last + 1 :]), extent)


def _goes_on(state: VectorizerState, p: Piece, d: int) -> bool:
    """Whether the piece may go on in the next row of dimension `d`: the rows are adjacent, and it need not end with one."""
    buffer = state.buffers[p.buffer]
    row = prod(buffer.shape[d:], start=as_expr(1)).constant
    longer = row is not None and 0 < row < p.extent
    adjacent = buffer.strides[d - 1] == buffer.shape[d] * buffer.strides[d]
    return buffer.shape[d].constant != 0 and adjacent and (longer or goes_on_in_next_row(p.coords, d, buffer.shape[d]))


def _narrow(state: VectorizerState, call: Call, member: VectorInstr, fit: VectorInstr, source: Piece, target: Piece) -> Stmt:
    """`fit` as often as it takes."""
    times = member.count // fit.count
    i = Var(state.fresh("part"), 0, times - 1)
    one = _one(state, call, fit, source, target, as_expr(i) * fit.count)
    return For(i, as_expr(0), as_expr(times), as_expr(1), (one,), unroll=0, span=call.span)


def _one(
    state: VectorizerState, call: Call, fit: VectorInstr, source: Piece, target: Piece, by: Expr, live: str | None = None
) -> Call:
    """The instruction, `by` elements on; `live`: the register with the number of elements that are to be read."""
    state.instrs[fit.instr.name] = fit.instr
    by_name = {fit.source.name: _moved(state, source, by, fit.count), fit.target.name: _moved(state, target, by, fit.count)}
    if fit.live is not None and live is not None:
        by_name[fit.live.name] = Piece(live, ())
    return Call(fit.instr.name, tuple(by_name[o.name] for o in fit.instr.operands), call.span)


def _elements(state: VectorizerState, call: Call, member: VectorInstr, source: Piece, target: Piece) -> Stmt:
    r = Var("r", 0, member.count - 1)
    value = Load(source.buffer, _moved(state, source, as_expr(r), 1).coords, member.dtype)
    store = Store(target.buffer, _moved(state, target, as_expr(r), 1).coords, value, span=call.span)
    return For(r, as_expr(0), as_expr(member.count), as_expr(1), (store,), unroll=0)


# ---------------------------------------------------------------- zeros where nothing is


def _filled(
    state: VectorizerState, s: If, member: VectorInstr, fit: VectorInstr, source: Piece, target: Piece
) -> list[Stmt] | None:
    """FILLED: the copy and what stands in its `else`, as one; at least an `else` of zeros alone, where it is all or none."""
    copied = _copied_or_zero(state, s, member, source, target)
    if copied is None:
        return None
    call = s.body[0]
    assert isinstance(call, Call)
    r, conds = copied
    times = member.count // fit.count
    i = Var(state.fresh("part"), 0, times - 1) if times > 1 else None
    first = as_expr(i) * fit.count if i is not None else as_expr(0)
    joint = joint_guards(conds, r, first, fit.count, state.known)
    if not joint.all_or_none:
        return None
    ends = member.source.memory, member.target.memory, member.dtype, member.instr.awaits
    filled = next((m for m in state.members.fitting("filled", *ends) if m.count == fit.count and m.align == fit.align), None)
    body: Stmt
    if filled is None or filled.live is None:
        body = If(
            joint.all_inside,
            (_one(state, call, fit, source, target, first),),
            (_zeros(state, call, fit, target, first),),
            span=s.span,
        )
    else:
        live = state.register("live", filled.live.dtype, None, s.span)
        count, none = (Const(n, filled.live.dtype) for n in (filled.count, 0))
        value = Masked(joint.all_inside, count, none, filled.live.dtype) if joint.all_inside else count
        copy = _one(state, call, filled, source, target, first, live.name)
        body = Alloc(live, (Store(live.name, (), value, span=s.span), copy), span=s.span)
    return [body if i is None else For(i, as_expr(0), as_expr(times), as_expr(1), (body,), unroll=0, span=call.span)]


def _zeros(state: VectorizerState, call: Call, member: VectorInstr, target: Piece, first: Expr) -> Stmt:
    r = Var("r", 0, member.count - 1)
    store = Store(target.buffer, _moved(state, target, first + r, 1).coords, Const(0, member.dtype), span=call.span)
    return For(r, as_expr(0), as_expr(member.count), as_expr(1), (store,), unroll=0)


def _copied_or_zero(
    state: VectorizerState, s: If, member: VectorInstr, source: Piece, target: Piece
) -> tuple[Var, tuple[Expr, ...]] | None:
    """(r, conditions): the `else` has zero in element r where they fail, and does the same copy elsewhere."""
    if len(s.orelse) != 1 or not isinstance(s.orelse[0], For) or len(s.orelse[0].body) != 1:
        return None
    loop, store = s.orelse[0], s.orelse[0].body[0]
    if not isinstance(store, Store) or store.atomic or loop.stop.constant != member.count:
        return None
    value: Value = store.value
    conds: tuple[Expr, ...] = ()
    while isinstance(value, Masked) and _is_zero(value.otherwise):
        value, conds = value.value, (*conds, *value.conds)
    places = [(target, store.buffer, store.coords)]
    if isinstance(value, Load):
        places.append((source, value.tensor, value.indices))
    elif _is_zero(value):
        conds = s.conds
    else:
        return None
    same = all(_runs(state, p, name, coords, loop.var, member.count) for p, name, coords in places)
    return (loop.var, conds) if conds and same else None


def _is_zero(value: Value) -> bool:
    """Is it the zero that a copy fills with? That has no sign."""
    return isinstance(value, Const) and value.value == 0 and copysign(1, value.value) > 0


def _runs(state: VectorizerState, p: Piece, name: str, coords: tuple[Expr, ...], r: Var, count: int) -> bool:
    """Whether element r of the piece is at these coordinates."""
    if p.buffer != name:
        return False
    buffer = state.buffers[name]
    address = linear_address(buffer, coords) - linear_address(buffer, p.coords)
    return address == as_expr(r) or all(address.subs({r: as_expr(i)}).constant == i for i in range(count))
