"""`move`: the footprint of a tensor under the focus is staged in a memory, once; below, the name means the copy.

FOOTPRINT_IS_WHAT_IS_READ   a leaf may read past its tile up to padding, so a buffer has the elements that the lines below read,
                            and the copy fills the missing ones with zero (or with the access's `else` value).
BOX_OR_VIEW                 an axis subscripted by a plain index is staged under that index, other axes as their box hull. With
                            a fused index the copy is a view over the focus's indices (im2col), and also if one index subscripts
                            several axes: a diagonal is not copied as a box.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...dsl.errors import did_you_mean
from ...dsl.errors.schedule import BadLayout, HeldTwice, NotRead, RegisterMismatch
from ...dsl.index.expr import Expr, Var, as_expr
from ...dsl.index.hull import hull
from ...dsl.support.fast_replace import replace
from ...dsl.values import Load, Masked, Value, loads
from ..ir.schedule_tree import CopyLeaf, Keep, Leaf, Move, Node, chain, fragment_of, steps_of, with_leaf
from ..ir.tile_ir import Alloc, Stmt
from ..ir.tile_visitors import spanned
from ..plan.computations import Computation, is_read_as_view, plain_index, unheld_indices
from ..plan.derived_names import RimIndex, StagedCopy, UnstoredResult, buffer_name, result_of
from ..plan.name_factors import is_square, side_names
from ..schedule.line_modifiers import check_modifiers, move_kind
from ..schedule.synthetic_spans import names_instr
from .buffers import check_one_owner, memory_buffer
from .copies.distribute_copy import copy_block, copy_lines
from .copies.pipeline_depth import copy_staging
from .copies.staged_axes import StagedAxis, filled_extents, mask_copy, masked, spanned_size, staged_index_axis, staged_view
from .copies.unaligned_copies import aligned_fill
from .intermediates.block_lines import names_other_nest, out_of_block, way_of_own_name
from .intermediates.compute_at import compute_at
from .intermediates.obeyed_lines import obeyed, refused_unless_obeyed
from .leaves.instr_leaf import register_buffer
from .leaves.owner_tree import owner_tree
from .other_launches import read_elsewhere
from .spec import ZERO, Focus, Range, View

if TYPE_CHECKING:
    from .lower_schedule import Lowering


LEAVE_OUT = "leave the line out: each access then reads the tensor where it is"


def lower_move(low: Lowering, focus: Focus, move: Move) -> list[Stmt]:
    ctx = low.ctx
    memory = move.memory or ctx.device.memories[-1].name
    found = [
        ld
        for w in focus.computations
        for v in (w.value, *(o.value for o in w.outputs))
        for ld in loads(v)
        if ld.tensor == move.tensor
    ]
    if not found:
        if names_other_nest(low, focus, lambda w: move.tensor in w.reads):
            return low.lower(focus, move.below)
        if ctx.register(memory) and low.block is not None and move.tensor in low.block.made:
            obeyed(low, move, move.tensor)  # what is computed is in registers on its way
            return low.lower(focus, move.below)
        reads = (t for w in focus.computations for t in w.reads)
        way = way_of_own_name(low, move.tensor, memory) or read_elsewhere(ctx, low.computations, move.tensor)
        out = out_of_block(low, lambda w: move.tensor in w.reads)
        way = way or out or ctx.did_you_mean(move.tensor, reads)
        refusal = NotRead(f"nothing in focus reads `{move.tensor}`", move.span, help=way)
        if out is None:
            raise refusal
        refused_unless_obeyed(low, move, move.tensor, refusal)
        return low.lower(focus, move.below)
    obeyed(low, move, move.tensor)
    maker = next((w for w in focus.computations if move.tensor in w.targets), None)
    held = focus.views[move.tensor].form == "path"
    if move.line is not None:
        check_modifiers(move.line, move_kind(maker is not None, ctx.register(memory), held))
    if maker is not None and focus.views[move.tensor].form == "global":
        return compute_at(low, focus, move, move.tensor, maker)
    if maker is not None:
        raise HeldTwice(
            f"`{move.tensor}` is kept by a line above, and computed by the lines below: there is nothing to move yet",
            move.span,
            help=f"leave this line out, or the `keep`: this line alone computes it in `{memory}`",
        )
    if ctx.register(memory):
        if any((ld.indices, ld.otherwise) != (found[0].indices, found[0].otherwise) for ld in found):
            raise RegisterMismatch(
                f"`{move.tensor}` is read at several subscripts, and a unit's registers hold the elements of only one",
                move.span,
                help="move it to a memory that units share",
            )
        return _to_registers(low, *_staging_step(focus, found[0]), move, found[0], memory)
    return _to_memory(low, focus, move, found, memory)


def _way_from_registers(low: Lowering, move: Move, memory: str) -> str:
    """The way out for a line that moves what a line above has in registers."""
    holds = next((x for x in reversed(low.ctx.lines_above) if x is not move and move.tensor in x.tensors), None)
    if isinstance(holds, Keep):
        return f"leave this line out: `keep {move.tensor} in {memory}` in place of registers has it where units share it"
    return "write this line above the one that moves it to registers"


# ---------------------------------------------------------------- registers


def _staging_step(focus: Focus, load: Load) -> tuple[Focus, Value]:
    """A copy staged one hop further: its mask goes with the first hop, and what comes after reads whole data."""
    (computation, *others) = focus.computations
    if (
        not others
        and computation.reduction is None
        and isinstance(computation.value, Masked)
        and computation.value.value == load
    ):
        return replace(focus, computations=(replace(computation, value=load),)), computation.value
    return focus, masked(_inherited(focus, load), load)


def _inherited(focus: Focus, load: Load) -> tuple[Expr, ...]:
    """What a mask around all that is computed here says of the indices of one load: it is not there to be read elsewhere."""
    (computation, *others) = focus.computations
    if others or computation.reduction is not None or not isinstance(computation.value, Masked):
        return ()
    mine = {v.name for e in load.indices for v in e.variables()}
    return tuple(c for c in computation.value.conds if all(v.name in mine for v in c.variables() if v.name in focus.ranges))


def _in_box(focus: Focus, load: Load, axes: list[StagedAxis]) -> tuple[Expr, ...]:
    """What a mask around the load says, of the axes of the box that is copied; not what they do not determine."""
    own = {}
    for e, a in zip(load.indices, axes, strict=True):
        names = [v for v in e.variables() if v.name in focus.ranges]
        if len(names) == 1 and names[0] not in (e - names[0]).variables():
            own[names[0]] = a.origin + Var(a.name) - (e - names[0])
    return tuple(c.subs(own) for c in _inherited(focus, load) if all(v in own for v in c.variables() if v.name in focus.ranges))


def _to_registers(low: Lowering, focus: Focus, source: Value, move: Move, load: Load, memory: str) -> list[Stmt]:
    """Each unit holds what it will read: the tiles below, and the leaf's fragment, say which elements those are."""
    ctx = low.ctx
    alias = focus.aliases
    indices = tuple(dict.fromkeys(alias.get(x.name, x.name) for e in load.indices for x in sorted(e.variables(), key=str)))
    indices = tuple(i for i in indices if i in focus.ranges)
    _check_fill(low, move, load, alias, set(indices))
    copy_name = StagedCopy(move.tensor)
    ctx.dtypes[copy_name] = load.dtype
    computation = Computation(copy_name, indices, source, None, (), span=move.span, fused=focus.fused)
    owner = owner_tree(low, move.below, computation, move.tensor, focus.computations)
    hops = [x for x in steps_of(move.block) if isinstance(x, Move)] if move.block is not None else []
    if move.instr is not None:
        owner = with_leaf(owner, CopyLeaf(instr=move.instr, fragment=fragment_of(owner), move=move))
    buffer = ctx.fresh(buffer_name(result_of(move.tensor)))
    view = View(buffer, "path", indices, depth=tuple(len(focus.ranges[i].steps) for i in indices), owner=owner)
    copying = replace(focus.with_view(copy_name, view), computations=(computation,), loops=(), tile_loops=())
    copy = spanned(tuple(low.lower(copying, chain(*hops, below=owner))), move.span)
    body = low.lower(focus.with_view(move.tensor, view), move.below)
    local = register_buffer(ctx, buffer, load.dtype, memory, move.span)
    return [Alloc(local, (*copy, *body), move.span, copy_staging(low, focus, move, [load], memory, len(copy)))]


