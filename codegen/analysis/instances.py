"""Small sizes at which a program is executed to check it: odd ones, 1, 0, sizes that tiles do not divide, the ends of bounds.

The tile sizes are read off the program: the steps of loops and the quotients in the numbers of units. Nothing depends on their
being right: other sizes would be as valid, and find fewer faults.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ...dsl.index.expr import Expr, Fn, as_expr
from ...dsl.op import Op, Statement
from ...dsl.support.cached import cached_property
from ..abi import programs
from ..ir.program import Program
from ..ir.tile_ir import Alloc, For, If, Launch, Let, Stmt
from ..ir.tile_visitors import statements

# elements: of open sizes, small odd numbers [estimate; test_the_first_sizes_are_small_odd_numbers]
_ODD = (3, 5, 7, 2, 3, 5, 2, 3)
_LARGEST = 1 << 17  # elements: the largest size of an instance [limit]
_SMALL = 40  # elements: the largest of a small size [estimate; test_more_than_a_tile_if_that_is_small]
_LARGEST_TILE = 1 << 12  # elements: the largest tile of which more than one is looked at without a search [limit]
_EXTENTS = 48  # extents: of a program that are considered [limit]
_ROUNDS = 8  # rounds: of correcting sizes that the op excludes [limit]

Sizes = dict[str, int]


@dataclass(frozen=True)
class Instance:
    """`sizes` of the op's dims; how many units of each finite level take part; where arguments begin, in bytes, where not
    aligned. `why`: what these sizes are there for."""

    why: str
    sizes: Mapping[str, int]
    finite: Mapping[str, int] = field(default_factory=dict)
    addresses: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        said = [f"{n}={x}" for n, x in self.sizes.items()]
        said += [f"{x} {level}{'' if x == 1 else 's'}" for level, x in self.finite.items()]
        return ", ".join(said + ["arguments not aligned"] * bool(self.addresses)) or "its fixed sizes"


def instances(program: Program, op: Op) -> list[Instance]:
    """Those that tell most first. Sizes that the op excludes are left out.

    op   with numbers for its parameters; sizes that are fixed are no dims any more
    """
    names = [v.name for v in op.dims]
    most = {level: program.device.level(level).most or 3 for level, _ in program.finite}
    several, two, alone = ({level: min(n, m) for level, m in most.items() if m > 1} for n in (3, 2, 1))
    fit = _InstanceSearch(program, op, several)
    found: dict[tuple, Instance] = {}

    def add(
        why: str, sizes: Sizes | None, units: Mapping[str, int] = several, addresses: Mapping[str, int] | None = None
    ) -> None:
        if sizes is not None and fit.holds(sizes, units):
            key = (*sizes.values(), *units.items(), bool(addresses))
            found.setdefault(key, Instance(why, sizes, units, addresses or {}))

    even = fit.mended(dict.fromkeys(names, 16 if len(names) < 4 else 4))
    base = fit.mended({n: _ODD[i % len(_ODD)] for i, n in enumerate(names)}) or even
    add("odd sizes", base)
    add("ones", fit.mended(dict.fromkeys(names, 1)))
    if base is None:
        return list(found.values())
    for n in names:
        add(f"{n} is 0", {**base, n: 0})
    beyond = fit.mended({n: fit.first(n, base) for n in names})
    add("more than a tile of each", beyond)
    add("powers of two", even)
    for n in names:
        for size in fit.ends(n):
            add(f"a bound of {n}", fit.mended({**base, n: size}))
    if any(p.needs is not None and p.needs.aligned for p in programs(program)):
        # An element beyond a multiple of whatever is asked for, which holds where an element is as large as that.
        apart = {b.name: b.dtype.bytes for b in program.buffers if b.kind in ("input", "output")}
        add("arguments that are not aligned", beyond, several, apart)
        add("arguments that are not aligned", even, several, apart)
    add("two units of each finite level", base, two)
    add("one unit of each finite level", beyond, alone)
    cut = {n: fit.pieces(n, base) for n in names}
    for rank in range(max(map(len, cut.values()), default=0)):
        for n, pieces in cut.items():
            for why, size in pieces[rank] if rank < len(pieces) else ():
                add(f"{n}: {why}", fit.mended({**base, n: size}))
    return list(found.values())


def few_instances(program: Program, op: Op) -> Iterator[Instance]:
    """Three at most, which take no search: small odd sizes, a little more than the smallest tiles, more than the largest."""
    names = [v.name for v in op.dims]
    units = _units_of(program)
    fit = _InstanceSearch(program, op, units)
    base = fit.mended({n: _ODD[i % len(_ODD)] for i, n in enumerate(names)})
    if base is None:
        base = fit.mended(dict.fromkeys(names, 16 if len(names) < 4 else 4))
    if base is None:
        return
    yield Instance("odd sizes", base, units)
    if not names:
        return
    tiles = _stated_tiles(program, names)
    small = {n: min((x + 1 for x in tiles[n] if base[n] < x + 1 <= _SMALL), default=base[n]) for n in names}
    large = {n: max((x + 1 for x in tiles[n]), default=small[n]) for n in names}
    last = base
    for why, wanted in (("more than a tile of each", small), ("more than the largest tile of each", large)):
        sizes = dict(base)
        for n in names:  # one by one, where the op takes it
            if fit.holds({**sizes, n: wanted[n]}, units):
                sizes[n] = wanted[n]
        if sizes != last:
            yield Instance(why, sizes, units)
            last = sizes


def instances_size_by_size(program: Program, op: Op) -> list[Instance]:
    """For where `few_instances` are too large: all sizes as small as the op takes, then each above its tiles by itself.

    What is reduced comes first, and the smallest tiles of all sizes before the largest.
    """
    reduced = {n for s in op.statements if s.reduction is not None for n in _reduced_sizes(s)}
    names = [v.name for v in op.dims]
    units = _units_of(program)
    fit = _InstanceSearch(program, op, units)
    least = fit.mended(dict.fromkeys(names, 1))
    if least is None:
        return []
    tiles = _stated_tiles(program, names)
    out = [Instance("sizes as small as may be", least, units)]
    for choose in (min, max):
        for n in sorted(names, key=lambda n: n not in reduced):
            wanted = choose((x + 1 for x in tiles[n] if x + 1 > max(least[n], 2)), default=least[n])
            sizes = fit.mended({**least, n: wanted})
            if sizes is not None and all(sizes != x.sizes for x in out):
                out.append(Instance(f"more than a tile of {n}", sizes, units))
    return out


def _reduced_sizes(s: Statement) -> set[str]:
    """The sizes that the extents of the reduced indices depend on, as they are stated."""
    assert s.reduction is not None
    return {v.name for i, e in s.ranges if i in s.reduction.indices for v in e.variables()}


def _units_of(program: Program) -> dict[str, int]:
    """Three of each finite level that has as many, and is one of several."""
    most = {level: min(3, program.device.level(level).most or 3) for level, _ in program.finite}
    return {level: n for level, n in most.items() if n > 1}


def _stated_tiles(program: Program, names: Iterable[str]) -> dict[str, set[int]]:
    """The lengths of the tiles that each size is cut into, as they are stated."""
    tiles: dict[str, set[int]] = {n: set() for n in names}
    for extent, piece in _stated_quotients(program):
        for v in extent.variables():
            if v.name in tiles and piece <= _LARGEST_TILE:
                tiles[v.name].add(piece)
    return tiles


def _stated_quotients(program: Program) -> Iterator[tuple[Expr, int]]:
    """What the numbers of units and the ends of loops divide, as they are stated."""
    for launch in program.launches:
        for e in (*(u.count for u in launch.units), *(s.stop for s in statements(launch.body) if isinstance(s, For))):
            yield from _quotients(e)


def derived_sizes(program: Program, op: Op, sizes: Mapping[str, int], units: Mapping[str, int]) -> Sizes:
    """Sizes with those derived from them, and the numbers of units."""
    known = dict(sizes)
    for level, var in program.finite:
        known[var.name] = units.get(level, 1)
    return program.with_derived(op.all_sizes(known))


@dataclass
class _InstanceSearch:
    """What sizes the op and the program take."""

    program: Program
    op: Op
    units: Mapping[str, int]

    def __post_init__(self) -> None:
        declared = {v.name: v for v in self.program.dims}
        self.bounds = {v.name: declared.get(v.name, v).interval for v in self.op.dims}

    @cached_property
    def extents(self) -> list[tuple[Expr, int]]:
        return _extents(self.program)

    def excluded(self, sizes: Mapping[str, int], units: Mapping[str, int]) -> Expr | None:
        """An expression that is negative, and must not be."""
        known = derived_sizes(self.program, self.op, sizes, units)
        derived = next((e for v, e in self.op.derived if known[v.name] < 0), None)
        conditions = (c for c, _ in (*self.op.conditions, *self.program.conditions))
        return derived or next((c for c in conditions if c.evaluate(known) < 0), None)

    def holds(self, sizes: Mapping[str, int], units: Mapping[str, int]) -> bool:
        for n, (low, high) in self.bounds.items():
            if sizes[n] < (low or 0) or (high is not None and sizes[n] > high):
                return False
        try:
            return self.excluded(sizes, units) is None
        except ZeroDivisionError:
            return False

    def mended(self, sizes: Mapping[str, int]) -> Sizes | None:
        """Within their bounds, some of them raised or lowered until the op takes them; None where that is not found."""
        now: Sizes = {}
        for n, x in sizes.items():
            low, high = self.bounds[n]
            now[n] = min(max(x, low or 0), x if high is None else max(high, low or 0))
        for _ in range(_ROUNDS):
            try:
                wrong = self.excluded(now, self.units)
            except ZeroDivisionError:
                return None
            if wrong is None:
                return now if self.holds(now, self.units) else None
            better = next(self._better(now, wrong), None)
            if better is None:
                return None
            now = better
        return None

    def _better(self, sizes: Sizes, wrong: Expr) -> Iterator[Sizes]:
        """With one size changed so that the expression is not negative: the least above it, else the greatest below."""

        def at(n: str) -> Callable[[int], int]:
            return lambda x: self._value(wrong, {**sizes, n: x})

        for n in sizes:
            high = self.bounds[n][1]
            x = _least(at(n), sizes[n], 0, _LARGEST if high is None else high)
            if x is not None:
                yield {**sizes, n: x}
        for n in sizes:
            x = next((x for x in range(sizes[n] - 1, (self.bounds[n][0] or 0) - 1, -1) if at(n)(x) >= 0), None)
            if x is not None:
                yield {**sizes, n: x}

    def _value(self, e: Expr, sizes: Mapping[str, int]) -> int:
        try:
            known = derived_sizes(self.program, self.op, sizes, self.units)
            for v in e.variables():
                known.setdefault(v.name, v.lo or 0)
            return int(e.evaluate(known))
        except ZeroDivisionError:
            return -1

    def pieces(self, n: str, base: Sizes) -> list[list[tuple[str, int]]]:
        """For the lengths of pieces that this size is cut into, the shortest first: larger sizes, and what each is."""
        out: dict[int, dict[str, int]] = {}
        high = self.bounds[n][1]
        for extent, piece in self.extents:
            if n not in self._sizes_in(extent):
                continue
            wanted = (("one more than tiles", piece + 1), ("several tiles", 3 * piece + 1), ("a whole tile", piece))
            for why, least in wanted:
                x = _least(lambda x, e=extent: self._value(e, {**base, n: x}), 1, least, _LARGEST if high is None else high)
                if x is not None and x > base[n]:
                    mine = out.setdefault(piece, {})
                    mine[why] = min(x, mine.get(why, x))
        found = [sorted(mine.items(), key=lambda x: x[1]) for _, mine in sorted(out.items())]
        return found if len(found) < 4 else [*found[:2], *found[-2:]]

    def _sizes_in(self, e: Expr) -> set[str]:
        """The dims that an expression depends on, through derived sizes too."""
        out, defined = {v.name for v in e.variables()}, {v.name: x for v, x in (*self.op.derived, *self.program.lets)}
        while inner := {v.name for n in out & defined.keys() for v in defined[n].variables()} - out:
            out |= inner
        return out

    def first(self, n: str, base: Sizes) -> int:
        """A size a little larger than the smallest piece, if that is small."""
        least = (x for found in self.pieces(n, base) for why, x in found if why.startswith("one more"))
        return next((x for x in least if x <= _SMALL), base[n])

    def ends(self, n: str) -> list[int]:
        low, high = self.bounds[n]
        return [x for x in (low, high, None if high is None else high - 1) if x is not None and 0 < x <= _LARGEST]


def _least(f: Callable[[int], int], start: int, wanted: int, limit: int) -> int | None:
    """The least x from start on where f, which grows, reaches what is wanted."""
    low, high = start, start
    while f(high) < wanted:
        if high >= limit:
            return None
        low, high = high + 1, min(2 * high + 1, limit)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if f(middle) >= wanted else (middle + 1, high)
    return low


def _extents(program: Program) -> list[tuple[Expr, int]]:
    """What the program cuts into pieces, as an expression over its sizes, and the length of a piece."""
    found: dict[tuple[Expr, int], None] = {}
    for p in programs(program):
        for launch in p.launches:
            for e, piece in _of_launch(launch):
                if e.constant is None:
                    found.setdefault((e, piece))
    return list(found)[:_EXTENTS]


def _of_launch(launch: Launch) -> Iterator[tuple[Expr, int]]:
    known = {u.var: as_expr(0) for u in launch.units}
    for u in launch.units:
        yield from _quotients(u.count)
    yield from _of_body(launch.body, known)


def _of_body(body: tuple[Stmt, ...], known: dict) -> Iterator[tuple[Expr, int]]:
    """`known`: variables as expressions over sizes, each in its first iteration and for the first unit."""
    known = dict(known)
    for s in body:
        match s:
            case Let():
                known[s.var] = s.value.subs(known)
            case For():
                start, stop = s.start.subs(known), s.stop.subs(known)
                step = s.step.subs(known).constant
                yield stop - start, step or 1
                yield from _quotients(stop)
                yield from _of_body(s.body, {**known, s.var: start})
            case Alloc():
                yield from _of_body(s.body, known)
            case If():
                yield from _of_body((*s.body, *s.orelse), known)


def _quotients(e: Expr) -> Iterator[tuple[Expr, int]]:
    """What is divided by a number, in an expression."""
    for atom, _ in e.terms:
        if isinstance(atom, Fn):
            if atom.kind == "div" and (piece := atom.args[1].constant) is not None:
                yield atom.args[0] - (piece - 1), piece
            for a in atom.args:
                yield from _quotients(a)
