"""The points of an access as conditions over variables of which each can be chosen freely: the digits of units and loops.

DIGITS     `x / D` and `x % D` of one variable x are two variables that have all pairs of values, if D divides the extent of x.
           By numbers: `constant_digits`.
DEALT OUT  a loop that begins at the number of a unit, with the number of units as its step, has each iteration in one unit. The
           unit follows from the iteration.
TURNED     a variable that the coordinates fall with, as where the last tile has the first number, counts from its end
RASTER     rows of tiles that are walked together: the tile of a number, in bands of G rows, where the last may have fewer
SLICES     the place of a unit in the order of slices (`slice_order`) has all values that the unit has
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from ...dsl.index.expr import ZERO, Expr, Fn, Var, as_expr
from ..algebra.slice_order import slice_order
from ..ir.tile_ir import PIECE, For, Launch, Let, goes_on_in_next_row
from ..plan.computations import plain_var
from .accesses import Access, Guard, Step
from .scopes import Scope

UNIT = -1  # step: what is known of units, which come before all steps [fact: marker]


@dataclass
class Domain:
    """conds    >= 0 at each point        unless  of each of these conditions, not all hold
    free     variables that the access has for itself, outermost first, with the value of those that make no difference
    last     another such value, of loops: that of the last iteration
    """

    coords: tuple[Expr, ...]
    conds: list[Expr]
    unless: list[tuple[Expr, ...]]
    free: dict[Var, Expr]
    last: dict[Var, Expr] = field(default_factory=dict)

    def subs(self, values: Mapping[Var, Expr]) -> Domain:
        """With variables replaced, which are free no longer."""
        return Domain(
            tuple(c.subs(values) for c in self.coords),
            [c.subs(values) for c in self.conds],
            [tuple(c.subs(values) for c in cs) for cs in self.unless],
            {v: e.subs(values) for v, e in self.free.items() if v not in values},
            {v: e.subs(values) for v, e in self.last.items() if v not in values},
        )

    @property
    def exprs(self) -> list[Expr]:
        return [*self.coords, *self.conds, *(c for cs in self.unless for c in cs), *self.free.values()]


class NotSymbolic(Exception):
    """An access has conditions that are no conditions on digits."""


@dataclass
class DigitTable:
    """The digits of variables by expressions (DIGITS, RASTER, SLICES), which the domains of one question share.

    extents  variables that have all values from 0 on below this
    digits   variable -> quotient, remainder, and what the variable is of them; None by RASTER.
             By SLICES one variable is both
    """

    extents: dict[Var, Expr | None] = field(default_factory=dict)
    digits: dict[Var, tuple[Var, Var, Expr | None]] = field(default_factory=dict)

    def extent(self, x: Var, extent: Expr) -> None:
        """A variable of that name may be bound at several places: then it has no digits."""
        if self.extents.setdefault(x, extent) != extent:
            if x in self.digits:
                raise NotSymbolic
            self.extents[x] = None

    def known_extent(self, x: Var) -> Expr:
        if (extent := self.extents.get(x)) is None:
            raise NotSymbolic
        return extent

    def digit(self, e: Expr) -> Var | None:
        """The digit that `x / D` or `x % D` is; None for other expressions."""
        f = function_of(e)
        if f is None or f.kind not in ("div", "mod") or f.args[1].constant is not None:
            return None
        x, by = plain_var(f.args[0]), f.args[1]
        if x is None or (extent := self.extents.get(x)) is None:
            return None
        if x not in self.digits:
            count = extent // by - ZERO // by
            if count * by != extent:
                return None
            high, low = self._split(x, count, by)
            self.digits[x] = high, low, by * high + low
        high, low, value = self.digits[x]
        return (high if f.kind == "div" else low) if value == by * high + low else None

    def _split(self, x: Var, count: Expr, by: Expr) -> tuple[Var, Var]:
        high, low = Var(f"{x.name}/", 0, x.hi), Var(f"{x.name}%", 0, x.hi)
        self.extents |= {high: count, low: by}
        return high, low

    def in_slice_order(self, e: Expr) -> Var | None:
        """The place of a unit, where the expression is that (SLICES)."""
        for atom, _ in e.terms:
            if not isinstance(atom, Fn) or atom.kind != "div" or (slices := atom.args[1].constant) is None:
                continue
            x = plain_var(atom.args[0])
            extent = self.extents.get(x) if x is not None else None
            if x is None or extent is None or slice_order(as_expr(x), extent, slices) != e:
                continue
            if x not in self.digits:
                place = Var(f"{x.name}.place", 0, x.hi)
                self.extents[place] = extent
                self.digits[x] = place, place, None
            place, other, value = self.digits[x]
            return place if place == other and value is None else None
        return None

    def raster(self, row: Expr, column: Expr) -> tuple[Var, Var] | None:
        """The row and the column of a tile, where these two expressions are that (RASTER)."""
        f = function_of(column)
        place = function_of(f.args[0]) if f is not None and f.kind == "div" else None
        least = function_of(f.args[1]) if f is not None and place is not None and place.kind == "mod" else None
        if f is None or place is None or least is None or least.kind != "min" or len(least.args) != 2:
            return None
        x, by = plain_var(place.args[0]), place.args[1]
        size = next((n for a in least.args if (n := a.constant)), None)
        extent = self.extents.get(x) if x is not None else None
        if x is None or size is None or extent is None:
            return None
        band = as_expr(x) // by
        rows = next((a + size * band for a in least.args if a.constant is None), ZERO)
        columns = by // size
        if columns * size != by or rows * columns != extent or row != size * band + f.args[0] % f.args[1]:
            return None
        if x not in self.digits:
            self.digits[x] = (*self._split(x, rows, columns), None)
        high, low, value = self.digits[x]
        return (high, low) if value is None else None


def function_of(e: Expr) -> Fn | None:
    """The function that the expression is."""
    return e.atom if isinstance(e.atom, Fn) else None


class LaunchDomains:
    """The domains of a launch's accesses. What is around several of them is looked at once."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.table = DigitTable()
        self.starts: dict[frozenset[str], _Node] = {}

    def begin(
        self, access: Access, scope: Scope | None = None, earlier: For | None = None, also: Sequence[Expr] = ()
    ) -> BegunDomain:
        """Its `domain` is known when those of all accesses of a question are begun. Raises NotSymbolic.

        scope    None: all variables are those of the program, and all conditions are known. Else the access has the inner
                 variables of the scope, and loops from its start on, for itself: they get names of their own, and their
                 conditions are to be proven
        earlier  a loop, one of its own, whose iteration is before the one that has the program's name
        also     expressions that stand beside the coordinates, which may have PIECE in them
        """
        inner = scope.inner if scope is not None else frozenset()
        node = self.starts.get(inner)
        if node is None:
            node = self.starts[inner] = _Node(_State.of_units(self.launch, inner, self.table))
        for n, s in enumerate(access.path):
            own = isinstance(s, For) and scope is not None and (n >= scope.start or s.var.name in inner)
            following = node.below.get((id(s), own))
            if following is None:
                following = node.below[id(s), own] = _Node(node.state.after(n, s, own, self.table))
            node = following
        state = node.state
        if state.fault:
            raise NotSymbolic
        coords = [state.value(c) for c in access.coords]
        wanted = range(UNIT, len(access.path)) if scope is None else {*range(len(access.path))} - scope.implied
        conds = [c for n, cs in state.conds if n in wanted for c in cs]
        conds += [-state.value(as_expr(v)) for v in access.first]
        if earlier is not None:
            conds.append(earlier.var - 1 - state.value(as_expr(earlier.var)))
        free = dict(state.free)
        beside = [state.value(c) for c in also]
        if access.extent > 1:
            element = ZERO
            for d, r, count in _piece(access, scope is not None):
                coords[d] = coords[d] + r
                element = element * count + r
                if scope is not None:
                    free[r] = ZERO
                    conds += [as_expr(r), count - 1 - r]
            beside = [c.subs({PIECE: element}) for c in beside]
        unless = [cs for n, cs in state.unless if n in wanted]
        ranges = {x: cs for x, (n, cs) in state.ranges.items() if n in wanted or (n == UNIT and x in free)}
        return BegunDomain(Domain((*coords, *beside), conds, unless, free, state.last), ranges, self.table)