# ---------------------------------------------------------------- memories


def _to_memory(low: Lowering, focus: Focus, move: Move, found: list[Load], memory: str) -> list[Stmt]:
    ctx = low.ctx
    alias = focus.aliases
    source = focus.views[move.tensor]
    # A read without `else` stays inside, so what the copy holds outside is for the others to say.
    found = sorted(found, key=lambda ld: ld.otherwise is None)
    first = found[0]
    if len({ld.otherwise for ld in found} - {None}) > 1:
        raise BadLayout(
            f"`{move.tensor}` is read with different `else` values, so one copy is not enough",
            move.span,
            help=LEAVE_OUT,
        )
    names = {x.name for ld in found for e in ld.indices for x in e.variables()} - ctx.size_names
    copy_name = StagedCopy(result_of(move.tensor))
    ctx.dtypes[copy_name] = ctx.dtypes[move.tensor]
    if source.form == "path" and not isinstance(move.tensor, UnstoredResult):
        raise RegisterMismatch(
            f"`{move.tensor}` is held in registers here, and a unit cannot read the registers of others",
            move.span,
            help=_way_from_registers(low, move, memory),
        )
    if source.form == "path":
        return _from_registers(low, focus, move, source, memory, copy_name)
    if move.view is not None or source.form == "indices" or is_read_as_view(found, alias):
        if len({ld.indices for ld in found}) > 1:
            raise BadLayout(
                f"`{move.tensor}` is read at several subscripts, and a copy by the indices here holds the elements of only one",
                move.span,
                help=f"leave the line out, or tile without `fuse`: then the copy is a box of `{move.tensor}`",
            )
        subscripts = tuple(
            dict.fromkeys(alias.get(n, n) for ld in found for e in ld.indices for n in _ordered(e) if n in names)
        )
        wanted = move.view or subscripts
        _check_view(focus, move, wanted, subscripts)
        form = "indices"
        axes = [staged_index_axis(low, focus, i, move.tensor, memory, move.below) for i in wanted]
        value: Value = first
        also = _inherited(focus, first)
    else:
        form = "box"
        axes: list[StagedAxis] = []
        for d in range(len(first.indices)):
            axes.append(_box_axis(low, focus, move, memory, d, found, {a.name for a in axes}))
        value = replace(first, indices=tuple(a.origin + Var(a.name) for a in axes))
        also = _in_box(focus, first, axes) if len({ld.indices for ld in found}) == 1 else ()
    _check_fill(low, move, first, alias, {a.name for a in axes} if form == "indices" else set())
    ranges = {a.name: Range(ZERO if form == "box" else a.origin, as_expr(a.extent), a.fill) for a in axes}
    buffer, layout = memory_buffer(
        ctx, focus, copy_name, ctx.dtypes[move.tensor], memory, [(a.name, a.extent) for a in axes], move
    )
    ctx.buffers.append(buffer)
    origin = tuple(a.origin for a in axes)
    view = staged_view(ctx, focus, buffer, form, axes, layout)
    local = View(
        buffer.name, "indices", tuple(a.name for a in axes), tuple(ZERO if form == "box" else o for o in origin), layout
    )
    names = tuple(a.name for a in axes)
    computation = Computation(copy_name, names, mask_copy(value, axes, also), None, (), span=move.span, fused=focus.fused)
    last = layout.digits[-1].axis if layout.digits else ""
    # Instructions are matched by what has its neighbours in the copy. A block of `compute` alone is also printed for no block.
    given = copy_block(move, move.block) if move.block is not None else None
    if given is not None and not _is_plain_leaf(given) and last in names[:-1]:
        computation = replace(computation, indices=(*(n for n in names if n != last), last), subscripts=names)
    copying = replace(
        focus, computations=(computation,), ranges=ranges, loops=(), tile_loops=(), open_accumulators={},
        views={**focus.views, copy_name: local, move.tensor: source},
    )  # fmt: skip
    if given is not None:
        block = given
    else:
        lines = copy_lines(ctx, copying, [(a.name, a.extent) for a in axes], value, buffer, layout, move)
        block = ctx.fill(move, lines)
        if move.instr is not None and copy_block(move, block) is not block:
            ctx.note(f"`with {move.instr}`: no units share the copy of `{move.tensor}`, which is made element by element")
        elif names_instr(move.line) and isinstance(block.leaf, Leaf):
            block = with_leaf(block, block.leaf.but(named_at=move.span))
    copy = aligned_fill(low, copying, [(a.name, a.extent) for a in axes], block, buffer)
    staging = copy_staging(low, focus, move, found, memory, len(copy))
    ctx.rotating[buffer.name] = staging.depth
    body = low.lower(focus.with_view(move.tensor, view), move.below)
    return [Alloc(buffer, (*copy, *body), move.span, staging)]


