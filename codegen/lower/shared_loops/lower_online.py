"""`tile ... online`: reductions over one index share its loop, and those that read another one's running value are corrected.

ONE_PASS      a statistic, those that depend on it, and what they read of each tile have one loop; all else has nests before it
              and after it, as without the word.
BESIDE        so have other reductions over the index that are open around it, or that the tile splits.
OPEN_ABOVE    the accumulators of all of them are open around the loop.
RUNNING_ONLY  what a tile computes from a running value is read in this tile alone: it is no output, and no other nest reads it.
LEAST_ONLINE  each iteration multiplies by a rounded factor, and error bounds count one for so many elements.
OWN_PARTS     units that have parts of the index have running values of their own. They do not wait for each other in the loop.
COMBINED_IN_TURN  lanes that have parts of a statistic, as a fragment lays them out, combine them in each iteration if an
              instruction computes what follows: it adds over lanes, so these need one running value.
COMBINED_AND_CORRECTED   where the accumulator of a statistic closes, units combine its values. Each then corrects its partial
              results, from its own value to the common one. So they combine these as sums of others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import TYPE_CHECKING

from ....dsl.errors.online import OnlineMismatch
from ....dsl.errors.schedule import BadTileSize, CannotMeet, NotComputed, NotYet, UnboundedTile
from ....dsl.semantics.error_bounds import LEAST_ONLINE
from ....dsl.source import Span
from ....dsl.support.fast_replace import replace
from ....dsl.values import Load, Part, Value, loads, transform
from ...ir.printer import show_value
from ...ir.schedule_tree import Fuse, Keep, Leaf, Node, Tile, fragment_of
from ...ir.tile_ir import Stmt
from ...ir.tile_visitors import with_buffers
from ...plan.computations import Computation
from ...plan.derived_names import PreviousValue, buffer_name, result_of, tensor_of
from ...schedule.build_tree import modifier_span
from ..leaves.fragment_fit import Digits, parts_over_lanes
from ..leaves.instr_leaf import register_buffer
from ..leaves.owner_tree import fragment_below, owner_tree
from ..lower_keep import lower_reduction
from ..reductions.accumulator_computations import RunningUpdate
from ..reductions.dependent_reductions import APART, Dependence, dependences, readers_of
from ..reductions.open_accumulators import accumulates_at_leaf
from ..reductions.split_reduction import tile_splits_reduction
from ..spec import Focus, View, clamped
from .running_values import Registers, at_the_end, iteration, update

if TYPE_CHECKING:
    from ..lower_schedule import Lowering


def online_chain(low: Lowering, focus: Focus, tile: Tile) -> tuple[Dependence, ...]:
    """The reductions that depend on each other's running values in this tile; none where it is a tile like others."""
    if not tile.online or not tile.axes or tile.axes[0].index not in focus.ranges:
        return ()
    (axis,) = tile.axes
    span = modifier_span(tile, "online")
    if any(isinstance(w, RunningUpdate) for w in focus.computations):
        raise OnlineMismatch(
            "an online tile stands above, and a pass has one loop", span, help="write `online` on one of the two lines"
        )
    chain = dependences(focus, axis.index, span)
    _check_own_statistics(low, focus, chain, span)
    if not chain:
        return ()
    low.ctx.online.add(tile.key)
    size = clamped(focus.ranges[axis.index], axis.size)
    extent = focus.ranges[axis.index].size
    splits = tile_splits_reduction(low.ctx.device, tile)
    if (tile.level is None or splits) and size < LEAST_ONLINE and (extent.constant is None or extent.constant > size):
        raise BadTileSize(
            f"an online tile has {LEAST_ONLINE} elements or more, not {size}", span, help=f"`{axis.index}: {LEAST_ONLINE}`, say"
        )
    _check_units(low, focus, tile, chain)
    if splits:
        _check_split(focus, tile, chain)
    else:
        _check_keeps(focus, tile, chain)
    return chain


def members(chain: tuple[Dependence, ...]) -> list[Computation]:
    """The reductions of a chain, each before those that depend on it."""
    return list({w.name: w for d in chain for w in (d.statistic, d.reduction)}.values())


