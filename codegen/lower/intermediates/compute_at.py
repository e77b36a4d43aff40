"""`keep T in MEMORY:` with a block, or `move T -> MEMORY`, for an intermediate: the block schedules T's own statement, here.

OWN_NEST   the block belongs to T alone: its ranges are the footprint that the lines below read, and tiles below do not divide
           its work. T may lack indices that its readers have: it is computed once for each focus of the line.
IN_REGISTERS   the block of a reduction lays its results out: readers below find them in the registers of their own unit, as
           they lie, or are refused.
FILLED     what a `move` computes is zero outside the live ranges, as copies are, so instructions read it as they read these. A
           reduction is computed there of zeros, and its results are not stored.
RESUMED    in a loop over what a reduction is summed over, the block goes on from its result of the iteration before
           (`resume_accumulator`).
AHEAD      what is computed element by element where a `move` stages it runs ahead like a copy: the loads of the next tile are
           issued early, and it is computed when it is stored (`pipelining.split_copies`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....dsl.errors.schedule import BadLayout, CannotMeet, NotComputed, UnboundedTile
from ....dsl.index.expr import Expr, Var, as_expr
from ....dsl.support.fast_replace import replace
from ....dsl.values import Cast, Const, Masked, Value, loads
from ...ir.schedule_tree import Keep, Move, fragment_of
from ...ir.tile_ir import Alloc, Stmt
from ...plan.computations import Computation
from ...plan.derived_names import RimIndex, buffer_name, tensor_of
from ..buffers import memory_buffer
from ..copies.distribute_copy import copy_lines, with_axes_apart
from ..copies.pipeline_depth import copy_staging
from ..copies.staged_axes import StagedAxis, mask_copy, staged_index_axis, staged_view
from ..copies.unaligned_copies import aligned_fill
from ..leaves.instr_leaf import register_buffer
from ..leaves.owner_tree import owner_tree
from ..lowering_context import LoweringContext
from ..spec import Focus, Range, View, or_state_bound
from .block_lines import lines_about
from .readers import check_own_elements, focus_with_copy, kept_in_block_of_reader, reads_of, view_form
from .rims import check_one_nest, growing_distance, has_rim, in_own_names, value_outside, with_else_values

if TYPE_CHECKING:
    from ..lower_schedule import Lowering


def compute_at(low: Lowering, focus: Focus, node: Keep | Move, name: str, w: Computation) -> list[Stmt]:
    """w makes `name`, which other computations of the focus read; the block is its schedule, completed like a copy's."""
    ctx = low.ctx
    memory = node.memory or ctx.device.memories[-1].name
    in_registers = ctx.register(memory)
    if in_registers and (node.block is None or w.reduction is None):
        raise BadLayout(
            f"`{name}` is held in registers by the units that make it, as the lines below spread it",
            node.span,
            help=f"write `keep {name} in {memory}` without a block, or make it in a memory that units share",
        )
    _check_reads(low, focus, node, name, w, memory)
    check_one_nest(low, focus, w, node.below)
    focus = focus_with_copy(low, focus, name, w, node.below)
    if in_registers:
        return _in_registers(low, focus, node, name, w)
    indices = w.stored_indices(name)
    others = replace(focus, computations=tuple(x for x in focus.computations if x is not w))
    axes = [_axis(low, others, i, name, memory, node) for i in indices]
    buffer, layout = memory_buffer(ctx, focus, name, ctx.dtypes[name], memory, [(a.name, a.extent) for a in axes], node)
    ctx.buffers.append(buffer)
    form = view_form(others.computations, node, name, w)
    view = replace(staged_view(ctx, focus, buffer, form, axes, layout), computed=True)
    own, ranges = in_own_names(w, focus.ranges)
    if has_rim(w) and isinstance(node, Move):
        outside = value_outside(others, w)
        rims = frozenset(i.of for i in indices if isinstance(i, RimIndex))
        own = _filled(own, axes, () if outside is None else _inside(ctx, axes, rims, name), outside)
        view = replace(view, computed=outside is None, fully_written=view.fully_written - rims)
        ranges |= {a.name: Range(a.origin, as_expr(a.extent), a.fill) for a in axes}
    elif has_rim(w):
        view = replace(view, zero_padded=False, filled_extents=None, fully_written=frozenset())
    elif w.reduction is None:  # zero outside the live ranges, as copies are
        own = replace(w, value=mask_copy(w.value, axes))
        ranges = {a.name: Range(a.origin, as_expr(a.extent), a.fill) for a in axes}
    elif isinstance(node, Move):
        own = _filled(w, axes)
        ranges = {a.name: Range(a.origin, as_expr(a.extent), a.fill) for a in axes}
        ranges |= {i: focus.ranges[i] for i in w.reduced}
    else:
        view = replace(view, zero_padded=False)
        ranges = {i: focus.ranges[i] for i in (*indices, *w.reduced)}
    loops = tuple(x for x in focus.loops if x[0] in w.reduced)  # RESUMED
    if loops and (has_rim(w) or isinstance(node, Move)):
        raise _no_partial_result(node, name, memory, loops[0][0], has_rim(w))
    making = replace(
        focus.with_view(name, view), computations=(own,), ranges=ranges, loops=loops, tile_loops=(), open_accumulators={}
    )
    ahead = isinstance(node, Move) and w.reduction is None  # AHEAD
    if node.instr is not None or (isinstance(node, Move) and node.pipeline is not None and not ahead):
        ctx.note(f"`{name}` is computed where it is moved: what its line says of copies is left out")
    block = node.block
    if block is None:
        source = next(iter(loads(own.value)), own.value)
        lines = copy_lines(ctx, making, [(a.name, a.extent) for a in axes], source, buffer, layout)
        lines = with_axes_apart(lines) if has_rim(w) else lines  # an index without a rim is that of the tile
        block = ctx.fill(node, lines)
    with lines_about(low, node, (own,), makes=True):
        made = aligned_fill(low, making, [(a.name, a.extent) for a in axes], block, buffer)
    staging = None
    if isinstance(node, Move) and ahead:
        staging = copy_staging(low, focus, node, reads_of(others.computations, name), memory, len(made))
        ctx.rotating[buffer.name] = staging.depth
    body = low.lower(others.with_view(name, view), node.below)
    return [Alloc(buffer, (*made, *body), node.span, staging)]