def _check_fill(low: Lowering, move: Move, read: Load, alias: Mapping[str, str], known: set[str]) -> None:
    """Raises BadLayout where the `else` value of a read depends on an index that the copy does not know."""
    loose = sorted(unheld_indices([read], alias, known) - low.ctx.size_names)
    if loose:
        raise BadLayout(
            f"`{move.tensor}` is read with an `else` value that depends on `{loose[0]}`; a copy has one for all reads",
            move.span,
            help=LEAVE_OUT,
        )


def _is_plain_leaf(block: Node) -> bool:
    return isinstance(block, Leaf) and block.instr is None and not block.order and block.unroll == 1


def _check_view(focus: Focus, move: Move, wanted: tuple[str, ...], subscripts: tuple[str, ...]) -> None:
    """Raises BadLayout where the indices of `as (...)` are not all in focus, or do not tell all elements apart."""
    if gone := [i for i in wanted if i not in focus.ranges]:
        message = f"`{gone[0]}` is no index in focus here: it is part of another, or of another launch"
        raise BadLayout(message, move.span, help=did_you_mean(gone[0], focus.ranges))
    if lost := [i for i in subscripts if i not in wanted]:
        help = f"`as ({', '.join((*wanted, *lost))})`, say"
        raise BadLayout(f"`{move.tensor}` is read by `{lost[0]}`, which `as (...)` does not name", move.span, help=help)