def online_parts(low: Lowering, focus: Focus, tile: Tile, chain: tuple[Dependence, ...]) -> list[tuple[Computation, ...]]:
    """ONE_PASS: the computations before the nest that has the whole chain, those in it, and those after it."""
    index, below = tile.axes[0].index, tile.below.staged
    inside = {w.name for w in members(chain)}
    for w in reversed(focus.computations):  # what they read of a tile is computed in it, and so is what lines below keep
        read = any(not x.reads.isdisjoint(w.targets) for x in focus.computations if x.name in inside)
        here = index in w.indices or w.reduction is None
        if read and here and not below.isdisjoint(w.targets):
            inside.add(w.name)
    results = {t for w in members(chain) for t in w.targets}
    inside |= _of_the_tile(focus, index, inside, results)
    beside: list[Computation] = []
    for w in _beside(focus, index, results):
        alone = w.name in focus.open_accumulators and w.reads.isdisjoint(results)
        if w.name not in inside and (alone or tile_splits_reduction(low.ctx.device, tile)):
            beside.append(w)
    _check_running_only(low, focus, tile, chain, inside)
    parts: tuple[list[Computation], ...] = ([], [], [])
    for w in (w for w in focus.computations if w not in beside):
        later = w.name not in inside and not w.reads.isdisjoint(results)
        results |= set(w.targets) if later else set()
        parts[1 if w.name in inside else 2 if later else 0].append(w)
    _check_before(parts, tile)
    parts[1].extend(beside)  # last, so that a statistic shares no loop with what stands before its previous value
    return [tuple(p) for p in parts]


def _check_before(parts: tuple[list[Computation], ...], tile: Tile) -> None:
    """Raises OnlineMismatch where what comes before a pass reads what the pass computes in its tiles."""
    for w in parts[0]:
        for x in parts[1]:
            if not w.reads.isdisjoint(x.targets):
                beside = tile.axes[0].index in w.reduced  # BESIDE, were it open around the tile
                raise OnlineMismatch(
                    f"`{tensor_of(w.result)}` reads `{tensor_of(x.result)}`, of which the pass has a tile at a time",
                    modifier_span(tile, "online"),
                    help=f"keep `{tensor_of(w.result)}` above this line, and the pass computes it as well" if beside else APART,
                )


def _of_the_tile(focus: Focus, index: str, inside: Collection[str], results: Collection[str]) -> set[str]:
    """What is computed of values that only the tile has, as scores that are stored as well, and of no running value."""
    local: set[str] = set()
    running, out = {*results}, set()
    for w in focus.computations:
        if not w.reads.isdisjoint(running):
            running |= {*w.targets}
        elif w.name in inside:
            local |= {*w.targets}
        elif w.reduction is None and index in w.indices and not w.reads.isdisjoint(local):
            local |= {*w.targets}
            out.add(w.name)
    return out


def _beside(focus: Focus, index: str, results: Collection[str]) -> Iterator[Computation]:
    """BESIDE: reductions over the index whose terms read no result of the pass."""
    found = {*results}
    for w in focus.computations:
        if index in w.reduced and found.isdisjoint(ld.tensor for ld in loads(w.value)):
            yield w
        elif not w.reads.isdisjoint(found):
            found |= {*w.targets}


def finished_later(
    focus: Focus, tile: Tile, chain: tuple[Dependence, ...], later: tuple[Computation, ...]
) -> tuple[Computation, ...]:
    """What comes after a pass, where a launch that follows combines its parts. Raises CannotMeet for what that cannot have."""
    rows = {i for d in chain for i in d.statistic.indices}
    for w in later:
        if w.reduction is not None or not rows.issuperset(w.all_indices):
            raise CannotMeet(
                f"`{tensor_of(w.result)}` reads results of the pass in the launch that makes parts of them, before they are"
                " combined",
                modifier_span(tile, "online"),
                help="leave the `keep` out that holds them: it gets a launch of its own",
            )
    return later


def lower_online(
    low: Lowering, focus: Focus, tile: Tile, chain: tuple[Dependence, ...], loops: Callable[[Focus], list[Stmt]]
) -> list[Stmt]:
    """The nest of a chain. `loops`: the tile's loop for the computations of a focus."""
    ctx, indices = low.ctx, {i for w in members(chain) for i in w.reduced}
    for w in reversed(members(chain)):  # written back in their order: the write-back of one reads those before it
        if w.name in focus.open_accumulators:
            continue
        if accumulates_at_leaf(ctx, focus, w, tile):
            raise UnboundedTile(
                f"`{w.result}` is open around the tiles of `{tile.axes[0].index}`, and the number of its elements is not known,"
                " or more than registers hold",
                modifier_span(tile, "online"),
                help=f"tile {' and '.join(f'`{i}`' for i in w.indices)} above, or keep `{w.result}` in another memory",
            )
        return lower_reduction(low, focus, w, tile)
    if any(x.online and any(a.index in indices for a in x.axes) for x in tile.below.path() if isinstance(x, Tile)):
        return loops(focus)
    shown = {d.reduction.name: _shown(d) for d in chain}
    ctx.trace.in_loop(tile, _told(chain, shown))
    for w in {d.statistic.name: d.statistic for d in chain}.values():
        low.closing[w.name] = partial(_closed, low, w, [d for d in chain if d.statistic is w], shown)
    over = {d.statistic.name: _combined_in_turn(low, tile, d.statistic, chain) for d in chain}
    ctx.combined_in_turn |= {name for name, lanes in over.items() if lanes}
    computations, registers = iteration(focus.computations, chain, shown, over)
    inner, around = _with_registers(low, replace(focus, computations=computations), registers, tile.span)
    return around(loops(inner))


