"""Lowering: a recursion over (focus, remaining lines). Each line rewrites the focus; the focus at the end becomes a leaf.

`keep` is initialisation + body + write-back, `move` is copy + body. The other files: `lower_tile` (loops and units),
`lower_move` (copies), `lower_keep` (accumulators), `scalar_leaf` and `instr_leaf` (elements).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...dsl import syntax
from ...dsl.device import Instr
from ...dsl.errors import UserError, did_you_mean
from ...dsl.errors.schedule import BadFuse, InstrMismatch, SplitReduction, UnboundedTile, UnknownInstr
from ...dsl.index.expr import Expr, Var, as_expr
from ...dsl.support.fast_replace import replace
from ...dsl.values import loads
from ..ir.tile_ir import Stmt
from ..plan.computations import BACK, Computation, substitute
from ..schedule.synthetic_spans import author_of, is_filled_in
from .footprint import read_extent, read_grain
from .leaves.instr_leaf import check_executing_units, instr_leaf, same_fragment, strip_mask
from .leaves.match_instr import FragmentMap, InstrMatch, all_matches, best_match, fragment_map
from .leaves.scalar_leaf import FragmentLeaf, scalar_leaf
from .lower_keep import lower_keep, lower_leaf_reduction, lower_reduction
from .lower_move import InstrLeaf, lower_move
from .lower_tile import lower_tile
from .lowering_context import LoweringContext
from .reductions.accumulator_computations import CombinePartials, InitAccumulator
from .reductions.open_accumulators import accumulates_at_leaf, check_open_results
from .reductions.split_reduction import SplitPartials, tile_splits_reduction
from .spec import Focus, Range
from .stores.write_back import ShareOut, share_out
from .tile_axes import clamped, tile_axes
from .tiling.count_units import advance
from .tiling.distribute_tiles import product, tile_count
from .tiling.sequential_tiles import ALL_TURNS

HELD = (UnboundedTile, SplitReduction)


class Lowering:
    """Lowers one launch. `computations` are all computations of the launch, for what a line must know of the whole."""

    def __init__(self, ctx: LoweringContext, computations: tuple[Computation, ...], lines: tuple = ()) -> None:
        self.ctx = ctx
        self.computations = computations
        self.finest = _finest(lines)  # tiles: which of several indices an instruction may take
        self.split: dict[str, SplitPartials] = {}  # computations whose parts a later launch combines, or atomics
        self.served: dict[str, set[str]] = {}  # tensors that several nests make, each for itself: their readers
        self.read_again: set[str] = set()  # what those read that several nests make
        self.holding = 0  # lines that hold something, above the one being lowered

    def in_context(self, ctx: LoweringContext) -> Lowering:
        """A lowering of the same computations in another context."""
        other = Lowering(ctx, self.computations)
        other.finest = self.finest
        return other

    def lower(self, focus: Focus, lines: tuple) -> list[Stmt]:
        """What the lines do to the focus, as statements."""
        self.ctx.trace.enter(self.ctx, focus, lines)
        try:
            return self._lower(focus, lines)
        except UserError as error:
            self._attribute_error(error, lines[0] if lines else None)
            raise
        finally:
            self.ctx.trace.leave()

    def _attribute_error(self, error: UserError, line: Any) -> None:
        """A mistake noticed far down belongs to the nearest line that was written: by the author, where he wrote one above.

        What has no bound belongs to the line that holds it.
        """
        found, span = error.span, getattr(line, "span", None)
        if span is None or (found is not None and not is_filled_in(found)):
            return
        if self.holding and isinstance(error, HELD) and not isinstance(line, syntax.Move | syntax.Keep):
            return
        error.span = author_of(found, span)
        if found is not None and error.span != found and not error.note:
            error.note = f"below it comes `{found.source.line(found.line).strip()}`, which was filled in"

    def _lower(self, focus: Focus, lines: tuple) -> list[Stmt]:
        if not focus.computations:
            return []
        if not lines:
            return self.leaves(focus, syntax.Compute())
        line, rest = lines[0], lines[1:]
        match line:
            case syntax.Tile():
                return lower_tile(self, focus, line, rest)
            case syntax.Fuse():
                self.ctx.reserve(line.name)  # an index like any other: no loop variable is called so
                new = fuse_indices(focus, line)
                now = {id(w): x for w, x in zip(focus.computations, new.computations, strict=True)}
                self.computations = tuple(now.get(id(w), w) for w in self.computations)
                return self.lower(new, rest)
            case syntax.Move():
                return self._holding(line, lower_move, focus, rest)
            case syntax.Keep():
                return self._holding(line, lower_keep, focus, rest)
            case syntax.Compute():
                return self.leaves(focus, line)
            case FragmentLeaf():
                return [s for w in focus.computations for s in scalar_leaf(self.ctx, focus, w, line.fragment)]
            case InstrLeaf():
                return self.copy_leaf(focus, line)
            case ShareOut():
                return share_out(self, focus, line)
        raise TypeError(f"line {line!r}")

    def _holding(self, line: syntax.Move | syntax.Keep, lowered: Callable, focus: Focus, rest: tuple) -> list[Stmt]:
        """A tile without a bound is the fault of the line that holds it, wherever below that is noticed."""
        self.holding += 1
        try:
            return lowered(self, focus, line, rest)
        except HELD as error:
            self._attribute_error(error, line)
            raise
        finally:
            self.holding -= 1

    def leaves(self, focus: Focus, line: syntax.Compute) -> list[Stmt]:
        """Each remaining work in turn: by the instruction where it matches, else element by element."""
        order = next((m.words for m in line.modifiers if m.name == "order"), ())
        unroll = next((m for m in line.modifiers if m.name == "unroll"), None)
        times = int(unroll.values[0].value) if unroll and unroll.values else 1  # type: ignore[union-attr]
        out: list[Stmt] = []
        laid: dict[str, FragmentMap] = {}  # what an instruction computed here, and how it lies in registers
        for w in focus.computations:
            f = replace(focus, computations=(w,))
            if w.reduction is not None and w.name not in focus.open_accumulators:
                out += lower_leaf_reduction(self, f, w, line)
                continue
            m = None
            if isinstance(line.instr, str) and not isinstance(w, (InitAccumulator, CombinePartials)):
                m = self.find_instr(line.instr, w, line, must=len(focus.computations) == 1)
            held = any(f.views[t].form == "path" for t in w.reads if t in f.views)
            if m is not None and len(focus.computations) > 1 and held and f.views[w.name].form != "path":
                target = m.instr.operand(m.instr.statement.target)
                if self.ctx.register(target.memory):
                    # what is stored to memory is visited as the instruction laid it out in registers
                    spread = next((laid[t] for t in w.reads if t in laid), fragment_map(m, target.name))
                    out += scalar_leaf(self.ctx, f, w, spread, order, times)
                    continue
            if m is not None:
                check_executing_units(self.ctx, m.instr, f, w, line.span)
                out += instr_leaf(self.ctx, f, w, m, order, times, line.span)
                laid[w.name] = fragment_map(m, m.instr.statement.target)
            else:
                out += scalar_leaf(self.ctx, f, w, None, order, times)
        return out

    # ------------------------------------------------------------ instructions

    def find_instr(self, name: str, computation: Computation, line, must: bool = True, spread=None) -> InstrMatch | None:
        """The instruction of that name, or the member of that family, that computes the work (and fills `spread`)."""
        known = self.ctx.device.instrs_named(name)
        if not known:
            names = {n for i in self.ctx.device.instrs for n in (i.name, i.family) if n}
            raise UnknownInstr(
                f"`{self.ctx.device.name}` has no instruction `{name}`", line.span, help=did_you_mean(name, names)
            )
        inside = strip_mask(computation)[0]
        found = [m for i in known if (m := self._fits(i, inside, spread)) is not None]
        if found:
            return max(found, key=lambda m: (m.score, _volume(m)))
        if must:
            raise InstrMismatch(
                f"`{name}` does not compute `{computation.name.rstrip('@')}`", line.span, help=_other_types(known, computation)
            )
        return None

    def _fits(self, instr: Instr, inside: Computation, spread) -> InstrMatch | None:
        if spread is None:
            return best_match(instr, inside, {i: n for i, n in self.finest.items() if i in inside.reduced})
        target = instr.statement.target
        found = [m for m in all_matches(instr, inside) if same_fragment(spread, fragment_map(m, target))]
        return max(found, key=lambda m: m.score, default=None)

    def copy_leaf(self, focus: Focus, line) -> list[Stmt]:
        """The leaf of `move ... with I`: the instruction where it fills the fragment wanted, else element by element."""
        (computation,) = focus.computations
        spread = FragmentLeaf(line.fragment) if line.fragment is not None else None
        fills = [i.operand(i.statement.target).memory for i in self.ctx.device.instrs_named(line.instr)]
        if fills and not any(map(self.ctx.register, fills)):
            raise InstrMismatch(
                f"`{line.instr}` writes to `{fills[0]}`, and this line moves `{line.line.tensor}` to registers",
                line.line.span,
                help="leave `with` out, or name an instruction that fills registers",
            )
        m = self.find_instr(line.instr, computation, line.line, must=False, spread=spread)
        if m is None:
            self.ctx.notes.append(f"`with {line.instr}`: no member of it fits the copy of `{line.line.tensor}`")
            return scalar_leaf(self.ctx, focus, computation, line.fragment)
        return instr_leaf(self.ctx, focus, computation, m, span=line.line.span)

    # ------------------------------------------------------------ looking ahead

    def names_other_nest(self, focus: Focus, fits: Callable[[Computation], bool]) -> bool:
        """Whether the line is for computations that a tile above gave a nest of their own (FISSION), and not for these."""
        mine = {w.name for w in self.computations}
        return all(w.name in mine or w.name.endswith(BACK) for w in focus.computations) and any(
            fits(w) for w in self.computations
        )

    def footprint(self, focus: Focus, index: str, lines: tuple) -> int:
        """How far from the focus's base the lines below reach along an index (FOOTPRINT_IS_WHAT_IS_READ)."""
        r = focus.ranges[index]
        cap = r.whole_capacity
        if cap is None:
            message = f"a buffer here spans `{index}`, whose extent has no bound"
            raise UnboundedTile(message, help=f"tile `{index}` above this line, or state a bound: `where N <= 4096`")
        return read_extent(self, focus, index, cap, lines)

    def grain(self, focus: Focus, index: str, lines: tuple) -> int:
        """What the lines below read of an index at once, edge or not: copies fill up to a multiple of it."""
        return read_grain(self, focus, index, focus.ranges[index].whole_capacity or 1, lines)

    def units_of_following_tiles(self, focus: Focus, axes, rest: tuple, level: str) -> Expr:
        """How many units the lines below still tell apart at the same level (adjacent tiles onto one level multiply)."""
        ranges = dict(focus.ranges)
        for a in axes:
            ranges[a.index] = advance(ranges[a.index], clamped(ranges[a.index], a.size), a.every)
        dealt = self.ctx.device.level(level).units == "finite"
        needed = {i for w in focus.computations for i in w.all_indices}
        total: Expr = as_expr(1)
        for line in rest:
            if isinstance(line, syntax.Fuse):
                sizes = [ranges[i].size for i in line.indices if i in ranges]
                ranges[line.name] = Range(as_expr(0), product(sizes))
                needed |= {line.name} if needed & set(line.indices) else set()
            if not isinstance(line, syntax.Tile):
                continue
            if line.level is not None and line.level != level:
                break
            for a in tile_axes(line):
                if a.index not in ranges:
                    continue
                if line.level == level and (a.index in needed or not dealt):
                    # a tile of a tile counts by capacity, or the digits of a unit's number would mean less at the edges
                    kind = "shaped" if ranges[a.index].size.constant is not None else self.ctx.device.level(level).units
                    total = total * tile_count(self, ranges[a.index], a, kind, line)
                ranges[a.index] = advance(ranges[a.index], clamped(ranges[a.index], a.size), a.every)
        return total

    def open_accumulators(self, focus: Focus, indices: set[str], lines: tuple) -> list[Stmt] | None:
        """Before a reduction is tiled its accumulator must be open, unless a `keep` below says where."""
        for w in focus.computations:
            if isinstance(w, (InitAccumulator, CombinePartials)) or w.reduction is None or w.name in focus.open_accumulators:
                continue
            if not indices & set(w.reduced):
                continue
            names = {w.name, w.name.rstrip("@"), *w.targets}
            parallel = self._combines(lines[0])
            below = next((x for x in lines[1:] if isinstance(x, syntax.Keep) and names & set(x.tensors)), None)
            if below is not None and parallel:
                shown = w.name.rstrip("@")
                raise SplitReduction(
                    f"units take parts of `{shown}`, which is kept below: each would write its own part back as the whole",
                    lines[0].span,
                    help="write the `keep` above this tile",
                )
            if below is not None:
                continue
            if not parallel and self._split_below(w, lines):
                continue
            if accumulates_at_leaf(self.ctx, focus, w, lines):
                if not parallel:
                    continue
                check_open_results(focus, w, lines)
                finite = self.ctx.device.level(lines[0].level).units == "finite"  # whose loops are the same for all of them
                turns = () if finite else (ALL_TURNS,)
                one = syntax.Tile(tuple(syntax.TileAxis(i, syntax.Num(1)) for i in w.indices), modifiers=turns)
                keep = syntax.Keep((w.name.rstrip("@"),), self.ctx.device.memories[-1].name)
                alone = self.lower(replace(focus, computations=(w,)), (one, keep, *lines))
                others = tuple(x for x in focus.computations if x is not w)
                at = focus.computations.index(w)
                before = self.lower(replace(focus, computations=focus.computations[:at]), lines)
                return [*before, *alone, *self.lower(replace(focus, computations=others[at:]), lines)]
            return lower_reduction(self, focus, w, lines)
        return None

    def _combines(self, line) -> bool:
        """Does the line deal tiles to units that can meet, and so combine their parts of a reduction?"""
        if not isinstance(line, syntax.Tile) or line.level is None:
            return False
        by = next((m.words[0] for m in line.modifiers if m.name == "by"), None)
        return self.ctx.device.level(line.level).siblings != "nothing" and by != "workspace"

    def _split_below(self, w: Computation, lines: tuple) -> bool:
        """A line below leaves parts of the reduction to a later launch: accumulators are those of the parts."""
        tiles = [x for x in lines[1:] if isinstance(x, syntax.Tile) and tile_splits_reduction(self.ctx.device, x)]
        return any(a.index in w.reduced for x in tiles for a in x.axes)

    def read_afterwards(self, focus: Focus, tensor: str, lines: tuple) -> bool:
        """Does a launch that follows from a split, above or below, read the tensor for the results that it combines?"""
        if any(tensor in w.reads for computations, _ in self.ctx.following_launches for w in computations):
            return True
        readers = [w for w in focus.computations if any(ld.tensor == tensor for o in w.outputs for ld in loads(o.value))]
        return any(
            w.reduction is not None and w.name not in focus.open_accumulators and self._split_below(w, lines) for w in readers
        )