def _ordered(e: Expr) -> list[str]:
    return [x.name for x in sorted(e.variables(), key=lambda v: v.name)]


def _as_factors(focus: Focus, tensor: str) -> str | None:
    """How to speak of the two factors of a product, where both are accesses of one tensor."""
    for w in focus.computations:
        if is_square(w) and tensor in w.reads:
            left, right = side_names(w.result)
            return f"as the factors of a product they have names of their own, `{left}` and `{right}`: write a line for each"
    return None


def _box_axis(low: Lowering, focus: Focus, move: Move, memory: str, d: int, found: list[Load], taken: set[str]) -> StagedAxis:
    """`taken`: the names of the axes before this one; an index is one of them only once."""
    ctx = low.ctx
    plain = {plain_index(ld.indices[d]) for ld in found}
    index = next(iter(plain))
    of_rim = isinstance(index, RimIndex)  # whose name the lines of a block cannot say
    if len(plain) == 1 and index is not None and not of_rim and index in focus.ranges and index not in taken:
        r = focus.ranges[index]
        extent = low.footprint(focus, index, move.below)
        valid = tuple(b - Var(index) - 1 for b in (*r.bounds, spanned_size(r)))
        return StagedAxis(
            index, r.base, extent, valid, filled_extents(low, focus, index, move.tensor, memory, move.below, extent)
        )
    hulls = [
        hull(ld.indices[d], {i: (r.base, low.footprint(focus, i, move.below) - 1) for i, r in focus.ranges.items()})
        for ld in found
    ]
    for ld, h in zip(found, hulls, strict=True):
        if h is None:
            where = f"`{move.tensor}` is subscripted by `{ld.indices[d]}`"
            raise BadLayout(f"{where}, whose box has no constant extent", move.span, help=LEAVE_OUT)
    lows = [h[0] for h in hulls if h]
    highs = [h[0] + h[1] for h in hulls if h]
    base = lows[0]
    offsets = [(x - base).constant for x in lows]
    ends = [(x - base).constant for x in highs]
    if any(x is None for x in (*offsets, *ends)):
        message = f"the accesses of `{move.tensor}` have no common box of constant extent"
        raise BadLayout(message, move.span, help=_as_factors(focus, move.tensor) or LEAVE_OUT)
    origin = base + min(x for x in offsets if x is not None)
    extent = max(0, max(x for x in ends if x is not None) - min(x for x in offsets if x is not None) + 1)  # 0: nothing is read
    tensor = result_of(move.tensor)
    name = f"{tensor}.{d}"
    at = origin + Var(name)
    size = ctx.shapes[tensor][d]
    valid = () if found[0].otherwise is not None else (at, size - at - 1)
    source = focus.views[move.tensor]
    mine = {v.name for ld in found for v in ld.indices[d].variables()} & focus.ranges.keys()
    if source.form == "box" and any(low.footprint(focus, i, move.below) > (focus.ranges[i].whole_capacity or 0) for i in mine):
        # what lines below read past a tile, in strided chunks or a leaf's, is not in the copy that this one is made of
        assert source.layout is not None
        here = at - source.origin[d]
        valid = (*valid, here, source.layout.axes[d][1] - here - 1)
    return StagedAxis(name, origin, extent, valid, ())


