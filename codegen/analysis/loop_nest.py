"""Loop nests around one store, whose iterations may execute several at a time.

    for i: for x: if (guard): dst[..] = value(..)          loops with a constant trip count, or with `min(constant, ..)`

Beside the store there may be values that several of its operands share, each in a register of its own:

    alloc a: alloc b: a = value(..); b = value(a, ..); dst[..] = value(a, b, ..)

There may be stores to other buffers before it, as that of the index in a step of argmax:

    for x: at = value(..); dst[..] = value(..)

A loop other than the innermost may become the vector's if no two iterations store to the same element (INTERCHANGE).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from ...dsl.index.expr import Expr, Fn, Var, as_expr
from ...dsl.index.simplify import linear_combination
from ...dsl.support.fast_replace import replace
from ...dsl.values import IndexValue, Load, Masked, Value, loads, transform
from ..ir.tile_ir import Alloc, Buffer, For, If, Stmt, Store

_MOST_TURNS = 1024  # iterations: of crossed loops together, whose addresses are compared one by one [limit]
MOST_LIVE = 64  # iterations: the largest trip count of a loop whose trip count is not constant [limit]


@dataclass(frozen=True)
class NestLoop:
    """`trip_count`: the largest number of iterations. `limits`: >= 0 where an iteration takes place; empty when all do."""

    loop: For
    trip_count: int
    limits: tuple[Expr, ...]

    @property
    def var(self) -> Var:
        return self.loop.var


@dataclass(frozen=True)
class StoreNest:
    """`guard`: conditions of the store, limits of loops not among them. `shared`: registers and what fills them, in order.
    `earlier`: stores to other buffers, which come first in an iteration."""

    loops: tuple[NestLoop, ...]
    guard: tuple[Expr, ...]
    store: Store
    shared: tuple[tuple[Alloc, Store], ...] = ()
    earlier: tuple[Store, ...] = ()

    @property
    def values(self) -> tuple[Value, ...]:
        return (*[s.value for _, s in self.shared], *[s.value for s in self.earlier], self.store.value)

    def around(self, x: NestLoop) -> tuple[NestLoop, ...]:
        return tuple(x2 for x2 in self.loops if x2 is not x)


def nest_of(s: Stmt) -> StoreNest | None:
    loops: list[NestLoop] = []
    guard: list[Expr] = []
    earlier: list[Stmt] = []
    while True:
        match s:
            case _ if earlier and not isinstance(s, Store):
                return None
            case For() if s.body:
                loop = _loop(s)
                if loop is None or guard:
                    return None
                loops.append(loop)
                *earlier, s = s.body
            case If() if s.body and not s.orelse and not s.turns:
                guard += s.conds
                *earlier, s = s.body
            case Store() if s.atomic is None:
                others = tuple([x for x in earlier if isinstance(x, Store) and x.atomic is None and x.buffer != s.buffer])
                return StoreNest(tuple(loops), tuple(guard), s, (), others) if len(others) == len(earlier) else None
            case Alloc():
                found = _sharing(s)
                return None if found is None else StoreNest(tuple(loops), tuple(guard), *found)
            case _:
                return None


def _sharing(s: Alloc) -> tuple[Store, tuple[tuple[Alloc, Store], ...]] | None:
    """A store, and the registers that are filled for it."""
    allocs: list[Alloc] = []
    body: tuple[Stmt, ...] = (s,)
    while len(body) == 1 and isinstance(body[0], Alloc):
        allocs.append(body[0])
        body = body[0].body
    stores = [x for x in body if isinstance(x, Store) and x.atomic is None]
    if len(stores) != len(body) or len(body) != len(allocs) + 1:
        return None
    shared = tuple(zip(allocs, stores[:-1], strict=True))
    if any(a.buffer.shape or a.staging is not None or x.buffer != a.buffer.name for a, x in shared):
        return None
    return (stores[-1], shared) if all(stores[-1].buffer != a.buffer.name for a in allocs) else None


def _loop(s: For) -> NestLoop | None:
    if s.start.constant != 0 or s.step.constant != 1:
        return None
    if s.stop.constant is not None:
        return NestLoop(s, s.stop.constant, ()) if s.stop.constant > 0 else None
    most = s.stop.interval[1]
    if most is None or not 0 < most <= MOST_LIVE:
        return None
    return NestLoop(s, most, tuple(e - s.var - 1 for e in _ends(s.stop) if e.constant is None or e.constant < most))


def _ends(stop: Expr) -> tuple[Expr, ...]:
    """The expressions that `stop` is the least of."""
    (atom, c), *more = stop.terms
    alone = not more and c == 1 and not stop.const and isinstance(atom, Fn) and atom.kind == "min"
    return atom.args if alone and isinstance(atom, Fn) else (stop,)


def may_be_inner(nest: StoreNest, x: NestLoop, buffer: Buffer) -> bool:
    """INTERCHANGE: whether the loop `x` may run innermost."""
    at = nest.loops.index(x)
    crossed = nest.loops[at + 1 :]
    if not crossed:
        return True
    if nest.earlier or any(x.var in c.loop.stop.variables() for c in crossed):
        return False
    reads = [ld for value in nest.values for ld in loads(value) if ld.tensor == nest.store.buffer]
    if any(ld.indices != nest.store.coords for ld in reads):
        return False
    address = linear_address(buffer, nest.store.coords)
    inner = (x, *crossed)
    turns = 1
    for c in inner:
        turns *= c.trip_count
    if turns > _MOST_TURNS:
        return False
    first = address.subs({c.var: as_expr(0) for c in inner})
    seen = set()
    for values in product(*(range(c.trip_count) for c in inner)):
        offset = (address.subs({c.var: as_expr(v) for c, v in zip(inner, values, strict=True)}) - first).constant
        if offset is None or offset in seen:
            return False
        seen.add(offset)
    return True


def linear_address(buffer: Buffer, coords: tuple[Expr, ...]) -> Expr:
    """The linear address, in elements."""
    return _address(coords, buffer.strides)


@lru_cache(maxsize=1 << 12)  # the latest ones: passes, and programs for other sizes, ask for the same
def _address(coords: tuple[Expr, ...], strides: tuple[Expr, ...]) -> Expr:
    return linear_combination([(c * s, 1) if s.terms else (c, s.const) for c, s in zip(coords, strides, strict=True)], 0)


@lru_cache(maxsize=1 << 12)  # as well
def first_and_step(e: Expr, var: Var, first: Expr, count: int) -> tuple[Expr, int] | None:
    """`e` at var = first, and by how much it is more at each of the `count - 1` values that follow; None where that differs."""
    here, c = e.subs({var: first}), e.coefficient(var)
    if not any(type(a) is Fn and var in a.variables() for a, _ in e.terms):
        return here, c
    step = (e.subs({var: first + 1}) - here).constant
    if step is None or any((e.subs({var: first + i}) - here).constant != step * i for i in range(2, count)):
        return None
    return here, step


def wrap_in_loops(loops: tuple[NestLoop, ...], body: list[Stmt]) -> list[Stmt]:
    """The loops around statements."""
    for x in reversed(loops):
        body = [replace(x.loop, body=tuple(body))]
    return body


def at(store: Store, var: Var, value: Expr) -> Store:
    """The store in one iteration of a loop."""
    subs = {var: value}
    return replace(store, coords=tuple(e.subs(subs) for e in store.coords), value=value_at(store.value, subs))


def value_at(value: Value, subs: dict[Var, Expr]) -> Value:
    """The value where variables have these values."""

    def step(v: Value) -> Value | None:
        match v:
            case Load():
                return replace(v, indices=tuple(e.subs(subs) for e in v.indices))
            case IndexValue():
                return replace(v, expr=v.expr.subs(subs))
            case Masked():
                conds = tuple(c.subs(subs) for c in v.conds)
                return replace(v, conds=conds, value=value_at(v.value, subs), otherwise=value_at(v.otherwise, subs))
        return None

    return transform(value, step)
