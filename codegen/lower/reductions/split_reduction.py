"""A reduction split over units that cannot synchronise: partial results in a workspace, combined by the next launch.

tile k: 4096 -> block by workspace

C[m, n] = sum(k) ...     -->     P[t, m, n] = sum(k in tile t) ...;   C[m, n] = sum(t) P[t, m, n]

Reductions of one pass, whose line has `online`, are split together (`split_chain`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ....dsl import syntax
from ....dsl.device import Device
from ....dsl.errors.base import Label
from ....dsl.errors.schedule import CannotMeet, NotYet
from ....dsl.index.expr import Expr, Var, as_expr
from ....dsl.op import Op, Reduction
from ....dsl.source import Span
from ....dsl.support.fast_replace import replace
from ....dsl.values import Load, Value, loads, neutral_value, rename_loads, transform
from ...ir.schedule_tree import Axis, Tile
from ...plan.computations import Computation, Output, computation_extents
from ...plan.derived_names import CombiningAccumulator, StoredCopy, tensor_of
from ...schedule.build_tree import modifier
from ..spec import ONE, Focus, Range, View
from ..workspace import workspace
from .check_combining import check_dealt_parts
from .dependent_reductions import Dependence
from .split_chain import combined_chain, with_own_values

if TYPE_CHECKING:
    from ..lower_schedule import Lowering


def tile_splits_reduction(device: Device, tile: Tile) -> bool:
    """Does this tile deal a reduction to units that combine their parts in a later launch?"""
    return _splits_reduction(device, tile.level, tile.split)


def _splits_reduction(device: Device, level: str | None, by: str | None) -> bool:
    return level is not None and (by in ("workspace", "atomic") or device.level(level).siblings == "nothing")


def splits_any_reduction(op: Op, device: Device, lines: tuple) -> bool:
    """Do the lines leave parts of a reduction to a later launch? What reads the result cannot share a launch with it then."""
    reduced = {i for s in op.statements if s.reduction is not None for i in s.reduction.indices}
    for line in lines:
        if isinstance(line, syntax.Fuse) and reduced & set(line.indices):
            reduced.add(line.name)
        if isinstance(line, syntax.Tile) and any(a.index in reduced for a in line.axes):
            by = modifier(line, "by")
            if _splits_reduction(device, line.level, by.words[0] if by else None):
                return True
    return False


def are_split_alike(focus: Focus, first: Computation, second: Computation, axes: Sequence[Axis]) -> bool:
    """Does such a tile leave parts of both computations to a later launch, or of none that has its indices? Otherwise it
    distributes parts of the one and tiles of the other."""
    having = [w for w in (first, second) if any(a.index in w.all_indices for a in axes)]
    return len({is_split_reduction(focus, w, axes) for w in having}) < 2


def is_split_reduction(focus: Focus, w: Computation, axes: Sequence[Axis]) -> bool:
    """Whether a tile of these axes, which split a reduction, leaves parts of this one to a later launch."""
    return any(a.index in w.reduced for a in axes) and w.name not in focus.open_accumulators and bool(w.outputs)


@dataclass(frozen=True)
class SplitPartials:
    """A reduction that is split, by a line at `span`: its parts go to `target`, of which `parts` are axes of their own: each is
    the name of an index and how many parts there are (none where parts are combined by atomics)."""

    span: Span | None
    target: str
    parts: tuple[tuple[str, Expr], ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.parts)

    def element(self, low: Lowering, w: Computation) -> Load:
        """What a part of `w` stores, in the indices of the parts and its own."""
        return Load(self.target, tuple(as_expr(Var(i)) for i in (*self.names, *w.indices)), low.ctx.dtypes[w.name])


@dataclass(frozen=True)
class SplitChain:
    """The reductions of a pass that a tile splits together, and what a later launch computes of their results."""

    chain: tuple[Dependence, ...]
    later: tuple[Computation, ...] = ()

    @property
    def members(self) -> dict[str, Computation]:
        return {w.name: w for d in self.chain for w in (d.statistic, d.reduction)}


def split_reduction(low: Lowering, focus: Focus, tile: Tile, axes: Sequence[Axis], counts: list[Expr], before: int) -> Focus:
    """The focus with every reduction that this tile splits storing its partial results; unchanged where it splits none.

    ONE_TARGET   where lines stand in several copies (`peel`), all copies store to one target, which is combined once.
    COMBINED_FIRST   nothing in the launch reads the result: it is there when the launch that combines it is done.
    STILL_THERE   what that launch reads is stored to the outermost memory by then.
    """
    ctx = low.ctx
    assert tile.level is not None
    check_dealt_parts(low.computations, focus, tile, axes)
    together = low.split_chains.get(tile.key, SplitChain(()))
    if not together.members.keys() <= {w.name for w in focus.computations}:  # of another nest
        together = SplitChain(())
    computations, combining = [], {}
    ranges, views, digits = dict(focus.ranges), dict(focus.views), list(focus.digits)
    for w in focus.computations:
        mine = [(n, a) for n, a in enumerate(axes) if a.index in w.reduced]
        if not tile_splits_reduction(ctx.device, tile) or not is_split_reduction(focus, w, axes):
            computations.append(w)
            continue
        assert w.reduction is not None
        _once(low, w, tile)
        _read_later(low, focus, w, tile, together)
        _there_afterwards(low, focus, w, tile)
        at = tuple(as_expr(Var(i)) for i in w.indices)
        own = Load(w.name, at, ctx.dtypes[w.name])
        known = low.split.get(w.name)
        if w.reduction.kind in ("argmax", "argmin"):
            raise NotYet(
                f"`{w.reduction.kind}` cannot be split over units without a barrier yet",
                tile.span,
                help="distribute another index here, and the reduced one over units that a barrier or a shuffle joins",
            )
        if tile.split == "atomic":
            known = known or _atomically(low, w, tile)
            subscripts = w.outputs[0].indices if known.target == w.outputs[0].tensor else w.indices
            computations.append(replace(w, outputs=(Output(known.target, subscripts, own, w.reduction.kind),)))
            for n, a in mine:
                digits[before + n] = replace(digits[before + n], index="", also=a.index)
        else:
            # reductions that are split together number their parts by the same digits
            shared = [digits[before + n].index if digits[before + n].also else None for n, _ in mine]
            if known is None:
                known = _in_parts(low, w, tile, [(a.index, counts[n]) for n, a in mine], shared)
                combining[w.name] = _finish(low, w, known)
            for (n, index), (name, _) in zip(((n, a.index) for n, a in mine), known.parts, strict=True):
                ranges[name] = Range(digits[before + n].expr, ONE)
                digits[before + n] = replace(digits[before + n], index=name, also=index)
            computations.append(replace(w, outputs=(Output(known.target, (*known.names, *w.indices), own),)))
        low.split[w.name] = known
        views[known.target] = View(known.target, "global")
    if together.chain:
        statistics = {d.statistic.name: d.statistic for d in together.chain}
        parts = {name: low.split[name].element(low, w) for name, w in statistics.items()}
        computations = with_own_values(computations, statistics, parts)
        if not together.members.keys().isdisjoint(combining):
            ctx.following_launches.append(combined_chain(ctx, together.chain, combining, together.later))
            combining = {}
    ctx.following_launches += [(w,) for w in combining.values()]
    return replace(focus, computations=tuple(computations), ranges=ranges, views=views, digits=tuple(digits))


def _once(low: Lowering, w: Computation, tile: Tile) -> None:
    """Parts of a reduction are not split again."""
    known = low.split.get(w.name)
    if known is not None and known.target in w.targets and (known.parts or w.outputs[0].atomic):
        labels = [Label(known.span, "split here already")] if known.span else []
        help = "write one tile line for all its indices"
        raise NotYet(f"`{w.result}` would be split a second time", tile.span, labels=labels, help=help)


def _read_later(low: Lowering, focus: Focus, w: Computation, tile: Tile, together: SplitChain) -> None:
    """COMBINED_FIRST. Of a chain (OWN_VALUE), those in focus read what their part has, and others come later, as do the
    write-backs of those beside it."""
    known = {w.name, *(x.name for x in together.later)}
    if w.name in together.members or (together.chain and all(x.reduction is not None for x in focus.computations)):
        known |= {x.name for x in focus.computations}
    readers = [
        x.name for x in (*low.computations, *focus.computations) if x.name not in known and not x.reads.isdisjoint(w.targets)
    ]
    if readers:
        whole = w.result
        alone = f"leave the `keep` that holds `{whole}` out: it gets a launch of its own"
        assert tile.level is not None
        meet = low.ctx.device.level(tile.level).siblings != "nothing"
        raise CannotMeet(
            f"`{tensor_of(readers[0])}` reads `{whole}` in the launch that makes parts of it, before they are combined",
            tile.span,
            help=f"leave the `by` out: units of `{tile.level}` combine their parts at once; or {alone}" if meet else alone,
        )


def _there_afterwards(low: Lowering, focus: Focus, w: Computation, tile: Tile) -> None:
    """STILL_THERE. Raises CannotMeet."""
    made = {t for x in low.computations if x.name != w.name for t in x.targets if StoredCopy(t) not in focus.views}
    reads = {ld.tensor for o in w.outputs for ld in loads(o.value)} & made
    gone = next((t for t in sorted(reads) if t in focus.views and focus.views[t].form != "global"), None)
    if gone is not None:
        raise CannotMeet(
            f"a launch that follows combines the parts of `{w.result}`, and reads `{gone}`, kept in this one only",
            tile.span,
            help=f"leave the line that keeps `{gone}` out",
        )


def _in_parts(
    low: Lowering, w: Computation, tile: Tile, counts: list[tuple[str, Expr]], names_known: list[str | None]
) -> SplitPartials:
    """Every unit stores its part to a place of its own; the launch that follows combines them.

    names_known   the index of the parts, where another reduction that the line splits has it
    """
    ctx = low.ctx
    both = zip(counts, names_known, strict=True)
    names = tuple((known or ctx.fresh(f"{index}_tile"), count) for (index, count), known in both)
    parts = ctx.fresh(w.result.lower() + "_parts")
    _workspace(low, parts, w, names)
    return SplitPartials(tile.span, parts, names)


def _atomically(low: Lowering, w: Computation, tile: Tile) -> SplitPartials:
    """Every unit adds its part to what is there; a launch before sets the identity, one after does the epilogue, if any."""
    ctx = low.ctx
    assert w.reduction is not None
    kind, dtype = w.reduction.kind, ctx.dtypes[w.name]
    if kind not in ("sum", "max", "min") or dtype.name not in ("f32", "f64", "i32", "i64"):
        raise NotYet(f"`{kind}` of {dtype} is not combined by atomics", tile.span, help="`by workspace` combines any reduction")
    at = tuple(as_expr(Var(i)) for i in w.indices)
    first = w.outputs[0]
    plain = len(w.outputs) == 1 and isinstance(first.value, Load) and ctx.dtypes[first.tensor] == dtype
    extents = computation_extents(w)
    if plain and not w.fused:
        target, subscripts = first.tensor, first.indices
    else:
        target, subscripts = ctx.fresh(w.result.lower() + "_whole"), w.indices
        shape = tuple(extents[i] for i in w.indices)
        ctx.dtypes[target], ctx.shapes[target] = dtype, shape
        ctx.buffers.append(workspace(ctx, target, dtype, shape))

        def whole(v: Value) -> Value | None:
            return Load(target, at, dtype) if isinstance(v, Load) and v.tensor == w.name else None

        ranges = tuple((i, extents[i]) for i in w.indices)
        for o in w.outputs:
            value = transform(o.value, whole)
            last = Computation(
                o.tensor, w.indices, value, None, ranges, span=o.span or w.span, fused=w.fused, subscripts=o.indices
            )
            ctx.following_launches.append((last,))
    start = tuple((i, extents[i]) for i in subscripts)
    ctx.preceding_launches.append((Computation(target, subscripts, neutral_value(kind, dtype), None, start, span=w.span),))
    return SplitPartials(tile.span, target)


def _workspace(low: Lowering, parts: str, w: Computation, names) -> None:
    ctx = low.ctx
    extents = computation_extents(w)
    shape = (*(c for _, c in names), *(extents[i] for i in w.indices))
    ctx.dtypes[parts], ctx.shapes[parts] = ctx.dtypes[w.name], shape
    ctx.buffers.append(workspace(ctx, parts, ctx.dtypes[w.name], shape))


def _finish(low: Lowering, w: Computation, parts: SplitPartials) -> Computation:
    """The work of the launch that follows: it combines, and does what was to be done with the result."""
    assert w.reduction is not None
    name = CombiningAccumulator(w.result)
    dtype = low.ctx.dtypes[w.name]
    low.ctx.dtypes[name] = dtype
    extents = computation_extents(w)
    outputs = tuple(replace(o, value=rename_loads(o.value, {w.name: name})) for o in w.outputs)
    ranges = (*((i, extents[i]) for i in w.indices), *parts.parts)
    reduction = Reduction(w.reduction.kind, parts.names)
    return Computation(name, w.indices, parts.element(low, w), reduction, ranges, outputs, w.span, w.fused)