def _no_partial_result(node: Keep | Move, name: str, memory: str, index: str, rim: bool) -> CannotMeet:
    """RESUMED: a tile that reaches beyond its own elements has no partial result of its own."""
    what = "for itself, with a rim" if rim else "with zeros around it"
    way = f"write this line above the first tile of `{index}`"
    return CannotMeet(
        f"each tile makes `{name}` {what}, and would go on in the next tile of `{index}` from what its neighbours stored",
        node.span,
        help=way if rim else f"{way}, or `keep {name} in {memory}:`",
    )


def _check_reads(low: Lowering, focus: Focus, node: Keep | Move, name: str, w: Computation, memory: str) -> None:
    """What the block reads is there when it begins, where its units read it. Raises NotComputed."""
    ctx = low.ctx
    made_below = {t for x in focus.computations if x is not w for t in x.targets} & w.reads
    in_pass = any(x.key in ctx.online for x in ctx.lines_above)  # whose lines compute what follows a running value
    pointwise = in_pass and w.reduction is None  # a product's results lie as an instruction has them, too
    laid_out = {t for t in w.reads if t in focus.views and fragment_of(focus.views[t].owner) is not None} if pointwise else ()
    if not made_below and not laid_out:
        return
    first = tensor_of(sorted(made_below or laid_out)[0])
    for t in sorted(made_below):
        kept_in_block_of_reader(node, t, next(x for x in focus.computations if t in x.targets), w)
    raise NotComputed(
        f"`{name}` is made here, and `{first}`, which it reads, "
        + ("by the lines below" if made_below else "lies in registers as an instruction below has it"),
        node.span,
        help=f"write `keep {name} in {memory}`, without a block: the lines of an `online` tile compute it"
        if in_pass
        else _with_block(low, first, memory),
    )


def _with_block(low: Lowering, first: str, memory: str) -> str:
    """The way to have a tensor before a block begins: a line of its own, or a block for the line that keeps it."""
    line = next((x for x in low.ctx.lines_above if isinstance(x, Keep) and first in x.names), None)
    if line is not None and line.memory is not None and not low.ctx.register(line.memory):
        return f"give the line above that keeps `{first}` a block: `keep {first} in {line.memory}:`"
    return f"write `keep {first} in {memory}`, with a block, above this line"


