"""The number of tiles along each index gets a name and 32 bits, if the number of a block is decoded by it.

    m = block / ((N + 63) / 64)      -->      N_tiles = (N + 63) / 64; m = block / N_tiles

A launch with blocks has at least one and at most `most` of them, so no factor of their number is larger. A division of 64 bits
at the head of every kernel is some hundred instructions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ....dsl.index.expr import Atom, Expr, Fn, Var, as_expr
from ....dsl.index.simplify import linear_combination, rebuild
from ....dsl.support.fast_replace import replace
from ...analysis.divisibility import factors
from ...ir.free_names import numbered_name
from ...ir.tile_ir import For, Launch, Let, Stmt, Units
from ...ir.tile_visitors import map_bodies, map_own, statements


def name_tile_counts(launch: Launch, blocks: Iterable[Units], sizes: frozenset[Var], most: int) -> Launch:
    """`sizes`: variables that the host knows. Only counts of blocks with several factors get names, because others are no
    divisors."""
    found = [f for u in blocks for f in _factors(u.count)]
    if not found:
        return launch
    names = {v.name for v in (*sizes, *(u.var for u in launch.units))}
    names |= {s.var.name for s in statements(launch.body) if type(s) is For or type(s) is Let}
    lets: list[Let] = []
    plain: dict[Var, Expr] = {}
    whole: dict[Fn, Expr] = {}
    for f in dict.fromkeys(found):
        own = Expr(((f, 1),)).variables()
        if not own <= sizes or (isinstance(f, Var) and f.hi is not None and f.hi <= most):
            continue
        wish = f"{''.join(sorted(v.name for v in own))}_{'count' if isinstance(f, Var) else 'tiles'}"
        name = numbered_name(wish, names, first=2)
        names.add(name)
        var = Var(name, 0, most)
        lets.append(Let(var, Expr(((f, 1),))))
        if isinstance(f, Var):
            plain[f] = as_expr(var)
        else:
            whole[f] = as_expr(var)
    if not lets:
        return launch
    counted = frozenset(v for x in lets for v in x.value.variables())
    return replace(launch, body=(*lets, *_Counts(counted, plain, whole).body(launch.body)))


def positive_sizes(blocks: Iterable[Units], lets: Mapping[Var, Expr]) -> frozenset[Var]:
    """Sizes that are not 0 where there is a block: (N*P*Q + 127)/128 is 0 if one of these is.

    lets  what sizes mean
    """
    found: set[Var] = set()
    queue: list[Expr] = [u.count for u in blocks]
    while queue:
        e = queue.pop()
        if len(e.terms) != 1 or e.terms[0][1] < 0 or e.const > 0:
            continue
        for x in factors(e.terms[0][0]):
            if isinstance(x, Var):
                found |= {x} if x.lo is not None and x.lo >= 0 else set()
                queue += [lets[x]] if x in lets else []
            elif x.kind == "div" and (by := x.args[1].constant):
                queue.append(x.args[0] - (by - 1))  # it is at least 1
    return frozenset(found)


class _Counts:
    """Puts names of counts into statements."""

    def __init__(self, counted: frozenset[Var], plain: dict[Var, Expr], whole: dict[Fn, Expr]) -> None:
        self.counted, self.whole = counted, whole
        self.given = {v: as_expr(v) for v in counted} | plain
        self.ended: dict[Var, Var] = {}

    def body(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return tuple(map(self.statement, body))

    def statement(self, s: Stmt) -> Stmt:
        own = map_own(s, lambda e: self.named(e.renamed(self.ended)))
        return self.end(own) if isinstance(own, Let) else map_bodies(own, self.body)

    def end(self, s: Let) -> Let:
        """Names of tiles have the ends that the numbers of tiles give them."""
        last = None if s.extent is None else s.extent.interval[1]
        if last is None or (s.var.hi is not None and s.var.hi < last):
            return s
        self.ended[s.var] = ended = Var(s.var.name, s.var.lo, max(last - 1, s.var.lo or 0))
        return replace(s, var=ended)

    def named(self, e: Expr) -> Expr:
        """The same object where no quotient or the like is of what is counted."""
        counted = self.counted
        if counted.isdisjoint(e.variables()):
            return e
        for a, _ in e.terms:
            if type(a) is not Var and not counted.isdisjoint(a.variables()):  # type: ignore[union-attr]
                break
        else:
            return e
        return linear_combination([(as_expr(a) if type(a) is Var else self.function(a), c) for a, c in e.terms], e.const)  # type: ignore[arg-type]

    def function(self, f: Fn) -> Expr:
        found = self.whole.get(f) or _rounded(f, self.whole)
        if found is not None:
            return found
        left, *others = map(self.named, f.args)
        if f.kind in ("div", "mod"):
            by = f.args[1].subs(self.given, self.whole)
            return left // by if f.kind == "div" else left % by
        return rebuild(f.kind, [left, *others])


def _rounded(f: Fn, whole: dict[Fn, Expr]) -> Expr | None:
    """A number of bands of tiles by the number of tiles: (M + 511)/512 is (M_tiles + 15)/16."""
    by = f.args[1].constant if f.kind == "div" else None
    for g, name in whole.items() if by else ():
        c = g.args[1].constant if g.kind == "div" else None
        if by and c and by % c == 0 and (Expr(((g, 1),)) + (by // c - 1)) // (by // c) == Expr(((f, 1),)):
            return (name + (by // c - 1)) // (by // c)
    return None


def _factors(count: Expr) -> tuple[Atom, ...]:
    """Of a product of several."""
    found = tuple(factors(count.terms[0][0])) if len(count.terms) == 1 and not count.const else ()
    return found if len(found) > 1 else ()
