"""Rims: what tiles read beyond themselves of an intermediate that is made inside of each.

RIM       `keep T in MEMORY:` with a block, if only `auto`, below a tile beyond which readers read T, as a stencil does: T is
          made for each tile, as far as they read it. Neighbours make the elements at the rim again. So its indices are not
          those of the tile: each is a `RimIndex`, whose range is the hull of what is read. In the block they have their own
          names.
NO_EDGE   A rim may reach past the edge of T, where its readers have `else` values. What T would be there is computed and never
          read, so what it is made of gets `else` values there: a rim needs no guards, and has the same shape everywhere.
FILLED    `move T -> MEMORY:` of a reduction that its block keeps is such a line as well. What it stores outside of T is what
          readers have as `else` values, so instructions read it as they read a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from ....dsl.errors.schedule import NotComputed
from ....dsl.index.expr import Expr, Var, as_expr
from ....dsl.index.hull import hull
from ....dsl.support.fast_replace import replace
from ....dsl.values import Const, Load, Value, loads, transform
from ...ir.schedule_tree import Keep, Move, Node, Tile
from ...plan.computations import Computation, plain_index, rename_indices
from ...plan.derived_names import RimIndex
from ..addressing import zero_of
from ..spec import Focus, Range
from ..tiling.tile_ranges import ranges_along
from .readers import is_read_elsewhere, reads_of

if TYPE_CHECKING:
    from ..lower_schedule import Lowering


def has_rim(w: Computation) -> bool:
    """Whether each tile of its readers makes it for itself (RIM)."""
    return any(isinstance(i, RimIndex) for i in w.indices)


def with_rims(low: Lowering, focus: Focus, tile: Tile) -> Focus:
    """RIM: the focus where what lines below the tile make for it, and readers read beyond it, has indices of its own."""
    making = {t: x for x in tile.below.path() if isinstance(x, Keep | Move) and _has_block(low, x) for t in x.tensors}
    mine = {a.index for a in tile.axes}
    for w in reversed(focus.computations) if making else ():
        target, others = w.targets[0], w.targets[1:]
        if others or target not in making or w.alias or not _makes(making[target], w):
            continue
        own = w.subscripts_of(target)
        beyond: set[str] = set()
        for load in reads_of((x for x in focus.computations if x is not w), target):
            for i, e in zip(own, load.indices, strict=True):
                if isinstance(i, RimIndex):
                    continue
                depends = i in mine or any(v in mine or isinstance(v, RimIndex) for v in _names(e))
                if depends and plain_index(e) != i:
                    beyond.add(i)
        if not beyond or is_read_elsewhere(low, focus, target) or low.read_afterwards(focus, target, tile.below):
            continue
        changed = _with_own_indices(low, focus, w, beyond)
        if _is_bounded(low, changed, tile, making[target], {RimIndex(i, _number(low, w)) for i in beyond}):
            focus = changed
    return focus


def _has_block(low: Lowering, node: Keep | Move) -> bool:
    memory = node.memory or low.ctx.device.memories[-1].name
    return (node.has_block if isinstance(node, Keep) else node.block is not None) and not low.ctx.register(memory)


def _makes(node: Keep | Move, w: Computation) -> bool:
    """Whether the line's block computes it (FILLED): that of a `move` may be one of a copy."""
    if isinstance(node, Keep):
        return True
    kept = {name for x in (node.block.path() if node.block is not None else ()) if isinstance(x, Keep) for name in x.names}
    return w.reduction is not None and not kept.isdisjoint((w.name, *w.names))


def _is_bounded(low: Lowering, focus: Focus, tile: Tile, node: Keep | Move, rims: set[RimIndex]) -> bool:
    """Whether a hull of what is read along these is known where the line is."""
    ranges = next(r for x, r in ranges_along(focus.ranges, tile) if x is node)
    found = _read_ranges(low, focus, ranges, lambda i, now: now[i].whole_capacity)
    return rims <= found.keys()


def _number(low: Lowering, w: Computation) -> int:
    """Of a computation of the launch."""
    return next(n for n, x in enumerate(low.computations) if x.name == w.name)


def _names(e: Expr) -> set[str]:
    return {v.name for v in e.variables()}


def _with_own_indices(low: Lowering, focus: Focus, w: Computation, indices: set[str]) -> Focus:
    names: dict[str, str] = {i: RimIndex(i, _number(low, w)) for i in sorted(indices)}
    own, other = frozenset(names.values()), _renamed(w, names)
    outputs = tuple(replace(o, value=with_else_values(o.value, other.reads, own)) for o in other.outputs)
    other = replace(other, value=with_else_values(other.value, other.reads, own), outputs=outputs)
    computations = tuple(other if x is w else x for x in focus.computations)
    ranges = focus.ranges | {new: focus.ranges[old] for old, new in names.items()}
    return replace(focus, computations=computations, ranges=ranges)