def _combined_in_turn(low: Lowering, tile: Tile, w: Computation, chain: tuple[Dependence, ...]) -> Digits:
    """COMBINED_IN_TURN: the digits of a lane's number in which lanes differ that have parts of a statistic."""
    found, leaf = fragment_below(low, tile.below, w), tile.below.leaf
    if found is None or not isinstance(leaf, Leaf) or leaf.instr is None:
        return ()
    followers = [d.reduction for d in chain if d.statistic is w]
    if not any(low.find_instr(leaf.instr, x, leaf.span, must=False) for x in followers):
        return ()
    return parts_over_lanes(found, frozenset(w.indices))[0]


def _closed(
    low: Lowering, w: Computation, chain: list[Dependence], shown: dict[str, str], focus: Focus, node: Node, combine: list[Stmt]
) -> list[Stmt]:
    """COMBINED_AND_CORRECTED, and NONE_COUNTED. `combine`: the statistic's partial results become one."""
    out: list[Stmt] = []
    if combine:
        found = update(w, chain, shown, set())
        inner, around = _with_registers(low, focus, found.registers, node.span)

        def lowered(computations: tuple[RunningUpdate, ...]) -> list[Stmt]:
            by = {x.name: _owner(low, node, w, chain, x) for x in computations}
            return [s for x in computations for s in low.lower(replace(inner, computations=(x,)), by[x.name])]

        out += around([*lowered(found.before), *combine, *lowered(found.after)])
    for d in chain:
        last = at_the_end(d) if d.reduction.name not in low.split else None  # else where the parts are combined
        if last is not None:
            out += low.lower(replace(focus, computations=(last,)), owner_tree(low, node, d.reduction))
    return out


def _owner(low: Lowering, node: Node, w: Computation, chain: list[Dependence], x: RunningUpdate) -> Node:
    """The tree by which the registers are visited that a computation stores to."""
    return owner_tree(low, node, next((d.reduction for d in chain if d.reduction.name == x.corrects), w))


def _with_registers(
    low: Lowering, focus: Focus, registers: Registers, span: Span | None
) -> tuple[Focus, Callable[[list[Stmt]], list[Stmt]]]:
    """The focus with places in registers, and what puts these around statements."""
    ctx = low.ctx
    buffers: list[tuple[str, str]] = []
    for name, indices, dtype, statistic in registers:
        ctx.dtypes.setdefault(name, dtype)
        buffer = ctx.fresh(buffer_name(name))
        depth = tuple(len(focus.ranges[i].steps) for i in indices)
        owner = focus.views[statistic].owner
        spread = None if fragment_of(owner) is None else owner
        focus = focus.with_view(name, View(buffer, "path", indices, depth=depth, owner=spread, zero_padded=False))
        buffers.append((name, buffer))

    def around(body: list[Stmt]) -> list[Stmt]:
        memory = ctx.device.memories[-1].name
        made = [register_buffer(ctx, buffer, ctx.dtypes[name], memory, span) for name, buffer in buffers]
        return [*with_buffers(made, body, span)]

    return focus, around


def check_online_tile(low: Lowering, tile: Tile) -> None:
    """Raises OnlineMismatch for a line whose word changes nothing."""
    if tile.online and tile.key not in low.ctx.online:
        index = tile.axes[0].index
        where = "below" if tile.split is not None else "above"  # units have parts of all that the lines below keep
        raise OnlineMismatch(
            f"in this launch no reduction over `{index}` reads the result of another one over it",
            modifier_span(tile, "online"),
            help=f"keep the result that others read {where} this line, as `keep m in register`, or leave `online` out",
        )


def _shown(d: Dependence) -> str:
    """The correction as people write it: `exp(m~ - m)`, where `m~` is the value before."""

    def step(v: Value) -> Value | None:
        if not isinstance(v, Load):
            return None
        before = isinstance(v.tensor, PreviousValue)
        return Part(result_of(tensor_of(v.tensor)) + ("~" if before else ""), v.dtype)

    return show_value(transform(d.correction, step))


