"""The tree by which the elements of a tensor in registers are visited, and the fragment in which they lie there.

OWNER_WRITES   initialisation, body and write-back visit registers by the same tiles and the same fragment.
INHERITED      what no instruction computes lies as what it reads: `p = exp(s - m)` as the instruction laid out `s`, and the
               accumulator of `max(t) s` as `s` without `t`.
OF_ITS_BLOCK   an operand lies as the instruction reads it that computes its reader, also where another one below could read it.
ORIENTED       an instruction may compute a product or its transposed. What a block computes in registers, and the product that
               reads it, are computed so that the one's result is the other's operand as it lies, where one way is so; of
               such ways one in which the rows of both results lie alike.
IN_ORDER       where no result is an operand as it lies, the second product may take its terms in an order in which one is
               (`fit_in_order`).
ALIKE          products that are combined element by element, as the sum of two, are computed the way round in which the
               results of all lie alike.
ROWS_ALIKE     where none is in any order, what is computed goes through a memory. What there is of each row in registers, as
               maxima and sums, serves both products if rows of both results lie alike. Of such ways one is taken in which a
               lane has the fewest rows: most of a row's elements are its own, so that units exchange little.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING

from ....dsl.support.fast_replace import replace
from ....dsl.values import Load, Value, loads
from ...ir.schedule_tree import FragmentLeaf, Keep, Leaf, Materialise, Node, Step, Tile, fragment_of
from ...plan.computations import Computation
from ..spec import View
from .fit_in_order import fitting_order
from .fragment_fit import is_read_as_it_lies, projected, same_fragment
from .match_instr import FragmentMap, InstrMatch, all_matches, fragment_map
from .term_order import TermOrder

if TYPE_CHECKING:
    from ..lower_schedule import Lowering


def owner_tree(
    low: Lowering, node: Node, computation: Computation, operand_of: str | None = None, readers: tuple[Computation, ...] = ()
) -> Node:
    """The nodes that spread a tensor over units and registers: tiles of its indices, and all tiles onto units.

    The leaf becomes a `FragmentLeaf` when an instruction lays the tensor out: as its target, or as its operand `operand_of`, of
    one of the `readers`, whose indices may be others in a block, or of another computation of the launch.
    """
    if operand_of is None:
        found = fragment_below(low, node, computation)
        inherited = projected(found, frozenset(computation.indices)) if found is not None else None
        return _owner_tree(low, node, (computation,), None, inherited)
    users = (*readers, *low.computations)
    leaf = _leaf_of_block(node, users, operand_of)
    fragment = _fragment(low, leaf, users, operand_of) if leaf is not None else None
    return _owner_tree(low, node, users if fragment is None else (), operand_of, fragment)


def _leaf_of_block(node: Node, users: tuple[Computation, ...], operand: str) -> Leaf | None:
    """OF_ITS_BLOCK: the leaf of the block of a line below that makes what reads the operand."""
    made = {t for w in users if operand in w.reads for t in w.targets}
    blocks = (x.block for x in node.path() if isinstance(x, Keep) and x.block is not None and not made.isdisjoint(x.names))
    return next((b.leaf for b in blocks if isinstance(b.leaf, Leaf)), None)


def _owner_tree(
    low: Lowering, node: Node, users: tuple[Computation, ...], operand_of: str | None, inherited: FragmentMap | None
) -> Node:
    match node:
        case Tile(level=None):
            # axes that the tensor lacks are not visited, but say how much of them the units below share out
            below = _owner_tree(low, node.below, users, operand_of, inherited)
            return Tile(axes=node.axes, line=node.line, key=node.key, below=below)
        case Tile():
            return node.but(online=False, below=_owner_tree(low, node.below, users, operand_of, inherited))
        case Leaf():
            fragment = _fragment(low, node, users, operand_of) or inherited
            return Leaf() if fragment is None else FragmentLeaf(fragment=fragment)
        case FragmentLeaf():
            return node
        case Step():
            return _owner_tree(low, node.below, users, operand_of, inherited)
    return Leaf()


def _fragment(low: Lowering, leaf: Leaf, users: tuple[Computation, ...], operand_of: str | None) -> FragmentMap | None:
    if leaf.instr is None:
        return None
    for w in users:
        m = low.find_instr(leaf.instr, w, leaf.span, must=False)
        if m is None:
            continue
        if operand_of is None:
            target = m.instr.operand(m.instr.statement.target)
            return fragment_map(m, target.name) if low.ctx.register(target.memory) else None
        for name, value in m.operands:
            if isinstance(value, Load) and value.tensor == operand_of and low.ctx.register(m.instr.operand(name).memory):
                return fragment_map(m, name)
    return None


def fragment_below(low: Lowering, node: Node, computation: Computation) -> FragmentMap | None:
    """INHERITED: the fragment of what the computation reads and a line below computes in registers, by a block of its own."""
    innermost = low.ctx.device.memories[-1].name
    blocks = [x for x in node.path() if isinstance(x, Keep) and x.block is not None and low.ctx.register(x.memory or innermost)]
    read = _reads(low, computation) if blocks else set()
    for x in blocks:
        maker = next(
            (w for w in low.computations if not read.isdisjoint(w.targets) and not {*x.names}.isdisjoint(w.targets)), None
        )
        if maker is not None and x.block is not None and isinstance(x.block.leaf, Leaf):
            return _fragment(low, x.block.leaf, (maker,), None)
    return None


def _reads(low: Lowering, computation: Computation) -> set[str]:
    """What it reads of the launch's computations, seen through pointwise ones."""
    made = {t: w for w in low.computations if w.reduction is None for t in w.targets}
    read = set(computation.reads)
    todo = list(read)
    while todo:
        w = made.get(todo.pop())
        todo += [t for t in w.reads if t not in read] if w is not None else []
        read |= w.reads if w is not None else set()
    return read