def _finest(lines: tuple) -> dict[str, int]:
    """The smallest tile of each index that lines cut."""
    found: dict[str, int] = {}
    for a in (a for x in lines if isinstance(x, syntax.Tile) for a in x.axes):
        if isinstance(a.size, syntax.Num):
            found[a.index] = min(int(a.size.value), found.get(a.index, int(a.size.value)))
    return found


def _volume(m: InstrMatch) -> int:
    n = 1
    for e in m.extents().values():
        n *= e
    return n


def fuse_indices(focus: Focus, line: syntax.Fuse) -> Focus:
    """`fuse n, p, q as m`: one index for several; its components are its digits."""
    ranges = dict(focus.ranges)
    for i in line.indices:
        if i not in ranges:
            raise BadFuse(f"there is no index `{i}` here", line.span, help=did_you_mean(i, ranges))
        if ranges[i].steps:
            raise BadFuse(f"`{i}` is tiled already", line.span, help="write the `fuse` above the tiles")
    for w in focus.computations:
        held = next((t for t in (w.name, *w.targets, *sorted(w.reads)) if _numbers_registers(focus, t, line.indices)), None)
        if held is not None:
            raise BadFuse(
                f"`{held.rstrip('@~')}` is held in registers that {' and '.join(f'`{i}`' for i in line.indices)} number",
                line.span,
                help="write the `fuse` above the tiles, and above what is held",
            )
    if line.name in ranges and line.name not in line.indices:
        raise BadFuse(f"the name `{line.name}` is taken", line.span)
    parts = tuple((i, ranges[i].size, ranges[i].base) for i in line.indices)
    size: Expr = as_expr(1)
    for _, e, _ in parts:
        size = size * e
    computations = tuple(_fuse_computation(w, line, parts) for w in focus.computations)
    for i in line.indices:
        if not any(i in w.all_indices for w in computations):
            ranges.pop(i, None)
    ranges[line.name] = Range(as_expr(0), size)
    return replace(focus, computations=computations, ranges=ranges)