def _filled(w: Computation, axes: list[StagedAxis], inside: tuple[Expr, ...] = (), outside: Const | None = None) -> Computation:
    """FILLED: the reduction, computed and stored over whole axes; `outside` where not all of the conditions `inside` hold."""
    own = {i for i, fused in w.alias.items() if fused in w.indices} | {*w.indices}

    def stored(value: Value) -> Value:
        if outside is not None and inside:
            there = outside if outside.dtype == value.dtype else Cast(outside, value.dtype)
            value = Masked(inside, value, there, value.dtype)
        return mask_copy(value, axes)

    outputs = tuple(replace(o, value=stored(o.value)) for o in w.outputs)
    return replace(w, value=with_else_values(w.value, w.reads, frozenset(own)), outputs=outputs)


def _inside(ctx: LoweringContext, axes: list[StagedAxis], rims: frozenset[str], tensor: str) -> tuple[Expr, ...]:
    """What holds of these axes where an element of a rim is one of the tensor."""
    out: list[Expr] = []
    for a, n in zip(axes, ctx.shapes[tensor], strict=True):
        if a.name in rims:
            at, ends = as_expr(Var(a.name)), (a.origin, n - a.origin - a.extent)
            out += [c for c, least in zip((at, n - at - 1), ends, strict=True) if not least.at_least(0)]
    return tuple(out)


def _axis(low: Lowering, others: Focus, index: str, tensor: str, memory: str, node: Keep | Move) -> StagedAxis:
    """What is made along an index: what the lines below read of the focus, or the rim around that."""
    if not isinstance(index, RimIndex):
        return staged_index_axis(low, others, index, tensor, memory, node.below)
    r = others.ranges[index]
    extent = r.size.constant
    if extent is None:
        _check_distances(low, others, index, tensor, node)
        raise UnboundedTile(
            f"what readers of `{tensor_of(tensor)}` read along `{index.of}` has no constant extent here",
            node.span,
            help=f"tile `{index.of}` above this line{or_state_bound(r.size)}",
        )
    return StagedAxis(index.of, r.base, extent, (), ())


def _check_distances(low: Lowering, others: Focus, index: RimIndex, tensor: str, node: Keep | Move) -> None:
    """Raises UnboundedTile where no tile helps, since readers read further and further apart."""
    own = next(w for w in low.computations if tensor in w.targets)
    axis = own.subscripts_of(tensor).index(index.of)
    names = {i: i.of if isinstance(i, RimIndex) else i for w in others.computations for i in w.indices}
    told = {Var(i): as_expr(Var(name)) for i, name in names.items()}
    subscripts = [ld.indices[axis].subs(told) for ld in reads_of(others.computations, tensor)]
    found = growing_distance(subscripts, {*names.values()})
    if found is not None:
        name, (first, other, i) = tensor_of(tensor), found
        raise UnboundedTile(
            f"`{name}` is read at `{first}` and at `{other}` along `{index.of}`, and their distance grows with `{i}`:"
            " no tile of constant size holds both",
            node.span,
            help=f"give `{name}` a launch of its own: `keep {name} in {low.ctx.device.memories[0].name}:` with `auto` below it",
        )


def _in_registers(low: Lowering, focus: Focus, node: Keep | Move, name: str, w: Computation) -> list[Stmt]:
    """IN_REGISTERS."""
    ctx = low.ctx
    assert node.block is not None
    check_own_elements(focus, node, name, w)
    indices = w.stored_indices(name)
    depth = tuple(len(focus.ranges[i].steps) for i in indices)
    owner = owner_tree(low, node.block, w)
    view = View(ctx.fresh(buffer_name(name)), "path", indices, depth=depth, owner=owner, zero_padded=False)
    others = replace(focus, computations=tuple(x for x in focus.computations if x is not w)).with_view(name, view)
    ranges = {i: r for i, r in focus.ranges.items() if i in w.all_indices}
    ranges |= {i: _as_read(ranges[i], low.footprint(others, i, node.below)) for i in indices}
    own = replace(focus, computations=(w,), ranges=ranges, loops=(), tile_loops=(), open_accumulators={})
    with lines_about(low, node, (w,), makes=True):
        made = low.lower(own.with_view(name, view), node.block)
    body = low.lower(others, node.below)
    buffer = register_buffer(ctx, view.buffer, ctx.dtypes[name], ctx.device.memories[-1].name, node.span)
    return [Alloc(buffer, (*made, *body), node.span)]


def _as_read(r: Range, extent: int) -> Range:
    """The range, of which lines below read so much: instructions that are larger read past its end."""
    return r if r.size.constant == extent or r.strided_runs else replace(r, size=as_expr(extent), bounds=(*r.bounds, r.size))
