"""Sizes of ordinary calls get an upper bound, so that index arithmetic uses 32 bits where all its results provably fit.

    narrow_indices(program) -> program, whose needs have the conditions (>= 0) on sizes for which it was made

Quantities that follow from sizes (numbers of units, trip counts, names of values) get the bounds that follow. A product of
sizes that bounds loops or units, as for indices fused into one, is a size as well: it gets a name (`lets`), and a bound.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...dsl.index.expr import Expr, Fn, Var, as_expr
from ...dsl.support.fast_replace import replace
from ..analysis.divisibility import factors
from ..ir.free_names import underscored_name
from ..ir.program import Program
from ..ir.tile_ir import Alloc, For, If, Launch, Let, Needs, Stmt, Units
from ..ir.tile_visitors import expressions, map_own, statements, with_sizes

MOST = 1 << 30  # elements: the most of a size, so that the sum of a size and a tile stays below 2**31 [fact: i32]


def narrow_indices(program: Program) -> Program:
    narrow: dict[Var, Var] = {}
    conds: list[Expr] = []
    for v in (*program.dims, *(v for v, _ in program.lets)):
        if v.hi is None or v.hi > MOST:
            narrow[v] = made = Var(v.name, v.lo, MOST)
            conds.append(MOST - as_expr(made))
    if not narrow:
        return program
    dims = tuple(narrow.get(v, v) for v in program.dims)
    lets = tuple((narrow.get(v, v), e.renamed(narrow)) for v, e in program.lets)
    sizes = {v: as_expr(made) for v, made in narrow.items()}
    names = {v.name for v in (*dims, *(v for v, _ in lets))} | {b.name for b in program.buffers}
    whole: dict[Fn, Expr] = {}
    open_sizes = frozenset((*program.dims, *(v for v, _ in program.lets)))
    for f in dict.fromkeys(f for x in program.launches for f in _products(x, open_sizes)):
        product = Expr(((f, 1),))
        parts = sorted(v.name for v in product.variables())
        name = underscored_name(("" if all(len(x) == 1 for x in parts) else "_").join(parts), names)
        names.add(name)
        made = Var(name, 0, MOST)
        whole[f] = as_expr(made)
        lets = (*lets, (made, product.renamed(narrow)))
        conds.append(MOST - as_expr(made))
    launches = tuple(_launch(x, sizes, whole) for x in program.launches)
    # what the host computes before it chooses a program is not simplified
    buffers = tuple(with_sizes(b, lambda e: e.renamed(narrow)) for b in program.buffers)
    conditions = tuple((c.renamed(narrow), text) for c, text in program.conditions)
    asked = program.needs or Needs()
    needs = replace(asked, conds=(*(c.renamed(narrow) for c in asked.conds), *conds))
    return replace(program, dims=dims, lets=lets, buffers=buffers, conditions=conditions, launches=launches, needs=needs)


def _products(launch: Launch, sizes: frozenset[Var]) -> Iterator[Fn]:
    """The products of sizes that bound loops and units, where there are divisions by sizes."""
    bounds = [u.count for u in launch.units]
    used = (f for e in expressions(launch.body) for f in _functions(e))
    if not any(f.kind in ("div", "mod") and f.args[1].terms for f in used):
        return
    for s in statements(launch.body):
        match s:
            case For():
                bounds.append(s.stop)
            case Let(extent=Expr() as extent):
                bounds.append(extent)
            case If():
                bounds += s.conds
    for f in (f for e in bounds for f in _functions(e)):
        if f.kind == "mul" and all(x in sizes for x in factors(f)):
            yield f


def _functions(e: Expr) -> Iterator[Fn]:
    """The functions in an expression, outermost first; not those in products."""
    for atom, _ in e.terms:
        if isinstance(atom, Fn):
            yield atom
            if atom.kind != "mul":
                for x in atom.args:
                    yield from _functions(x)


def _same(v: Var, known: dict[Var, Expr]) -> Var:
    """The variable with the ends that are known of it."""
    new = known.get(v)
    found = next(iter(new.variables())) if new is not None else v
    return found


def _launch(launch: Launch, sizes: dict[Var, Expr], whole: dict[Fn, Expr]) -> Launch:
    ends = _Ends(sizes, whole)
    units = []
    for u in launch.units:
        count = ends.of(u.count)
        var = _ended(u.var, count - 1)
        ends.known[u.var] = as_expr(var)
        units.append(Units(u.level, var, count))
    _collect(launch.body, ends)
    return replace(launch, units=tuple(units), body=_with(launch.body, ends))


class _Ends:
    """Variables as they are known, and the expressions of a launch with them."""

    def __init__(self, sizes: dict[Var, Expr], whole: dict[Fn, Expr]) -> None:
        self.known, self.whole = dict(sizes), whole

    def of(self, e: Expr) -> Expr:
        return e.subs(self.known, self.whole)

    def learn(self, v: Var, *mosts: Expr) -> None:
        ended = _ended(v, *mosts)
        if ended is not v:
            self.known[v] = as_expr(ended)


def _collect(body: tuple[Stmt, ...], ends: _Ends) -> None:
    for s in body:
        match s:
            case For():
                ends.learn(s.var, ends.of(s.stop) - 1)
            case Let():
                value = ends.of(s.value)
                ends.learn(s.var, value if s.extent is None else ends.of(s.extent) - 1, value)
        for inner in (getattr(s, "body", ()), getattr(s, "orelse", ())):
            _collect(inner, ends)


def _ended(v: Var, *mosts: Expr) -> Var:
    """With the least upper end that any of the expressions gives; the lower end stays."""
    ends = [e.interval[1] for e in mosts] + [v.hi]
    his = [h for h in ends if h is not None]
    return Var(v.name, v.lo, max(min(his), v.lo or 0) if his else None)


def _with(body: tuple[Stmt, ...], ends: _Ends) -> tuple[Stmt, ...]:
    """The statements with the variables as they are known."""
    out: list[Stmt] = []
    for s in body:
        s = map_own(s, ends.of)
        match s:
            case Let():
                s = replace(s, var=_same(s.var, ends.known))
            case For():
                s = replace(s, var=_same(s.var, ends.known), body=_with(s.body, ends))
            case Alloc():
                s = replace(s, buffer=with_sizes(s.buffer, ends.of), body=_with(s.body, ends))
            case If():
                s = replace(s, body=_with(s.body, ends), orelse=_with(s.orelse, ends))
        out.append(s)
    return tuple(out)