def _numbers_registers(focus: Focus, tensor: str, indices: tuple[str, ...]) -> bool:
    view = focus.views.get(tensor)
    return view is not None and view.form == "path" and not set(indices).isdisjoint(view.axes)


def _fuse_computation(w: Computation, line: syntax.Fuse, parts) -> Computation:
    mine = set(line.indices)
    free, reduced = mine & set(w.indices), mine & set(w.reduced)
    if not free and not reduced:
        return w
    if free != mine and reduced != mine:
        raise BadFuse("fused indices are all free or all reduced", line.span)
    # a component may carry the name of the fused index (`fuse m, n as m`): its own name gets a mark
    new = {c: c + "~" for c in mine if c == line.name}
    names = {Var(c): as_expr(Var(n)) for c, n in new.items()}

    def renamed(v):
        return substitute(v, names) if names else v

    def swap(indices: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(line.name if i in mine else i for i in indices))

    def own(indices: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(new.get(i, i) for i in indices)

    reduction = replace(w.reduction, indices=swap(w.reduced)) if w.reduction and reduced else w.reduction
    return replace(
        w,
        indices=swap(w.indices) if free else w.indices,
        subscripts=own(w.subscripts or w.indices),
        value=renamed(w.value),
        reduction=reduction,
        outputs=tuple(replace(o, indices=own(o.indices), value=renamed(o.value)) for o in w.outputs),
        fused=(*w.fused, (line.name, tuple((new.get(c, c), e, b) for c, e, b in parts))),
    )


def _other_types(instrs: Sequence[Instr], computation: Computation) -> str:
    """Which types the instructions take, where none takes those at hand."""
    here = {load.dtype.name for load in loads(computation.value)}
    takes = [{o.dtype.name for o in i.operands if o.role == "input"} for i in instrs]
    way = "`compute` alone is the scalar body"
    if any(t & here for t in takes):
        return way
    wanted = " or ".join(dict.fromkeys(" and ".join(sorted(t)) for t in takes[:4]))
    return f"it takes {wanted}; the operands here are {' and '.join(sorted(here))}; {way}"