def _renamed(w: Computation, names: Mapping[str, str]) -> Computation:
    values = {old: as_expr(Var(new)) for old, new in names.items()}

    def new(indices: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(names.get(i, i) for i in indices)

    return replace(
        w,
        indices=new(w.indices),
        subscripts=new(w.subscripts),
        value=rename_indices(w.value, values),
        extents=tuple((names.get(i, i), e) for i, e in w.extents),
        outputs=tuple(replace(o, indices=new(o.indices), value=rename_indices(o.value, values)) for o in w.outputs),
    )


def with_else_values(value: Value, tensors: Collection[str], indices: frozenset[str]) -> Value:
    """NO_EDGE: the value, which may be computed where these indices are outside of their ranges, and reads these tensors."""
    given = {ld.tensor: ld.otherwise for ld in loads(value) if ld.otherwise is not None}

    def padded(n: Value) -> Value | None:
        if not isinstance(n, Load) or n.otherwise is not None or n.tensor not in tensors:
            return None
        at_rim = any(v.name in indices for e in n.indices for v in e.variables())
        return replace(n, otherwise=given.get(n.tensor) or zero_of(n.dtype)) if at_rim else None

    return transform(value, padded)


def value_outside(readers: Focus, w: Computation) -> Const | None:
    """FILLED: what all readers read where a rim is outside of the tensor, zero where none reads it there. None where they
    do not agree, or read other elements than their own along axes without a rim."""
    own, read = w.subscripts_of(w.targets[0]), reads_of(readers.computations, w.targets[0])
    if any(plain_index(e) != i for ld in read for i, e in zip(own, ld.indices, strict=True) if not isinstance(i, RimIndex)):
        return None
    first, *others = {ld.otherwise for ld in read if ld.otherwise is not None} or {zero_of(read[0].dtype)}
    return first if not others and isinstance(first, Const) else None


# ---------------------------------------------------------------- ranges


def with_rim_ranges(low: Lowering, focus: Focus, node: Node) -> Focus:
    """The focus where the range of each `RimIndex` is what the node, and those below it, read."""
    if not any(map(has_rim, focus.computations)):
        return focus
    found = _read_ranges(low, focus, focus.ranges, lambda i, now: low.footprint(replace(focus, ranges=now), i, node))
    return replace(focus, ranges=focus.ranges | found)


def _read_ranges(
    low: Lowering, focus: Focus, ranges: Mapping[str, Range], extent: Callable[[str, dict[str, Range]], int | None]
) -> dict[str, Range]:
    """The hull of what is read along each `RimIndex`, where it is known: not so where indices of readers are not tiled yet."""
    now, found = dict(ranges), {}
    for w in reversed(focus.computations):  # what a rim is made of has a rim around that
        rims = [(n, i) for n, i in enumerate(w.subscripts_of(w.targets[0])) if isinstance(i, RimIndex)]
        loads = reads_of((x for x in focus.computations if x is not w), w.targets[0]) if rims else []
        if rims and not loads:
            raise _apart(w.targets[0])
        for axis, i in rims:
            r = _hull_of([ld.indices[axis] for ld in loads], low, now, extent)
            if r is not None:
                now[i] = found[i] = r
    return found


def _hull_of(
    subscripts: list[Expr], low: Lowering, ranges: dict[str, Range], extent: Callable[[str, dict[str, Range]], int | None]
) -> Range | None:
    indices = {i for e in subscripts for i in _names(e)} - low.ctx.size_names
    if any(i not in ranges or ranges[i].whole_capacity is None for i in indices):
        return None
    tile = {i: (ranges[i].base, (extent(i, ranges) or 1) - 1) for i in indices}
    hulls = [h for e in subscripts if (h := hull(e, tile)) is not None]
    if not hulls or len(hulls) < len(subscripts):
        return None
    first = hulls[0][0]
    lows = [(origin - first).constant for origin, _ in hulls]
    highs = [(origin + span - first).constant for origin, span in hulls]
    known = [x for x in (*lows, *highs) if x is not None]
    if len(known) < 2 * len(hulls):
        return None
    return Range(first + min(known), as_expr(max(known) - min(known) + 1))


def growing_distance(subscripts: Sequence[Expr], indices: Collection[str]) -> tuple[Expr, Expr, str] | None:
    """Two of the subscripts whose distance depends on one of the indices, and that one: no tile has a hull of constant extent
    around both. None where distances are the same everywhere."""
    for e in subscripts[1:]:
        index = next((i for i in sorted(_names(e - subscripts[0])) if i in indices), None)
        if index is not None:
            return subscripts[0], e, index
    return None


def check_one_nest(low: Lowering, focus: Focus, w: Computation, below: Node) -> None:
    """Raises NotComputed where what each tile makes for itself is read by others than those in focus."""
    target = w.targets[0]
    if has_rim(w) and (is_read_elsewhere(low, focus, target) or low.read_afterwards(focus, target, below)):
        raise _apart(target)


def _apart(tensor: str) -> NotComputed:
    return NotComputed(
        f"`{tensor}` is made for each tile of what reads it, and the lines below compute the two apart",
        help=f"keep each intermediate between `{tensor}` and the result with a block of its own, below the same tiles",
    )


def in_own_names(w: Computation, ranges: Mapping[str, Range]) -> tuple[Computation, dict[str, Range]]:
    """The computation as the lines of its block name its indices, and their ranges."""
    names: dict[str, str] = {i: i.of for i in w.indices if isinstance(i, RimIndex)}
    return _renamed(w, names), {names.get(i, i): ranges[i] for i in w.all_indices if i in ranges}
