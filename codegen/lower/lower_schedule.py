"""Lowering: a recursion over (focus, schedule tree). Each node rewrites the focus; the focus at the end becomes a leaf.

`keep` is initialisation + body + write-back, `move` is copy + body. The other files: `lower_tile` (loops and units),
`lower_move` (copies), `lower_keep` (accumulators), `scalar_leaf` and `instr_leaf` (elements).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

from ...dsl.device import Instr
from ...dsl.errors import UserError, did_you_mean
from ...dsl.errors.schedule import InstrMismatch, SplitReduction, UnboundedTile, UnknownInstr
from ...dsl.index.condition_text import conditions_text
from ...dsl.index.expr import Expr, as_expr
from ...dsl.source import Span
from ...dsl.support.fast_replace import replace
from ...dsl.values import loads
from ..ir.schedule_tree import (
    Axis,
    CopyLeaf,
    FragmentLeaf,
    Fuse,
    Keep,
    Leaf,
    Materialise,
    Move,
    Node,
    ShareOut,
    Step,
    Tile,
    fragment_of,
    with_leaf,
)
from ..ir.tile_ir import Stmt
from ..plan.computations import Computation
from ..plan.derived_names import tensor_of
from ..schedule.synthetic_spans import author_of, is_filled_in
from .footprint import read_extent, read_grain
from .intermediates.block_lines import Block
from .intermediates.readers import stored_by_others
from .intermediates.rims import with_rim_ranges
from .leaves.check_instr import UnusableInstr, check_executing_units, explain_other_result, leave_out
from .leaves.copy_leaf import copy_leaf
from .leaves.instr_leaf import instr_leaf, strip_mask
from .leaves.match_instr import FragmentMap, InstrMatch, all_matches, best_match, fragment_map
from .leaves.owner_tree import fragment_here, oriented, owner_tree
from .leaves.scalar_leaf import scalar_leaf
from .leaves.stored_runs import stored_in_runs
from .lower_keep import lower_keep, lower_leaf_reduction, lower_reduction
from .lower_move import lower_move
from .lower_tile import lower_tile
from .lowering_context import LoweringContext
from .reductions.accumulator_computations import CombinePartials, InitAccumulator, RunningUpdate
from .reductions.open_accumulators import accumulates_at_leaf, check_open_results
from .reductions.split_reduction import SplitChain, SplitPartials, tile_splits_reduction
from .shared_loops.siblings import opening_order
from .show_spec import memory_of
from .spec import Focus, or_state_bound
from .stores.write_back import share_out
from .tiling.distribute_tiles import tile_count
from .tiling.fuse_indices import fuse_indices
from .tiling.tile_ranges import ranges_along

HELD = (UnboundedTile, SplitReduction)


class Lowering:
    """Lowers one launch. `computations` are all computations of the launch, for what a node must know of the whole."""

    def __init__(self, ctx: LoweringContext, computations: tuple[Computation, ...], tree: Node | None = None) -> None:
        self.ctx = ctx
        self.computations = computations
        self.finest = _finest(tree) if tree is not None else {}  # tiles: which of several indices an instruction may take
        self.split: dict[str, SplitPartials] = {}  # computations whose parts a later launch combines, or atomics
        self.split_chains: dict[object, SplitChain] = {}  # by the keys of the tiles that split them
        self.served: dict[str, set[str]] = {}  # tensors that several nests make, each for itself: their readers
        self.read_again: set[str] = set()  # what those read that several nests make
        self.opened: dict[str, Keep] = {}  # accumulators, and the nodes that keep them
        # what is done where the accumulator of a statistic closes, around the combination of partial results (`online`)
        self.closing: dict[str, Callable[[Focus, Node, list[Stmt]], list[Stmt]]] = {}
        # computations, and how an instruction computes them
        self.oriented = oriented(self, tree) or stored_in_runs(self, tree) if tree is not None else {}
        self.block: Block | None = None  # the one being lowered, and what it is about
        self.obeyed: set[tuple[Span | None, str]] = set()  # lines that had an effect, and on what
        self.refusals: dict[tuple[Span | None, str], UserError] = {}  # of lines that had none in some nest
        self.holding = 0  # lines that hold something, above the one being lowered

    def in_context(self, ctx: LoweringContext) -> Lowering:
        """A lowering of the same computations in another context."""
        other = Lowering(ctx, self.computations)
        other.finest, other.oriented, other.block = self.finest, self.oriented, self.block
        other.obeyed, other.refusals = self.obeyed, self.refusals
        return other

    def lower(self, focus: Focus, node: Node) -> list[Stmt]:
        """What the node, and those below it, do to the focus, as statements."""
        focus = with_rim_ranges(self, focus, node)
        self.ctx.trace.enter(self.ctx, focus, node)
        self.ctx.lines_above.append(node)
        try:
            return self._lower(focus, node)
        except UserError as error:
            self._attribute_error(error, node)
            raise
        finally:
            self.ctx.lines_above.pop()
            self.ctx.trace.leave()

    def _attribute_error(self, error: UserError, node: Node) -> None:
        """A mistake noticed far down belongs to the nearest line that was written: by the author, where he wrote one above.

        What has no bound belongs to the line that holds it.
        """
        found, span = error.span, node.span
        if span is None or not is_filled_in(found):
            return
        if self.holding and isinstance(error, HELD) and not isinstance(node, Materialise):
            return
        error.span = author_of(found, span)
        error.noticed_at = found if error.span != found else None
        if found is not None and error.span != found and not error.note:
            error.note = f"below it comes `{found.source.line(found.line).strip()}`, which was filled in"

    def _lower(self, focus: Focus, node: Node) -> list[Stmt]:
        if not focus.computations:
            return []
        if isinstance(node, Step) and all(isinstance(w, RunningUpdate) for w in focus.computations):
            # what they read and store is in registers, each as it lies there
            node = with_leaf(owner_tree(self, node, focus.computations[0]), Leaf())
        match node:
            case Tile():
                return lower_tile(self, focus, node)
            case Fuse():
                self.ctx.reserve(node.name)  # an index like any other: no loop variable is called so
                new = fuse_indices(focus, node)
                now = {id(w): x for w, x in zip(focus.computations, new.computations, strict=True)}
                if not now.keys().isdisjoint(map(id, self.computations)):
                    self.computations = tuple(now.get(id(w), w) for w in self.computations)
                    # by the names that indices have below
                    self.oriented |= oriented(self, node.below) or stored_in_runs(self, node.below)
                return self.lower(new, node.below)
            case Move():
                return self._holding(node, lower_move, focus)
            case Keep():
                return self._holding(node, lower_keep, focus)
            case Leaf():
                return self.leaves(focus, node)
            case FragmentLeaf():
                return [s for w in focus.computations for s in scalar_leaf(self.ctx, focus, w, node.fragment)]
            case CopyLeaf():
                return copy_leaf(self, focus, node)
            case ShareOut():
                return share_out(self, focus, node)
        raise TypeError(f"node {node!r}")

    def _holding(self, node: Move | Keep, lowered: Callable, focus: Focus) -> list[Stmt]:
        """A tile without a bound is the fault of the line that holds it, wherever below that is noticed."""
        self.holding += 1
        try:
            return lowered(self, focus, node)
        except HELD as error:
            self._attribute_error(error, node)
            raise
        finally:
            self.holding -= 1

    def leaves(self, focus: Focus, leaf: Leaf) -> list[Stmt]:
        """Each remaining work in turn: by the instruction where it matches, else element by element."""
        order, times = leaf.order, leaf.unroll
        out: list[Stmt] = []
        laid: dict[str, FragmentMap] = {}  # what an instruction computed here, and how it lies in registers
        for w in focus.computations:
            f = replace(focus, computations=(w,))
            if isinstance(w, RunningUpdate):
                out += scalar_leaf(self.ctx, f, w, fragment_of(f.views[w.name].owner))
                continue
            if w.reduction is not None and w.name not in focus.open_accumulators:
                out += lower_leaf_reduction(self, f, w, leaf)
                continue
            m, inherited = None, fragment_here(f.views, w)
            if leaf.instr is not None and not isinstance(w, (InitAccumulator, CombinePartials)):
                must = len(focus.computations) == 1 and inherited is None
                try:
                    m = self.find_instr(leaf.instr, w, leaf.named_at or leaf.span, must)
                except InstrMismatch as error:
                    explain_other_result(self, f, w, leaf.instr, error)
                    raise
            held = any(f.views[t].form == "path" for t in w.reads if t in f.views)
            if m is not None and len(focus.computations) > 1 and held and f.views[w.name].form != "path":
                target = m.instr.operand(m.instr.statement.target)
                if self.ctx.register(target.memory):
                    # what is stored to memory is visited as the instruction laid it out in registers
                    spread = next((laid[t] for t in w.reads if t in laid), fragment_map(m, target.name))
                    out += scalar_leaf(self.ctx, f, w, spread, order, times)
                    continue
            if m is not None:
                check_executing_units(self.ctx, m.instr, f, w, leaf.span)
                try:
                    out += self.by_instr(f, w, m, order, times, leaf.span)
                    laid[w.name] = fragment_map(m, m.instr.statement.target)
                except UnusableInstr as unusable:
                    at = leaf.named_at or leaf.span
                    leave_out(self.ctx, unusable, at, is_filled_in(at))
                    out += scalar_leaf(self.ctx, f, w, inherited, order, times)
            else:
                out += scalar_leaf(self.ctx, f, w, inherited, order, times)
        return out

    # ------------------------------------------------------------ instructions

    def find_instr(self, name: str, computation: Computation, at: Span | None, must: bool = True) -> InstrMatch | None:
        """The instruction of that name, or the member of that family, that computes the work.

        Raises UnknownInstr, and InstrMismatch where one `must` be found, at the line `at`.
        """
        known = self.instrs_named(name, at)
        inside = computation if computation.domain else strip_mask(computation)[0]
        found = [m for i in known if (m := self._fits(i, inside)) is not None]
        if found:
            return replace(max(found, key=lambda m: (m.score, m.volume)), named_at=at)
        if must:
            everywhere = all(i.used_everywhere is not None for i in known)
            help = "leave `with` out: whatever can use it does" if everywhere else _other_types(known, computation)
            raise InstrMismatch(f"`{name}` does not compute `{tensor_of(computation.result)}`", at, help=help)
        return None

    def instrs_named(self, name: str, at: Span | None) -> Sequence[Instr]:
        """The instruction, or the members of the family. Raises UnknownInstr, at the line `at`."""
        known = self.ctx.device.instrs_named(name)
        if not known:
            names = {n for i in self.ctx.device.instrs for n in (i.name, i.family) if n}
            raise UnknownInstr(f"`{self.ctx.device.name}` has no instruction `{name}`", at, help=did_you_mean(name, names))
        return known

    def _fits(self, instr: Instr, inside: Computation) -> InstrMatch | None:
        if inside.name in self.oriented:
            way = self.oriented[inside.name]
            found = (m for m in all_matches(instr, inside) if m.index == way.index)
            if way.order is not None:  # which is one of this instruction alone
                return next((replace(m, order=way.order) for m in found if instr is way.instr), None)
            return next(found, None)
        return best_match(instr, inside, {i: n for i, n in self.finest.items() if i in inside.all_indices})

    def by_instr(
        self,
        focus: Focus,
        computation: Computation,
        m: InstrMatch,
        order: tuple[str, ...] = (),
        unroll: int = 1,
        span: Span | None = None,
    ) -> list[Stmt]:
        """`instr_leaf`, which leaves no trace where the instruction cannot be used."""
        names, instrs = frozenset(self.ctx.names), frozenset(self.ctx.instrs)
        try:
            return instr_leaf(self.ctx, focus, computation, m, order, unroll, span)
        except UnusableInstr:
            self.ctx.forget(names, instrs)
            raise

    # ------------------------------------------------------------ looking ahead

    def footprint(self, focus: Focus, index: str, node: Node) -> int:
        """How far from the focus's base the node and those below reach along an index (FOOTPRINT_IS_WHAT_IS_READ)."""
        r = focus.ranges[index]
        cap = r.whole_capacity
        if cap is None:
            message = f"a buffer here spans `{index}`, whose extent has no bound"
            raise UnboundedTile(message, help=f"tile `{index}` above this line{or_state_bound(r.size)}")
        return read_extent(self, focus, index, cap, node)

    def grain(self, focus: Focus, index: str, node: Node) -> int:
        """What the node and those below read of an index at once, edge or not: copies fill up to a multiple of it."""
        return read_grain(self, focus, index, focus.ranges[index].whole_capacity or 1, node)

    def units_of_following_tiles(self, focus: Focus, tile: Tile, level: str) -> Expr:
        """How many units the nodes below still distinguish at the same level (adjacent tiles onto one level multiply)."""
        dealt = self.ctx.device.level(level).units == "finite"
        needed = {i for w in focus.computations for i in w.all_indices}
        total: Expr = as_expr(1)
        for x, ranges in islice(ranges_along(focus.ranges, tile), 1, None):
            if isinstance(x, Fuse):
                needed |= {x.name} if needed & set(x.indices) else set()
            if not isinstance(x, Tile) or x.level is None:
                continue
            if x.level != level:
                break
            for a in x.axes:
                if a.index in ranges and (a.index in needed or not dealt):
                    # a tile of a tile counts by capacity, or the digits of a unit's number would mean less at the edges
                    kind = "shaped" if ranges[a.index].size.constant is not None else self.ctx.device.level(level).units
                    total = total * tile_count(self, ranges[a.index], a, kind, x)
        return total

    def open_accumulators(self, focus: Focus, tile: Tile) -> list[Stmt] | None:
        """Before a reduction is tiled its accumulator must be open, unless a `keep` below says where."""
        indices = {a.index for a in tile.axes}
        for w in opening_order(focus.computations):
            if isinstance(w, (InitAccumulator, CombinePartials)) or w.reduction is None or w.name in focus.open_accumulators:
                continue
            if not indices & set(w.reduced):
                continue
            parallel = self._combines(tile)
            below = self._kept_below(w, tile)
            if below is not None and (memory := self._held_farther(focus, w, below)) is not None:
                return lower_reduction(self, focus, w, tile, Keep(names=(w.result,), memory=memory, below=tile))
            if below is not None and parallel:
                raise SplitReduction(
                    f"units take parts of `{w.result}`, which is kept below: each would write its own part back as the whole",
                    tile.span,
                    help="write the `keep` above this tile",
                )
            if below is not None:
                continue
            if not parallel and self._split_below(w, tile.below):
                continue
            if accumulates_at_leaf(self.ctx, focus, w, tile):
                if not parallel:
                    continue
                check_open_results(focus, w, tile)
                at = focus.computations.index(w)
                first, then = focus.computations[:at], focus.computations[at + 1 :]
                stored_by_others(self, focus, [first, (w,), then], tile)
                assert tile.level is not None
                finite = self.ctx.device.level(tile.level).units == "finite"  # whose loops are the same for all of them
                keep = Keep(names=(w.result,), memory=self.ctx.device.memories[-1].name, below=tile)
                one = Tile(axes=tuple(Axis(i, 1) for i in w.indices), equal_trips=not finite, below=keep)
                alone = self.lower(replace(focus, computations=(w,)), one)
                before = self.lower(replace(focus, computations=first), tile)
                return [*before, *alone, *self.lower(replace(focus, computations=then), tile)]
            return lower_reduction(self, focus, w, tile)
        return None

    def _kept_below(self, w: Computation, tile: Tile) -> Keep | None:
        """The line below a tile that keeps the result of a reduction."""
        return next((x for x in tile.below.path() if isinstance(x, Keep) and not {*w.names}.isdisjoint(x.tensors)), None)

    def _held_farther(self, focus: Focus, w: Computation, below: Keep) -> str | None:
        """The memory in which a line above keeps the result of a reduction for those that read it, if that is farther from the
        units than the one of a line below: that keeps a tile of it."""
        held = next((o.tensor for o in w.outputs if focus.views[o.tensor].form != "global"), None)
        if held is None or below.memory is None or below.block is not None:
            return None
        memories, memory = [m.name for m in self.ctx.device.memories], memory_of(self.ctx, focus, held)
        return memory if memories.index(memory) < memories.index(below.memory) else None

    def closes_after(self, focus: Focus, w: Computation, tile: Tile) -> bool:
        """Does the write-back of a reduction over the tile's index come after the tile's loop, rather than in its last
        iteration? Then its accumulator is open above, or opens there."""
        if w.name in focus.open_accumulators:
            return True
        if (below := self._kept_below(w, tile)) is not None:
            return self._held_farther(focus, w, below) is not None
        return not self._split_below(w, tile.below) and not accumulates_at_leaf(self.ctx, focus, w, tile)

    def _combines(self, tile: Tile) -> bool:
        """Does the line deal tiles to units that can meet, and so combine their parts of a reduction?"""
        return tile.level is not None and self.ctx.device.level(tile.level).siblings != "nothing" and tile.split != "workspace"

    def _split_below(self, w: Computation, below: Node) -> bool:
        """A line below leaves parts of the reduction to a later launch: accumulators are those of the parts."""
        tiles = [x for x in below.path() if isinstance(x, Tile) and tile_splits_reduction(self.ctx.device, x)]
        return any(a.index in w.reduced for x in tiles for a in x.axes)

    def read_afterwards(self, focus: Focus, tensor: str, below: Node) -> bool:
        """Does a launch that follows from a split, above or below, read the tensor for the results that it combines?"""
        if any(tensor in w.reads for computations in self.ctx.following_launches for w in computations):
            return True
        readers = [w for w in focus.computations if any(ld.tensor == tensor for o in w.outputs for ld in loads(o.value))]
        return any(
            w.reduction is not None and w.name not in focus.open_accumulators and self._split_below(w, below) for w in readers
        )


def _finest(tree: Node) -> dict[str, int]:
    """The smallest tile of each index."""
    found: dict[str, int] = {}
    for a in (a for x in tree.path() if isinstance(x, Tile) for a in x.axes):
        found[a.index] = min(a.size, found.get(a.index, a.size))
    return found


def _other_types(instrs: Sequence[Instr], computation: Computation) -> str:
    """Which types the instructions take, where none takes those at hand."""
    here = {load.dtype.name for load in loads(computation.value)}
    takes = [{o.dtype.name for o in i.operands if o.role == "input"} for i in instrs]
    way = "`compute` alone is the scalar body"
    if computation.domain and any(t & here for t in takes):
        return f"a call adds terms inside of {conditions_text(computation.domain)} and others; {way}"
    if any(t & here for t in takes):
        return way
    wanted = " or ".join(dict.fromkeys(" and ".join(sorted(t)) for t in takes[:4]))
    return f"it takes {wanted}; the operands here are {' and '.join(sorted(here))}; {way}"
