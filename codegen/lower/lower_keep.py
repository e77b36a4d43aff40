"""`keep`: an intermediate is materialised. A result is initialised, accumulated, and written back at the end of its focus.

TILE_OF_TILE   a line that keeps an accumulator nearer to the units than a line above goes on from what is there, and stores
               its own there (`resume_accumulator`).
A_LIST         names of one line have no order: a block computes what another one of them reads before that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...dsl import syntax
from ...dsl.errors.base import Label
from ...dsl.errors.schedule import HeldTwice, NotComputed, UnboundedTile
from ...dsl.index.expr import Var, as_expr
from ...dsl.support.fast_replace import replace
from ...dsl.values import Load
from ..ir.schedule_tree import Axis, FragmentLeaf, Keep, Leaf, Node, Tile
from ..ir.tile_ir import Alloc, Buffer, Stmt
from ..ir.tile_visitors import with_buffers
from ..plan.computations import Computation
from ..plan.derived_names import Accumulator, KeptResult, StagedCopy, buffer_name
from ..schedule.line_modifiers import check_modifiers, keep_kind
from .buffers import check_one_owner, memory_buffer
from .intermediates.block_lines import lines_about, names_other_nest, out_of_block
from .intermediates.compute_at import compute_at
from .intermediates.obeyed_lines import obeyed, refused_unless_obeyed
from .intermediates.readers import (
    check_kept_reads,
    check_own_elements,
    focus_with_copy,
    keeps_first,
    reads_of,
    reads_own_element,
    stored_by_others,
    view_form,
)
from .intermediates.rims import has_rim
from .leaves.fragment_fit import projected
from .leaves.instr_leaf import register_buffer
from .leaves.owner_tree import fragment_below, fragment_here, owner_tree
from .other_launches import computed_elsewhere
from .reductions.accumulator_computations import InitAccumulator, RunningUpdate, as_kind
from .reductions.argreduce_index import accumulator_types
from .reductions.check_combining import check_kept_parts
from .reductions.combine_partials import combine_partials
from .reductions.open_accumulators import REGISTER_CELLS
from .reductions.resume_accumulator import check_own_parts, resume_kept, resume_stored
from .show_spec import memory_of
from .spec import Focus, View
from .stores.store_instr import store_instr_name
from .stores.write_back import renamed, write_back, write_back_block

if TYPE_CHECKING:
    from .lower_schedule import Lowering


# ---------------------------------------------------------------- the line


def lower_keep(low: Lowering, focus: Focus, keep: Keep) -> list[Stmt]:
    name, *others = _producers_first(focus, keep)
    if others:
        keep = keep.but(names=(name,), below=keep.but(names=tuple(others), key=object()))
    read_here = {t for w in focus.computations for t in w.reads}
    called = {w.name: w.names for w in low.computations}  # in a pass of `online`, accumulators store no results
    for w in focus.computations:
        if isinstance(w, RunningUpdate) or name not in (*w.names, *called.get(w.name, ())):
            continue
        obeyed(low, keep, name)
        registers = low.ctx.register(keep.memory or low.ctx.device.memories[-1].name)
        if keep.line is not None:
            check_modifiers(keep.line, keep_kind(keep.block is not None, name in read_here, w.reduction is not None, registers))
        check_kept_parts(low.ctx.device, w, keep)
        part = low.split.get(w.name)
        name = part.target if part is not None and part.target in read_here else name  # what its own part has
        _check_bounded(low, focus, keep, name, w)
        if name in read_here and (w.name not in focus.open_accumulators or focus.views[name].form == "global"):
            return _keep_for_readers(low, focus, keep, name, w)
        if w.name in focus.open_accumulators:
            return _held_already(low, focus, keep, w)
        if w.reduction is not None and any(x.reads & {*w.targets} for x in focus.computations if x is not w):
            return _read_when_done(low, focus, w, keep)
        if w.reduction is not None:
            before = keeps_first(focus, w, keep)
            return low.lower(focus, before) if before is not None else lower_reduction(low, focus, w, keep.below, keep)
        return _keep_pointwise(low, focus, keep, w)
    if names_other_nest(low, focus, lambda w: name in w.names):
        return low.lower(focus, keep.below)
    copy = next((w.name for w in focus.computations if w.name == StagedCopy(name)), None)
    if copy is not None:  # in the block of a `move`, what it copies goes by the tensor's name
        return lower_keep(low, focus, keep.but(names=(copy,)))
    known = (t for w in focus.computations for t in w.names)
    out = out_of_block(low, lambda w: name in w.names)
    way = computed_elsewhere(low.ctx, low.computations, name) or out
    if any(b.name == name and b.kind == "input" for b in low.ctx.buffers):
        way = f"it is an input: `move {name}{'' if keep.memory is None else f' -> {keep.memory}'}` stages it"
    way = way or low.ctx.did_you_mean(name, known)
    refusal = NotComputed(f"nothing in focus computes `{name}`", keep.span, help=way)
    if out is None:
        raise refusal
    refused_unless_obeyed(low, keep, name, refusal)
    return low.lower(focus, keep.below)


def _producers_first(focus: Focus, keep: Keep) -> tuple[str, ...]:
    """A_LIST: the names as they are computed, where the line has a block. Without one, the lines below compute all of them."""
    if keep.block is None and not keep.open_block:
        return keep.names
    at = {t: n for n, w in enumerate(focus.computations) for t in w.names}
    return tuple(sorted(keep.names, key=lambda t: at.get(t, len(at))))


def _check_bounded(low: Lowering, focus: Focus, keep: Keep, name: str, w: Computation) -> None:
    """Raises UnboundedTile for what is kept above all tiles, in the memory of the outermost level, and is as large as it is."""
    outer = low.ctx.device.memories[0].name
    if keep.memory != outer or keep.block is not None or focus.level != low.ctx.outermost:
        return
    for i in w.indices:
        if i in focus.ranges and focus.ranges[i].whole_capacity is None:
            raise UnboundedTile(
                f"a buffer here spans `{i}`, whose extent has no bound",
                keep.span,
                help=f"`keep {name} in {outer}:` with `auto` below it gives `{name}` a launch of its own, for any size",
            )


def _keep_for_readers(low: Lowering, focus: Focus, keep: Keep, name: str, w: Computation) -> list[Stmt]:
    """What other computations in focus read. Raises HeldTwice where a line above keeps it for them."""
    if focus.views[name].form != "global":
        raise HeldTwice(
            f"`{name}` is kept by a line above, where others read it, and computed by the lines below",
            keep.span,
            help="leave one of the two lines out",
        )
    if keep.block is not None or (keep.open_block and has_rim(w)):
        return compute_at(low, focus, keep, name, w)
    return _materialise(low, focus_with_copy(low, focus, name, w, keep.below), keep, name, w)


def _read_when_done(low: Lowering, focus: Focus, w: Computation, node: Node) -> list[Stmt]:
    """Others read the result that the accumulator of `w` is written back to: they have a nest of their own, after it."""
    at = focus.computations.index(w) + 1
    parts = [focus.computations[:at], focus.computations[at:]]
    stored_by_others(low, focus, parts, node)
    return [s for part in parts for s in low.lower(replace(focus, computations=part), node)]


def _held_already(low: Lowering, focus: Focus, keep: Keep, w: Computation) -> list[Stmt]:
    """`keep` names an accumulator: that of two outputs, or of a result and its epilogue, is one; the first line opens it.

    TILE_OF_TILE: in a memory that is nearer to the units, the line keeps a tile of it.
    """
    ctx = low.ctx
    held = memory_of(ctx, focus, w.name)
    memories = [m.name for m in ctx.device.memories]
    nearer = keep.memory is not None and memories.index(keep.memory) > memories.index(held)
    if nearer and not _storage(keep):
        check_own_parts(focus, w, keep)
        return lower_reduction(low, focus, w, keep.below, keep)
    if keep.memory not in (None, held) and not nearer:
        raise HeldTwice(
            f"`{keep.names[0]}` comes from an accumulator that is held in `{held}` already",
            keep.span,
            help="one `keep` serves all that is made of one reduction",
        )
    first = low.opened.get(w.name)
    if _storage(keep) and (first is None or _storage(keep) != _storage(first)):
        raise HeldTwice(
            f"`{keep.names[0]}` comes from an accumulator that is kept already, and stored as its line says",
            keep.span,
            labels=[Label(first.span, "kept here")] if first is not None and first.span else [],
            help="say it there: one `keep` serves all that is made of one reduction",
        )
    return low.lower(focus, keep.below)


def _storage(keep: Keep) -> tuple:
    """The modifiers and the block of a line."""
    line = keep.line
    said = (line.modifiers, () if keep.open_block else line.block or ()) if isinstance(line, syntax.Keep) else ()
    return said if any(said) else ()


def _materialise(low: Lowering, focus: Focus, keep: Keep, name: str, w: Computation) -> list[Stmt]:
    """An intermediate lives in the memory named, from here to the end of the focus."""
    ctx = low.ctx
    indices = w.stored_indices(name)
    memory = keep.memory or ctx.device.memories[-1].name
    if ctx.register(memory):
        check_own_elements(focus, keep, name, w)
        buffer = ctx.fresh(buffer_name(name))
        owner = _inherited_owner(low, focus, keep.below, w)
        depth = tuple(len(focus.ranges[i].steps) for i in indices)
        view = View(buffer, "path", indices, depth=depth, owner=owner, zero_padded=False)
        body = low.lower(focus.with_view(name, view), keep.below)
        return [Alloc(register_buffer(ctx, buffer, ctx.dtypes[name], memory, keep.span), tuple(body), span=keep.span)]
    axes = [(i, low.footprint(focus, i, keep.below)) for i in indices]
    origin = tuple(focus.ranges[i].base for i in indices)
    made, layout = memory_buffer(ctx, focus, name, ctx.dtypes[name], memory, axes, keep)
    if not all(reads_own_element(w, ld) for ld in reads_of(focus.computations, name)):
        check_one_owner(made, name, axes, keep.below, keep)
    form = view_form(focus.computations, keep, name, w)
    edges = keep if w.reduction is None else None
    view = View(made.name, form, indices, origin, layout, zero_padded=False, computed=True, keep=edges)
    ctx.buffers.append(made)
    body = low.lower(focus.with_view(name, view), keep.below)
    return [Alloc(made, tuple(body), span=keep.span)]


def _inherited_owner(low: Lowering, focus: Focus, below: Node, w: Computation) -> Node | None:
    """How registers of what no instruction computes are visited, where they lie as what it reads (INHERITED)."""
    spread = fragment_here(focus.views, w) if w.reduction is None else None
    if spread is None and (found := fragment_below(low, below, w)) is not None:
        spread = projected(found, frozenset(w.indices))
    return None if spread is None else FragmentLeaf(fragment=spread)


def _keep_pointwise(low: Lowering, focus: Focus, keep: Keep, w: Computation) -> list[Stmt]:
    """A pointwise result is computed in the memory named, then written back by the same owners (or as the block says)."""
    ctx = low.ctx
    held = KeptResult(w.name)
    if not w.reads.isdisjoint((held, Accumulator(w.name))):  # the block of a `keep` of this tensor: its lines move what is held
        raise HeldTwice(
            f"`{keep.names[0]}` is held already where the block of its `keep` begins",
            keep.span,
            help=f"leave the line out, or stage what is stored: `move {keep.names[0]} -> MEMORY`",
        )
    if keep.block is not None and any(w.name in x.reads for x in focus.computations):  # stored before the block would run
        raise HeldTwice(
            f"`{keep.names[0]}` is held by a line above already, which stores it",
            keep.span,
            help="leave out one of the two lines, or write the block below the other",
        )
    memory = keep.memory or ctx.device.memories[-1].name
    if isinstance(w.name, KeptResult) and memory == memory_of(ctx, focus, w.name):
        raise HeldTwice(f"`{keep.names[0]}` is in `{memory}` already", keep.span, help="leave one of the two lines out")
    ctx.dtypes[held] = ctx.dtypes[w.name]
    at = tuple(as_expr(Var(i)) for i in w.subscripts_of(w.name))
    first = replace(w, name=held)
    last = replace(w, value=Load(held, at, ctx.dtypes[w.name]), using=store_instr_name(low, keep, ctx.dtypes[w.name]))
    computations = tuple(x for v in focus.computations for x in ((first, last) if v is w else (v,)))
    if keep.block is not None and last.using is None:
        kept = tuple(x for x in computations if x is not last)
        return _kept_and_moved(low, replace(focus, computations=kept), keep, first, last)
    return _materialise(low, replace(focus, computations=computations), keep.but(names=(held,)), held, first)


def _kept_and_moved(low: Lowering, focus: Focus, keep: Keep, first: Computation, last: Computation) -> list[Stmt]:
    """A pointwise result is computed by the lines below in the memory named, and written back from there by the block."""
    ctx, held = low.ctx, first.name
    memory = keep.memory or ctx.device.memories[-1].name
    indices = tuple(dict.fromkeys(first.alias.get(i, i) for i in first.indices))
    if ctx.register(memory):
        depth = tuple(len(focus.ranges[i].steps) for i in indices)
        owner = owner_tree(low, keep.below, first)
        view = View(ctx.fresh(buffer_name(held)), "path", indices, depth=depth, owner=owner, zero_padded=False)
        inner = focus.with_view(held, view)
        made = low.lower(inner, keep.below)
        buffer = None  # which is known when the lines below have laid it out
    else:
        axes = [(i, low.footprint(focus, i, keep.below)) for i in indices]
        buffer, layout = memory_buffer(ctx, focus, held, ctx.dtypes[held], memory, axes, keep)
        check_one_owner(buffer, held, axes, keep.below, keep)
        origin = tuple(focus.ranges[i].base for i in indices)
        form = view_form((last,), keep, held, first)
        view = View(buffer.name, form, indices, origin, layout, zero_padded=False, computed=True)
        ctx.buffers.append(buffer)
        inner = focus.with_view(held, view)
        made = low.lower(inner, keep.below)
    block = renamed(write_back_block(ctx, keep, {last.name}), {last.name}, held)
    with lines_about(low, keep, (last,)):
        stored = low.lower(replace(inner, computations=(last,)), block)
    buffer = buffer or register_buffer(ctx, view.buffer, ctx.dtypes[held], memory, keep.span)
    return [Alloc(buffer, (*made, *stored), span=keep.span)]


# ---------------------------------------------------------------- accumulators


def lower_leaf_reduction(low: Lowering, focus: Focus, w: Computation, leaf: Leaf) -> list[Stmt]:
    """No `keep` was written: the accumulator opens here, as much at a time as the instruction of the line computes (one element
    without one) where the tile left is large or unknown."""
    cells = 1
    for i in w.indices:
        cap = focus.ranges[i].whole_capacity
        cells = 0 if cap is None or cells == 0 else cells * cap
    if 0 < cells <= REGISTER_CELLS:
        return lower_reduction(low, focus, w, leaf)
    m = low.find_instr(leaf.instr, w, leaf.span) if leaf.instr is not None else None
    below = leaf if m is not None else Leaf(order=leaf.order, unroll=leaf.unroll)
    keep = Keep(names=(w.result,), memory=low.ctx.device.memories[-1].name, below=below)
    first = [i for i in leaf.order if i in w.indices]
    axes = tuple(Axis(i, m.extent(i) if m is not None else 1) for i in dict.fromkeys((*first, *w.indices)))
    return low.lower(focus, Tile(axes=axes, below=keep))


def lower_reduction(low: Lowering, focus: Focus, w: Computation, node: Node, keep: Keep | None = None) -> list[Stmt]:
    """Initialisation + body + combination + write-back of one reduction."""
    ctx = low.ctx
    assert w.reduction is not None
    outer = {name: focus.views[name] for name in w.accumulators} if w.name in focus.open_accumulators else {}
    if keep is not None and not outer:
        low.opened[w.name] = keep
    check_kept_reads(focus, w, node, keep)
    memory = (keep.memory if keep else None) or ctx.device.memories[-1].name
    owner = owner_tree(low, node, w)
    buffers: list[tuple[str, str]] = []
    inner = focus
    made: list[Buffer] = []
    for name, dtype in zip(w.accumulators, accumulator_types(w), strict=True):
        ctx.dtypes.setdefault(name, dtype)
        if ctx.register(memory):
            buffer = ctx.fresh(buffer_name(name))
            view = View(buffer, "path", w.indices, depth=tuple(len(focus.ranges[i].steps) for i in w.indices), owner=owner)
            buffers.append((name, buffer))
        else:
            axes = [(i, low.footprint(focus, i, node)) for i in w.indices]
            local, layout = memory_buffer(ctx, focus, name, ctx.dtypes[name], memory, axes, keep)
            if keep is not None and keep.block is not None:  # which visits what is held in a way of its own
                check_one_owner(local, name, axes, node, keep)
            origin = tuple(focus.ranges[i].base for i in w.indices)
            view = View(local.name, "indices", w.indices, origin, layout, zero_padded=False)
            made.append(local)
            ctx.buffers.append(local)
        inner = inner.with_view(name, view)
    inner = replace(inner, open_accumulators={**focus.open_accumulators, w.name: len(focus.digits)})
    body = low.lower(inner, node)
    single = replace(inner, computations=(as_kind(InitAccumulator, w),), loops=())
    init = low.lower(single, owner)
    combine = combine_partials(low, single, w, owner) if w.name in ctx.reduced else []
    if (close := low.closing.pop(w.name, None)) is not None:
        combine = close(single, node, combine)
    if outer:
        init, stored = resume_kept(low, inner, w, owner, outer, init)
        ctx.reduced.pop(w.name, None)  # they are combined here
    else:
        stored = write_back(low, replace(inner, loops=()), w, owner, keep)
        init, stored = resume_stored(low, inner, w, owner, init, stored, keep)
    span = keep.span if keep else None
    registers = [register_buffer(ctx, buffer, ctx.dtypes[name], memory, span) for name, buffer in buffers]
    return [*with_buffers((*made, *registers), (*init, *body, *combine, *stored), span)]