@dataclass
class BegunDomain:
    begun: Domain
    ranges: dict[Var, tuple[Expr, ...]]
    table: DigitTable

    def domain(self) -> Domain:
        """With digits in place of the variables that have some in any domain of the table."""
        free, ranges, digits = dict(self.begun.free), dict(self.ranges), self.table.digits
        for x, (high, low, _) in digits.items():
            if x in ranges:
                del ranges[x]
                ranges |= {v: (as_expr(v), self.table.known_extent(v) - 1 - v) for v in (high, low)}
            if x in free:
                del free[x]
                free |= {high: ZERO, low: ZERO}
        conds = [*self.begun.conds, *(c for cs in ranges.values() for c in cs)]
        d = Domain(self.begun.coords, conds, self.begun.unless, free, self.begun.last)
        used = {v for e in d.exprs for v in e.variables()}
        for x, (high, low, value) in digits.items():
            if x not in used:
                continue
            if value is None:
                raise NotSymbolic
            d = d.subs({x: value})
            used |= {high, low}
        return self._turned(d)

    def _turned(self, d: Domain) -> Domain:
        """TURNED: all its values are those from the end as well."""
        for v, default in list(d.free.items()):
            factors = [c.coefficient(v) for c in d.coords if v in c.variables()]
            extent = self.table.extents.get(v)
            if extent is not None and default == ZERO and factors and max(factors) < 0:
                d = d.subs({v: extent - 1 - v})
                d.free[v] = ZERO
        return d


@dataclass
class _Node:
    state: _State
    below: dict[tuple[int, bool], _Node] = field(default_factory=dict)


