"""One store in a nest of loops becomes vector loads and stores of several neighbours.

    for x in 0 .. 8: S[a + x] = G[b + x]
    -->
    alloc v[8]: load8(G[b], v); store8(v, S[a])

DIRECT      consecutive registers are loaded and stored in place; otherwise the vector is in a temporary of the nest.
EDGES       if some neighbours may be outside, whole vectors are one branch, and single elements the other; if all or none are
            inside (`joint_guards`), there is no second branch.
ONE_CHUNK   the widest access of the nest decides how many elements are together; narrower ones take several instructions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from ....dsl.index.expr import Expr, Var, as_expr
from ....dsl.support.fast_replace import replace
from ....dsl.values import Const, Load, Masked, Value, children, loads, transform
from ...analysis.loop_nest import (
    NestLoop,
    StoreNest,
    at,
    first_and_step,
    linear_address,
    may_be_inner,
    nest_of,
    value_at,
    wrap_in_loops,
)
from ...analysis.vector_instrs import VectorInstr
from ...ir.tile_ir import Buffer, Call, For, If, Piece, Stmt, Store
from ...ir.tile_visitors import with_buffers
from .joint_guards import JointGuards, joint_guards
from .vectorizer_state import AlignmentClaim, VectorizerState


@dataclass(frozen=True)
class VectorAccess:
    """A load (`value` is it) or the store (None), by `member`; `masks`: conditions around a load."""

    member: VectorInstr
    claim: AlignmentClaim
    buffer: Buffer
    value: Load | None
    masks: tuple[Expr, ...] = ()
    masked: Masked | None = None  # the masked value that the load is part of, with a constant elsewhere


@dataclass(frozen=True)
class VectorPlan:
    """How a nest is done: which loop, what its accesses are, how many elements together."""

    x: NestLoop
    count: int
    loads: tuple[VectorAccess, ...]
    store: VectorAccess | None

    @property
    def gain(self) -> float:
        """Instructions saved for an element."""
        accesses = [*self.loads, *([self.store] if self.store else [])]
        return sum(1 - 1 / a.member.count for a in accesses)


def vectorize_nest(state: VectorizerState, s: Stmt) -> list[Stmt] | None:
    """A nest with vector accesses, as it is where it can have none; None: the statement is no nest. What a loop inside could
    have, the nest could: there is no need to look at it by itself."""
    nest = nest_of(s)
    if nest is None:
        return None
    plans = [p for x in reversed(nest.loops) if (p := _plan(state, nest, x)) is not None]
    if not plans:
        return [s]
    best = max(plans, key=lambda p: p.gain)
    state.take([a.claim for a in (*best.loads, *([best.store] if best.store else []))])
    return [s] if state.asks else _Chunk(state, nest, best).statements()


# ---------------------------------------------------------------- what can be had


def _plan(state: VectorizerState, nest: StoreNest, x: NestLoop) -> VectorPlan | None:
    store = nest.store
    if x.trip_count < 2:
        return None
    target = state.buffers[store.buffer]
    if any(ld.tensor == store.buffer and ld.indices != store.coords for value in nest.values for ld in loads(value)):
        return None
    reads: list[VectorAccess] = []
    changed = {e.buffer for e in nest.earlier}
    for read in _covering(r for value in nest.values for r in _reads(value, state.is_inside)):
        if not state.addressed(read.load.tensor) or read.load.tensor in changed:
            continue
        access = _access(state, x, state.buffers[read.load.tensor], read.load.indices, read.load, read.masks, read.masked)
        if access is not None:
            reads.append(access)
    alone = not nest.earlier and state.addressed(store.buffer)
    written = _access(state, x, target, store.coords, None) if alone else None
    if not reads and written is None:
        return None
    count = max(a.member.count for a in (*reads, *([written] if written else [])))
    return VectorPlan(x, count, tuple(reads), written) if may_be_inner(nest, x, target) else None


@dataclass(frozen=True)
class _Read:
    """A load, the conditions it stands under, and the `Masked` of which it is the value (with a constant elsewhere).

    wherever   it is read wherever these conditions hold: on the other side of a `Masked` only where further ones fail
    """

    load: Load
    masks: tuple[Expr, ...]
    masked: Masked | None = None
    wherever: bool = True


def _reads(
    value: Value,
    is_inside: Callable[[Load], bool],
    masks: tuple[Expr, ...] = (),
    ours: tuple[Expr, ...] = (),
    wherever: bool = True,
) -> Iterator[_Read]:
    """`ours`: of `masks`, those that are not of a value that may be evaluated `anywhere`. Where the element is inside of its
    buffer whatever holds, the others do not matter."""
    match value:
        case Load():
            yield _Read(value, ours if is_inside(value) else masks, None, wherever)
        case Masked(value=Load() as load, otherwise=Const()):
            yield _Read(load, (*(ours if is_inside(load) else masks), *value.conds), value, wherever)
        case Masked():
            inner = ours if value.anywhere else (*ours, *value.conds)
            yield from _reads(value.value, is_inside, (*masks, *value.conds), inner, wherever)
            yield from _reads(value.otherwise, is_inside, masks, ours, False)
        case _:
            for child in children(value):
                yield from _reads(child, is_inside, masks, ours, wherever)


def _covering(reads: Iterable[_Read]) -> Iterator[_Read]:
    """Of all reads of one element the one under the weakest conditions: its vector serves the others too. Without such a one,
    as where each side of a `Masked` reads the element, it is no vector."""
    alike: dict[Load | Masked, list[_Read]] = {}
    for r in reads:
        alike.setdefault(r.masked or r.load, []).append(r)
    for same in alike.values():
        found = next((r for r in same if r.wherever and all({*r.masks} <= {*o.masks} for o in same)), None)
        if found is not None:
            yield found


def _access(
    state: VectorizerState,
    x: NestLoop,
    buffer: Buffer,
    coords: tuple[Expr, ...],
    load: Load | None,
    masks=(),
    masked: Masked | None = None,
) -> VectorAccess | None:
    """The widest vector access of neighbours along `x` that is aligned, or can be asked to be."""
    register = state.members.register
    ends = (buffer.memory, register) if load is not None else (register, buffer.memory)
    address = linear_address(buffer, coords)
    if x.var not in address.variables():
        return None
    for member in state.members.fitting("load" if load is not None else "store", *ends, buffer.dtype):
        n = member.count
        if n < 2 or x.trip_count % n:
            continue
        chunk = Var(f"{x.var.name}'", 0, x.trip_count // n - 1)
        found = first_and_step(address, x.var, chunk * n, n)
        if found is None or found[1] != 1:
            continue
        if (claim := state.claim(buffer, found[0], member.align)) is not None:
            return VectorAccess(member, claim, buffer, load, tuple(masks), masked)
    return None


# ---------------------------------------------------------------- how it is written


class _Chunk:
    def __init__(self, state: VectorizerState, nest: StoreNest, plan: VectorPlan) -> None:
        self.state, self.nest, self.plan = state, nest, plan
        x, n = plan.x, plan.count
        self.x, self.count = x.var, n
        self.chunks = x.trip_count // n
        self.outer = Var(state.fresh(x.var.name), 0, self.chunks - 1)
        self.first = as_expr(self.outer) * n if self.chunks > 1 else as_expr(0)
        self.inner = Var(state.fresh(x.var.name), 0, n - 1)
        self.made: list[Buffer] = []
        self.elements: dict[Load | Masked, Load] = {}  # the value that a vector was loaded for -> its element `inner`

    def statements(self) -> list[Stmt]:
        x = self.plan.x
        guard = (*self.nest.guard, *x.limits)
        joint = joint_guards(guard, self.x, self.first, self.count, self.state.known)
        fast = self._fast()
        body: list[Stmt] = (
            fast if not joint.all_inside else [If(joint.all_inside, tuple(fast), tuple(self._edge(joint, guard)))]
        )
        if self.chunks > 1:
            unroll = x.loop.unroll if x.loop.unroll <= 1 else max(1, x.loop.unroll // self.count)
            zero, one = as_expr(0), as_expr(1)
            body = [For(self.outer, zero, as_expr(self.chunks), one, tuple(body), unroll, x.loop.span)]
        return wrap_in_loops(self.nest.around(x), body)

    def _edge(self, joint: JointGuards, guard: tuple[Expr, ...]) -> list[Stmt]:
        """Where not all neighbours are inside."""
        if joint.all_or_none:
            return []
        conds = tuple(c.subs({self.x: self.first + self.inner}) for c in guard)
        return self._each((If(conds, self._element(lambda v: v)),))

    def _fast(self) -> list[Stmt]:
        """All neighbours take part."""
        store = self.nest.store
        out: list[Stmt] = []
        into = self._register_target()
        for a in self.plan.loads:
            direct = into if a.masked is None and a.value == store.value and not a.masks else None
            direct = into if a.masked is not None and a.masked == store.value else direct
            out += self._load(a, direct)
            if direct is not None:
                return self._allocated(out)
        if self.plan.store is None:
            return self._allocated([*out, *self._each(self._element(self._from_vectors))])
        source = self._register_source(store.value) or self._vector_of(store.value)
        if source is None:
            made = self._made(self.plan.store.buffer)
            out += self._each(self._element(self._from_vectors, (made.name, (as_expr(self.inner),))))
            source = made.name, (), as_expr(0)
        return self._allocated([*out, *self._stored(source)])

    # ------------------------------------------------------------ loads

    def _load(self, a: VectorAccess, direct: tuple | None) -> list[Stmt]:
        """The vector in registers: `direct` ones (buffer, coordinates but the last, the last of the first), or temporaries."""
        assert a.value is not None
        if direct is None:
            made = self._made(a.buffer)
            into = made.name, (), as_expr(0)
        else:
            into = direct
        name, before, last = into
        element = Load(name, (*before, last + self.inner), a.buffer.dtype)
        self.elements[self._here(a.masked if a.masked is not None else a.value)] = element  # type: ignore[index]
        calls = self._calls(a, into)
        if not a.masks:
            return calls
        joint = joint_guards(a.masks, self.x, self.first, self.count, self.state.known)
        if not joint.all_inside:
            return calls
        span = self.nest.store.span
        if a.masked is not None:
            # under all of the masks, those further out too: where one of these fails, nobody looks, and there may be no memory
            fill = a.masked.otherwise if joint.all_or_none else self._here(replace(a.masked, conds=a.masks))
            edge = self._each((Store(name, element.indices, fill, span=span),))
        elif joint.all_or_none:
            edge = []  # nothing reads what is not there
        else:
            masks = tuple(c.subs({self.x: self.first + self.inner}) for c in a.masks)
            edge = self._each((If(masks, (Store(name, element.indices, self._here(a.value), span=span),)),))
        return [If(joint.all_inside, tuple(calls), tuple(edge))]

    def _here(self, v: Value) -> Value:
        """A value at the element `inner`."""
        return value_at(v, {self.x: self.first + self.inner})

    def _from_vectors(self, v: Value) -> Value:
        """The value with what vectors were loaded for."""
        return transform(v, self._held)

    def _held(self, v: Value) -> Value | None:
        return self.elements.get(v) if isinstance(v, (Load, Masked)) else None

    def _calls(self, a: VectorAccess, registers: tuple) -> list[Stmt]:
        """As many instructions as the chunk takes, between memory and registers."""
        store, m = self.nest.store, a.member
        coords = store.coords if a.value is None else a.value.indices
        out: list[Stmt] = []
        name, before, last = registers
        for i in range(0, self.count, m.count):
            memory = Piece(a.buffer.name, tuple(c.subs({self.x: self.first + i}) for c in coords), m.count)
            register = Piece(name, (*before, last + i), m.count)
            by_name = {m.source.name: register, m.target.name: memory} if a.value is None else {}
            by_name = by_name or {m.source.name: memory, m.target.name: register}
            out.append(Call(m.instr.name, tuple(by_name[o.name] for o in m.instr.operands), span=store.span))
        self.state.instrs[m.instr.name] = m.instr
        return out

    def _stored(self, source: tuple) -> list[Stmt]:
        assert self.plan.store is not None
        return self._calls(self.plan.store, source)

    # ------------------------------------------------------------ registers

    def _register_target(self) -> tuple | None:
        """DIRECT: the registers that are stored to, when they lie side by side."""
        store = self.nest.store
        if self.plan.store is not None or self.nest.earlier or not self.state.in_register(store.buffer):
            return None
        return self._side_by_side(store.buffer, store.coords)

    def _register_source(self, value: Value) -> tuple | None:
        assert self.plan.store is not None
        if not isinstance(value, Load) or not self.state.in_register(value.tensor):
            return None
        return self._side_by_side(value.tensor, value.indices) if value.dtype == self.plan.store.buffer.dtype else None

    def _side_by_side(self, buffer: str, coords: tuple[Expr, ...]) -> tuple | None:
        if not coords or any(self.x in c.variables() for c in coords[:-1]):
            return None
        start = first_and_step(coords[-1], self.x, self.first, self.count)
        return (buffer, coords[:-1], start[0]) if start and start[1] == 1 else None

    def _vector_of(self, value: Value) -> tuple | None:
        """The temporary that is what is stored, element by element."""
        element = self.elements.get(self._here(value)) if isinstance(value, (Load, Masked)) else None  # type: ignore[arg-type]
        if element is None or self.plan.store is None or element.dtype != self.plan.store.buffer.dtype:
            return None
        return element.tensor, element.indices[:-1], element.indices[-1] - self.inner

    def _made(self, like: Buffer) -> Buffer:
        made = self.state.register(f"{like.name.lower()}_v", like.dtype, self.count, self.nest.store.span)
        self.made.append(made)
        return made

    def _allocated(self, body: list[Stmt]) -> list[Stmt]:
        return [*with_buffers(self.made, body, self.nest.store.span)]

    # ------------------------------------------------------------ elements

    def _element(self, value: Callable[[Value], Value], into: tuple[str, tuple[Expr, ...]] | None = None) -> tuple[Stmt, ...]:
        """The element `inner`: what comes before, and the store, or one to the buffer and the coordinates `into`."""
        store = at(self.nest.store, self.x, self.first + self.inner)
        if into is not None:
            store = Store(*into, store.value, span=store.span)
        before = [*[x for _, x in self.nest.shared], *self.nest.earlier]
        stores = [*[at(x, self.x, self.first + self.inner) for x in before], store]
        body: tuple[Stmt, ...] = tuple([replace(x, value=value(x.value)) for x in stores])
        for alloc, _ in reversed(self.nest.shared):
            body = (replace(alloc, body=body),)
        return body

    def _each(self, body: tuple[Stmt, ...]) -> list[Stmt]:
        return [For(self.inner, as_expr(0), as_expr(self.count), as_expr(1), body, unroll=0)]
