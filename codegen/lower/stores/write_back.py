"""The write-back of an accumulator: by the units that have it, or by the lines of its `keep`'s block.

ROUND_FIRST      a write-back through another memory takes results, not sums, if a unit can compute them from its registers
                 (those of other results among them) and from tensors with fewer axes (a row of biases): then the staged
                 elements are as narrow as the result. Tensors as large as the result are read after the staging step, in the
                 order of the block.
LEFT_OPEN        if the block names the memory of results, but not the units that store them from there, they are distributed
                 like a copy (SHARE_OUT); `complete` prints it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from ....dsl import syntax
from ....dsl.index.expr import Var, as_expr
from ....dsl.layout import Layout
from ....dsl.support.fast_replace import replace
from ....dsl.values import Load, Value, loads, transform
from ...ir.schedule_tree import Keep, Leaf, Move, Node, ShareOut, Step, Tile, with_leaf
from ...ir.tile_ir import Stmt
from ...plan.computations import Computation, Output
from ...plan.derived_names import ArgreduceIndex, RoundedResult
from ...schedule.build_tree import schedule_tree
from ...schedule.synthetic_spans import with_spans
from ..copies.distribute_copy import copy_lines, with_axes_apart
from ..intermediates.block_lines import lines_about
from ..lowering_context import LoweringContext
from ..reductions.argreduce_index import found_index
from ..spec import Focus
from .store_instr import store_instr_name

if TYPE_CHECKING:
    from ..lower_schedule import Lowering


def _final(ctx: LoweringContext, w: Computation, value: Value) -> Value:
    """For argmax the result is the place, not the value."""
    if w.reduction is None or w.reduction.kind not in ("argmax", "argmin"):
        return value
    place = ArgreduceIndex(w.name)

    def step(v: Value) -> Value | None:
        return found_index(Load(place, v.indices, ctx.dtypes[place])) if isinstance(v, Load) and v.tensor == w.name else None

    return transform(value, step)


def write_back(low: Lowering, focus: Focus, w: Computation, owner: Node, keep: Keep | None) -> list[Stmt]:
    results = [_result(low, w, o, keep) for o in w.outputs]
    if keep is None or keep.block is None or any(x.using for x in results):
        return [s for x in results for s in low.lower(replace(focus, computations=(x,)), owner)]
    block = write_back_block(low.ctx, keep, {w.result, *(x.name for x in results)})
    with lines_about(low, keep, results):
        return [s for x in results for s in _by_block(low, focus, x, w, block)]


def _result(low: Lowering, w: Computation, o: Output, keep: Keep | None) -> Computation:
    """A result as it is stored, from the accumulator."""
    return Computation(
        o.tensor,
        w.indices,
        _final(low.ctx, w, o.value),
        None,
        w.extents,
        span=o.span or w.span,
        subscripts=o.indices,
        atomic=o.atomic,
        fused=w.fused,
        using=store_instr_name(low, keep, low.ctx.dtypes[o.tensor]),
    )


def _by_block(low: Lowering, focus: Focus, computation: Computation, w: Computation, block: Node) -> list[Stmt]:
    names = {computation.name, w.result}
    if _made_by_owners(low, focus, computation, w, block):
        rounded = RoundedResult(computation.name)
        low.ctx.dtypes[rounded] = low.ctx.dtypes[computation.name]
        at = tuple(as_expr(Var(i)) for i in w.indices)
        stored = replace(computation, value=Load(rounded, at, low.ctx.dtypes[rounded]))
        view = replace(focus.views[w.name], stored_value=computation.value)
        return low.lower(replace(focus, computations=(stored,)).with_view(rounded, view), renamed(block, names, rounded))
    # the block's `move C -> shared` stages the accumulator: the copy's source is what the block calls by the tensor's name
    return low.lower(replace(focus, computations=(computation,)), renamed(block, names, w.name))


def _made_by_owners(low: Lowering, focus: Focus, computation: Computation, w: Computation, block: Node) -> bool:
    """ROUND_FIRST."""
    ctx = low.ctx
    hop = next((x for x in block.path() if isinstance(x, Move)), None)
    if hop is None or hop.tensor not in (computation.name, w.result) or focus.views[w.name].form != "path":
        return False
    if (
        ctx.register(hop.memory or ctx.device.memories[-1].name)
        or ctx.dtypes[computation.name].bytes > ctx.dtypes[w.name].bytes
    ):
        return False
    held = {t for t, view in focus.views.items() if view.form == "path"}
    others = [ld for ld in loads(computation.value) if ld.tensor not in held]
    return all(len({v for e in ld.indices for v in e.variables()}) < len(w.indices) for ld in others)


def renamed(node: Node, names: set[str], to: str) -> Node:
    """The tree, whose moves of the tensors in `names` are moves of `to`."""
    if not isinstance(node, Step):
        return node
    below = renamed(node.below, names, to)
    if isinstance(node, Move) and node.tensor in names:
        return node.but(tensor=to, below=below)
    return node if below is node.below else node.but(below=below)


# ---------------------------------------------------------------- what a block leaves open


def write_back_block(ctx: LoweringContext, keep: Keep, stored: Collection[str]) -> Node:
    """The block, with a leaf for what it leaves open (LEFT_OPEN). `stored`: the names of what it moves on its way."""
    block = keep.block
    assert block is not None
    nodes = list(block.path())
    has_leaf = isinstance(block.leaf, Leaf) and not block.leaf.is_implied
    distributed = has_leaf or any(isinstance(x, Tile) and x.level is not None for x in nodes)
    moves = (x for x in nodes if isinstance(x, Move) and x.tensor in stored)
    hops = [x.memory or ctx.device.memories[-1].name for x in moves]
    return block if distributed or not hops or ctx.register(hops[-1]) else with_leaf(block, ShareOut(keep=keep))


def share_out(low: Lowering, focus: Focus, leaf: ShareOut) -> list[Stmt]:
    """The one computation in focus by the lines of a copy."""
    ctx, keep = low.ctx, leaf.keep
    (computation,) = focus.computations
    copy = ctx.shared_out.get(keep.key)  # the same wherever the leaf is lowered
    if copy is None:
        found = [(i, focus.ranges[i].whole_capacity) for i in computation.indices]
        axes = [(i, n) for i, n in found if n is not None]
        held = any(focus.views[t].form == "path" for t in (computation.name, *computation.reads))
        if held or len(axes) < len(found) or any(focus.ranges[i].strided_runs for i in computation.indices):
            return low.lower(focus, Leaf())
        last = (computation.subscripts or computation.indices)[-1:]
        axes.sort(key=lambda a: a[0] in last)  # neighbours in the result are neighbours of one another
        layout = Layout.row_major([(i, as_expr(n)) for i, n in axes])
        target = next(b for b in ctx.buffers if b.name == focus.views[computation.name].buffer)
        result = Load(computation.name, tuple(as_expr(Var(i)) for i, _ in axes), ctx.dtypes[computation.name])
        lines = with_spans(with_axes_apart(copy_lines(ctx, focus, axes, result, target, layout)), ctx.synthetic_line_numbers)
        copy = ctx.shared_out[keep.key] = schedule_tree(lines)
        block = keep.line.block if isinstance(keep.line, syntax.Keep) else None
        ctx.filled_lines[keep.key] = (*(block or ()), *lines)
    return low.lower(focus, copy)