@dataclass
class _State:
    """What is known at a place of the program, each with the number of the step that it comes from, or UNIT."""

    values: dict[Var, Expr] = field(default_factory=dict)
    ranges: dict[Var, tuple[int, tuple[Expr, ...]]] = field(default_factory=dict)
    conds: list[tuple[int, tuple[Expr, ...]]] = field(default_factory=list)
    unless: list[tuple[int, tuple[Expr, ...]]] = field(default_factory=list)
    free: dict[Var, Expr] = field(default_factory=dict)
    last: dict[Var, Expr] = field(default_factory=dict)
    rows: dict[Var, Expr] = field(default_factory=dict)  # names that may be those of rows (RASTER)
    fault: bool = False

    @staticmethod
    def of_units(launch: Launch, inner: Collection[str], table: DigitTable) -> _State:
        out = _State()
        for u in launch.units:
            x = out.bind(u.var, ZERO, u.var.name in inner)
            table.extent(x, u.count)
            out.ranges[x] = UNIT, (as_expr(x), u.count - 1 - x)
        return out

    def value(self, e: Expr) -> Expr:
        return e.subs(self.values)

    def bind(self, v: Var, default: Expr, own: bool) -> Var:
        if not own:
            return v
        x = Var(f"{v.name}'", v.lo, v.hi)
        self.values[v], self.free[x] = as_expr(x), default
        return x

    def after(self, n: int, s: Step, own: bool, table: DigitTable) -> _State:
        if self.fault:
            return self
        out = _State(
            dict(self.values),
            dict(self.ranges),
            [*self.conds],
            [*self.unless],
            dict(self.free),
            dict(self.last),
            dict(self.rows),
        )
        match s:
            case Let():
                out.let(s, table)
            case For():
                out.loop(n, s, own, table)
            case Guard():
                conds = tuple(self.value(c) for c in s.conds)
                if s.holds:
                    out.conds.append((n, conds))
                elif len(conds) == 1:
                    out.conds.append((n, (-conds[0] - 1,)))
                else:
                    out.unless.append((n, conds))
        return out

    def let(self, s: Let, table: DigitTable) -> None:
        value = self.value(s.value)
        digit = table.digit(value) or table.in_slice_order(value)
        for atom, c in value.terms if digit is None else ():
            if c < 0 and type(atom) is Fn and (falling := table.digit(Expr(((atom, 1),)))) is not None:  # TURNED
                value += c * (falling - Expr(((atom, 1),)))
        f = function_of(value)
        if digit is None and f is not None and f.kind == "div" and f.args[1].constant is None:
            for v, row in self.rows.items():
                if (pair := table.raster(row, value)) is not None:
                    self.values[v], digit = as_expr(pair[0]), pair[1]
        elif digit is None and any(type(a) is Fn and a.kind == "mod" and a.args[1].constant is None for a, _ in value.terms):
            self.rows[s.var] = value
        self.values[s.var] = value if digit is None else as_expr(digit)

    def loop(self, n: int, s: For, own: bool, table: DigitTable) -> None:
        start, stop, step = self.value(s.start), self.value(s.stop), self.value(s.step)
        unit = plain_var(start)
        if step.constant is None:  # DEALT OUT
            if unit is None or table.extents.get(unit) != step or (unit in self.free) != own:
                self.fault = True
                return
            self.ranges.pop(unit, None)
            self.free.pop(unit, None)
            x, start = self.bind(s.var, ZERO, own), ZERO
        else:
            x = self.bind(s.var, start, own)
            self.fault = step.constant != 1 and own
        if start == ZERO and (step.constant is None or step.constant == 1):
            table.extent(x, stop)
        self.ranges[x] = n, (x - start, stop - 1 - x)
        if own and step.constant == 1:
            self.last[x] = stop - 1


def _piece(a: Access, own: bool) -> list[tuple[int, Var, int]]:
    """Which of its elements: for a dimension the variable that counts them, and how many there are.

    A piece is part of a row, or whole rows. Where digits say that it goes on in the next row, it is not followed here.
    """
    shape, end = a.buffer.shape, a.coords[-1].interval[1]
    row = shape[-1].constant
    name = "#'" if own else "#"
    if row is not None and a.extent > row:
        if not row or a.extent % row or a.coords[-1] != ZERO or len(shape) < 2:
            raise NotSymbolic
        rows, high, room = a.extent // row, a.coords[-2].interval[1], shape[-2].constant
        if high is None or room is None or high + rows > room:
            raise NotSymbolic
        return [(-2, Var(f"{name}rows", 0, rows - 1), rows), (-1, Var(name, 0, row - 1), row)]
    inside = end is not None and row is not None and end + a.extent <= row
    if not inside and any(goes_on_in_next_row(a.coords, d, shape[d]) for d in range(1, len(shape))):
        raise NotSymbolic
    return [(-1, Var(name, 0, a.extent - 1), a.extent)]