def _told(chain: tuple[Dependence, ...], shown: dict[str, str]) -> str:
    """`l, o.sum1: times exp(m~ - m)`."""
    by: dict[str, list[str]] = {}
    for d in chain:
        by.setdefault(shown[d.reduction.name], []).append(d.reduction.result)
    return "; ".join(f"{', '.join(names)}: times {factor}" for factor, names in by.items())


# ---------------------------------------------------------------- refusals


def _check_units(low: Lowering, focus: Focus, tile: Tile, chain: tuple[Dependence, ...]) -> None:
    """OWN_PARTS, of units that a later launch combines the values of: a line above the accumulators says so. Raises NotYet."""
    indices = {i for w in members(chain) for i in w.reduced}
    for x in tile.path():
        if isinstance(x, Fuse) and indices & set(x.indices):
            indices.add(x.name)
        if not (isinstance(x, Tile) and tile_splits_reduction(low.ctx.device, x) and any(a.index in indices for a in x.axes)):
            continue
        if x is not tile or any(w.name in focus.open_accumulators for w in members(chain)):
            raise NotYet(
                f"units of `{x.level}` cannot combine running values here: accumulators are open above",
                x.span,
                help=f"write the line above all other tiles of `{tile.axes[0].index}` and the lines that keep the results,"
                " or leave `online` out",
            )


def _check_own_statistics(low: Lowering, focus: Focus, chain: tuple[Dependence, ...], span: Span | None) -> None:
    """OWN_PARTS, for a launch that follows: only a pass reads no infinity where nothing counts. Raises OnlineMismatch."""
    together = {w.name for w in members(chain)}
    for d in (d for split in low.split_chains.values() for d in split.chain):
        if d.reduction.name not in together and any(w.name == d.reduction.name for w in focus.computations):
            raise OnlineMismatch(
                f"`{d.reduction.result}` and `{d.statistic.result}` of a part have loops of their own: a pass has one",
                span,
                help=f"write the line that keeps `{d.reduction.result}` above the tiles that `{d.statistic.result}` has not",
            )


def _check_split(focus: Focus, tile: Tile, chain: tuple[Dependence, ...]) -> None:
    """A unit goes over its part in a loop, below the lines that keep the results. Raises OnlineMismatch."""
    index = tile.axes[0].index
    if tile.split == "atomic":
        raise OnlineMismatch(
            "parts of a pass are corrected before they are added, and atomics add them as they are",
            tile.span,
            help="`by workspace` combines them in a launch that follows",
        )
    if not any(isinstance(x, Tile) and x.online and x.axes[0].index == index for x in tile.below.path()):
        names = ", ".join(w.result for w in members(chain))
        raise OnlineMismatch(
            f"no line below has the loop of each part of `{index}`",
            modifier_span(tile, "online"),
            help=f"write one, say `tile {index}: 64 online`, below the line that keeps {names}",
        )


def _check_keeps(focus: Focus, tile: Tile, chain: tuple[Dependence, ...]) -> None:
    """OPEN_ABOVE. Raises NotYet. What is kept above, and follows, may be kept nearer to the units below as well."""
    statistics = {d.statistic.name for d in chain}
    kept = [w for w in members(chain) if w.name in statistics or w.name not in focus.open_accumulators]
    for x in tile.below.path():
        for w in kept if isinstance(x, Keep) else ():
            if not {*w.names}.isdisjoint(x.tensors):
                raise NotYet(
                    f"`{w.result}` is kept below the online tile: running values are kept around it",
                    x.span,
                    help="write the line above the online tile",
                )


def _check_running_only(low: Lowering, focus: Focus, tile: Tile, chain: tuple[Dependence, ...], inside: set[str]) -> None:
    """RUNNING_ONLY. Raises NotComputed, OnlineMismatch."""
    outputs = {b.name for b in low.ctx.buffers if b.kind == "output"}
    for d in chain:
        for w in readers_of(focus, d.statistic):
            readers = [x for x in focus.computations if not x.reads.isdisjoint(w.targets)]
            if not any(x.name in inside for x in readers):
                continue
            name = tensor_of(w.name)
            if w.name not in inside:
                raise NotComputed(
                    f"`{d.reduction.result}` reads `{name}` in the pass that computes `{d.statistic.result}`, and no line below"
                    " keeps it there",
                    modifier_span(tile, "online"),
                    help=f"write the `keep` of `{name}` below this line, or leave `online` out",
                )
            if not all(x.name in inside for x in readers) or not outputs.isdisjoint(w.targets):
                raise OnlineMismatch(
                    f"`{name}` is computed from a running value of `{d.statistic.result}`, and read outside of the pass",
                    modifier_span(tile, "online"),
                    help=APART,
                )