def oriented(low: Lowering, tree: Node) -> dict[str, InstrMatch]:
    """ORIENTED, IN_ORDER: of computations by name, how their instruction computes them."""
    blocks = list(_products_in_registers(low, tree))
    for x, maker, made in blocks:
        readers = (w for w in low.computations if w is not maker and not _reads(low, w).isdisjoint(maker.targets))
        for w in (w for w in readers if w.reduction is not None):
            ways, elsewhere = _ways(low, x.below.leaf, w), _in_memories(low, x.below)
            pairs = passing_pairs(low.ctx.register, low.computations, maker, made, ways, low.finest.get, elsewhere)
            if not pairs and elsewhere and _has_statistics(low, maker):
                pairs = pairs_with_rows_alike(low.ctx.register, made, ways)
            if pairs:
                a, b = max(pairs, key=lambda p: (same_rows(*p), -sum(_beyond(low, m) for m in p), p[0].score + p[1].score))
                return {maker.name: a, w.name: b, **_alike(blocks, maker, a)}
    return {}


def _products_in_registers(low: Lowering, tree: Node) -> Iterator[tuple[Keep, Computation, list[InstrMatch]]]:
    """Lines whose blocks compute reductions in registers, and the ways to do that by their instruction."""
    innermost = low.ctx.device.memories[-1].name
    for x in tree.path():
        if isinstance(x, Keep) and x.block is not None and low.ctx.register(x.memory or innermost):
            made = (w for w in low.computations if w.reduction is not None and not {*x.names}.isdisjoint(w.targets))
            if (maker := next(made, None)) is not None:
                yield x, maker, _ways(low, x.block.leaf, maker)


def _alike(
    blocks: Iterable[tuple[Keep, Computation, list[InstrMatch]]], maker: Computation, way: InstrMatch
) -> dict[str, InstrMatch]:
    """ALIKE: of the other blocks, how they compute what has the indices of the maker."""
    others = ((w, ways_alike(made, way)) for _, w, made in blocks if w is not maker and {*w.indices} == {*maker.indices})
    return {w.name: max(ways, key=lambda m: m.score) for w, ways in others if ways}


def ways_alike(ways: Iterable[InstrMatch], way: InstrMatch) -> list[InstrMatch]:
    """Those whose result lies as that of another one."""
    lies = fragment_map(way, way.instr.statement.target)
    return [m for m in ways if same_fragment(fragment_map(m, m.instr.statement.target), lies)]


def _has_statistics(low: Lowering, maker: Computation) -> bool:
    """Does another reduction of the launch, for each row, read what is computed?"""
    own = {*maker.indices}
    others = (w for w in low.computations if w is not maker and w.reduction is not None and set(w.indices) < own)
    return any(not _reads(low, w).isdisjoint(maker.targets) for w in others)


def _in_memories(low: Lowering, node: Node) -> frozenset[str]:
    """The tensors that the node or one below holds in a memory, from which they are read in any order."""
    lines = [x for x in node.path() if isinstance(x, Materialise) and x.memory is not None and not low.ctx.register(x.memory)]
    return frozenset(t for x in lines for t in x.tensors)


def _ways(low: Lowering, leaf: Node, w: Computation) -> list[InstrMatch]:
    named = low.ctx.device.instrs_named(leaf.instr) if isinstance(leaf, Leaf) and leaf.instr is not None else ()
    return [m for i in named for m in all_matches(i, w)]