def _from_registers(low: Lowering, focus: Focus, move: Move, source: View, memory: str, copy_name: str) -> list[Stmt]:
    """A tile held in registers goes to a memory that all units see: every owner stores what it holds."""
    ctx = low.ctx
    assert source.owner is not None
    if move.pipeline is not None:
        ctx.note(f"`pipeline` of `{result_of(move.tensor)}`: what units hold in registers is stored at once")
    axes = [(i, low.footprint(focus, i, source.owner)) for i in source.axes]
    buffer, layout = memory_buffer(ctx, focus, copy_name, ctx.dtypes[move.tensor], memory, axes, move)
    check_one_owner(buffer, move.tensor, axes, source.owner, move)
    ctx.buffers.append(buffer)
    origin = tuple(focus.ranges[i].base for i in source.axes)
    view = View(buffer.name, "indices", source.axes, origin, layout, zero_padded=False)
    at = tuple(as_expr(Var(i)) for i in source.axes)
    value = source.stored_value or Load(move.tensor, at, ctx.dtypes[move.tensor])
    computation = Computation(copy_name, source.axes, value, None, (), span=move.span, fused=focus.fused)
    stored = low.lower(
        replace(focus, computations=(computation,), views={**focus.views, copy_name: view}, loops=()), source.owner
    )
    body = low.lower(focus.with_view(move.tensor, view), move.below)
    return [Alloc(buffer, (*stored, *body), span=move.span)]