def passing_pairs(
    register: Callable[[str], bool],
    computations: Iterable[Computation],
    maker: Computation,
    made: Sequence[InstrMatch],
    ways: Sequence[InstrMatch],
    most: Callable[[str], int | None] = lambda _: None,
    elsewhere: frozenset[str] = frozenset(),
) -> list[tuple[InstrMatch, InstrMatch]]:
    """The pairs in which the result of the first is an operand of the second, as it lies; else IN_ORDER.

    register   is a memory registers?
    most       how many terms along an index an order may be of
    elsewhere  what is in memories between the two: for what is read there no order is looked for
    """
    pointwise = {t: w for w in computations if w.reduction is None for t in w.targets}

    def reads(v: Value, through: Mapping[str, Computation]) -> bool:
        return any(
            ld.tensor in maker.targets or (ld.tensor in through and reads(through[ld.tensor].value, through)) for ld in loads(v)
        )

    def operands(m: InstrMatch, through: Mapping[str, Computation]) -> list[FragmentMap]:
        """Those in registers that have the result, or what is computed of its elements."""
        names = [name for name, value in m.operands if register(m.instr.operand(name).memory) and reads(value, through)]
        return [fragment_map(m, name) for name in names]

    targets = [(a, a.instr.statement.target) for a in made]
    results = [(a, fragment_map(a, target)) for a, target in targets if register(a.instr.operand(target).memory)]
    read = [(b, operands(b, pointwise)) for b in ways]
    if lying := [(a, b) for a, held in results for b, fs in read if any(is_read_as_it_lies(held, f) for f in fs)]:
        return lying
    through = {t: w for t, w in pointwise.items() if elsewhere.isdisjoint(w.names)}
    free = [(b, operands(b, through), _reordered(register, b)) for b in ways]
    orders = ((a, b, _order(held, fs, indices, most)) for a, held in results for b, fs, indices in free)
    return [(a, replace(b, order=order)) for a, b, order in orders if order is not None]


def _reordered(register: Callable[[str], bool], m: InstrMatch) -> frozenset[str]:
    """IN_ORDER. Reduced indices whose operands are all in registers, where elements may be in any order."""
    s = m.instr.statement
    reduced = {i for x, i in m.index if s.reduction is not None and x in s.reduction.indices}
    elsewhere = [fragment_map(m, name) for name, _ in m.operands if not register(m.instr.operand(name).memory)]
    return frozenset(i for i in reduced if not any(f.of(i) for f in elsewhere))


def _order(
    held: FragmentMap, read: Iterable[FragmentMap], indices: frozenset[str], most: Callable[[str], int | None]
) -> TermOrder | None:
    """IN_ORDER. Of terms along the first of these indices that is held, for the first operand that has one."""
    i = next((i for i, _, _ in held.maps if i in indices), None)
    if i is None:
        return None
    orders = (order for f in read if (order := fitting_order(held, f, i)) is not None)
    return next((order for order in orders if order.span <= (most(i) or order.span)), None)


def _beyond(low: Lowering, m: InstrMatch) -> int:
    """Indices of which the instruction takes more at once than a tile has."""
    return sum(low.finest.get(i, m.extent(i)) < m.extent(i) for _, i in m.index)


def same_rows(made: InstrMatch, m: InstrMatch) -> bool:
    """Whether what there is of each row, as maxima and sums, is where the rows of the second result are."""
    rows = _rows(made, m)
    return rows is not None and is_read_as_it_lies(rows, fragment_map(m, m.instr.statement.target))


def _rows(made: InstrMatch, m: InstrMatch) -> FragmentMap | None:
    """How the rows of the first result lie: its indices that the second has as well."""
    held, result = (fragment_map(x, x.instr.statement.target) for x in (made, m))
    return projected(held, frozenset(i for i, _, _ in held.maps if result.of(i)))


def pairs_with_rows_alike(
    register: Callable[[str], bool], made: Sequence[InstrMatch], ways: Sequence[InstrMatch]
) -> list[tuple[InstrMatch, InstrMatch]]:
    """ROWS_ALIKE: the pairs, of ways to compute the first product and the second."""
    held = [m for m in made if register(m.instr.operand(m.instr.statement.target).memory)]
    found = [(rows.registers, (a, b)) for a, b in product(held, ways) if same_rows(a, b) and (rows := _rows(a, b)) is not None]
    return [pair for count, pair in found if count == min(n for n, _ in found)]


def fragment_here(views: Mapping[str, View], computation: Computation) -> FragmentMap | None:
    """INHERITED: how the elements that a computation visits lie, by what units have in registers."""
    own = fragment_of(views[computation.name].owner) if computation.name in views else None
    if computation.reduction is None and own is not None:
        return own
    known = frozenset(computation.all_indices)
    found = [fragment_of(views[t].owner) for t in sorted(computation.reads) if t in views and views[t].form == "path"]
    fitting = [f for f in found if f is not None and known.issuperset(i for i, _, _ in f.maps)]
    return max(fitting, key=lambda f: len(f.maps), default=own)
