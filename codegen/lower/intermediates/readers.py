"""Readers of intermediates of their own launch: whether a value is where they read it, and there in time.

OWN_ELEMENTS      a unit's registers have the elements that it computed: a reader of other elements needs a memory.
STORED_BESIDES    results that computations outside the focus read are also stored to the outermost memory: those of a reduction
                  when it is finished.
OPEN_AT_THE_END   tensors that a write-back reads are kept by a line above the one that opens the accumulator.
STORED_BY_OTHERS  a later nest of the launch reads results that an earlier nest stores to the outermost memory. If units cannot
                  synchronise, each reads only the elements that it stored itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ....dsl.errors.schedule import BadLayout, CannotMeet, NotComputed, RegisterMismatch
from ....dsl.index.expr import Expr, Var, as_expr
from ....dsl.source import Span
from ....dsl.support.fast_replace import replace
from ....dsl.values import Load, loads
from ...ir.schedule_tree import Keep, Materialise, Node, Tile, chain
from ...plan.computations import Computation, plain_index
from ...plan.derived_names import StoredCopy, tensor_of
from ..lowering_context import LoweringContext
from ..spec import Focus

if TYPE_CHECKING:
    from ..lower_schedule import Lowering


def reads_of(computations: Iterable[Computation], tensor: str) -> list[Load]:
    """What computations read of a tensor, in their values and where they are written back."""
    values = [v for w in computations for v in (w.value, *(o.value for o in w.outputs))]
    return [ld for v in values for ld in loads(v) if ld.tensor == tensor]


def reads_own_element(w: Computation, load: Load) -> bool:
    """Does the load read the very element that the work makes with the same indices?"""
    return load.otherwise is None and tuple(map(plain_index, load.indices)) == w.subscripts_of(load.tensor)


def check_own_elements(focus: Focus, keep: Materialise, tensor: str, w: Computation) -> None:
    """OWN_ELEMENTS. Raises RegisterMismatch."""
    other = next((ld for ld in reads_of(focus.computations, tensor) if not reads_own_element(w, ld)), None)
    if other is not None:
        name = tensor_of(tensor)
        at = ", ".join(map(str, other.indices)) + (" else ..." if other.otherwise is not None else "")
        raise RegisterMismatch(
            f"`{name}` is read as `{name}[{at}]`, and a unit's registers hold the elements that it computes itself",
            keep.span,
            help="keep it in a memory that units share",
        )


def view_form(readers: Iterable[Computation], node: Materialise, tensor: str, w: Computation) -> str:
    """How accesses of what `w` makes follow from its buffer (`View.form`): by subscripts; where indices are fused, by indices.

    Raises BadLayout where indices do not say it.
    """
    if not w.alias:
        return "box"
    if not all(reads_own_element(w, ld) for ld in reads_of(readers, tensor)):
        raise BadLayout(
            f"`{tensor_of(tensor)}` is read at other elements than those of the same indices, and some of"
            " its indices are fused",
            node.span,
            help="leave the line out, or tile without `fuse`",
        )
    return "indices"


def is_read_elsewhere(low: Lowering, focus: Focus, tensor: str) -> bool:
    """Whether the caller reads the tensor, whose output it is, or a computation that is not in focus, or another launch that
    somebody planned."""
    here = {x.name for x in focus.computations}
    others = (x for x in low.computations if x.name not in here and x.name not in low.served.get(tensor, ()))
    output = any(b.name == tensor and b.kind == "output" for b in low.ctx.buffers)
    return output or tensor in low.read_again or any(tensor in x.reads for x in others) or tensor in low.ctx.read_by_launches


def focus_with_copy(low: Lowering, focus: Focus, tensor: str, w: Computation, below: Node) -> Focus:
    """STORED_BESIDES: the focus where `w` makes the tensor, with a copy to the outermost memory if somebody reads it there: the
    caller, whose output it is; computations of other nests; a launch to follow. Those in focus read what is kept."""
    ctx = low.ctx
    if not is_read_elsewhere(low, focus, tensor) and not low.read_afterwards(focus, tensor, below):
        return focus
    copy, own = StoredCopy(tensor), w.subscripts_of(tensor)
    ctx.dtypes[copy] = ctx.dtypes[tensor]
    output = next((o for o in w.outputs if o.tensor == tensor and o.atomic is None), None)
    if output is not None and any(i in w.reduced for i, _, _ in focus.loops):  # the last iteration writes both
        both = replace(w, outputs=(*w.outputs, replace(output, tensor=copy)))
        computations = tuple(both if v is w else v for v in focus.computations)
        return replace(focus.with_view(copy, focus.views[tensor]), computations=computations)
    value = Load(tensor, tuple(as_expr(Var(i)) for i in own), ctx.dtypes[tensor])
    back = Computation(copy, w.indices, value, None, w.extents, span=w.span, fused=w.fused, subscripts=own)
    computations = tuple(x for v in focus.computations for x in ((v, back) if v is w else (v,)))
    return replace(focus.with_view(copy, focus.views[tensor]), computations=computations)


# ---------------------------------------------------------------- write-backs


def keeps_first(focus: Focus, w: Computation, keep: Keep) -> Node | None:
    """OPEN_AT_THE_END: the node, below those right below it that keep what the write-back of `w` reads; None without them."""
    needed = _needed(focus, w)
    first: list[Keep] = []
    after: list[Keep] = []
    below = keep.below
    while isinstance(below, Keep):
        read = tuple(t for t in below.names if t in needed)
        others = tuple(t for t in below.names if t not in needed)
        # a node that is divided is two
        first += [below.but(names=read, key=object() if others else below.key)] if read else []
        after += [below.but(names=others, key=object() if read else below.key)] if others else []
        below = below.below
    return chain(*first, keep, *after, below=below) if first else None


def check_kept_reads(focus: Focus, w: Computation, node: Node, keep: Keep | None) -> None:
    """OPEN_AT_THE_END. Raises NotComputed at a line below that keeps what the write-back of `w` reads. `keep`: the line of the
    accumulator, where it has one."""
    needed = _needed(focus, w)
    for x in node.path() if needed else ():
        first = next((t for t in x.tensors if t in needed), None)
        if first is not None:
            whole, line = w.result, "the first tile of " + " and ".join(f"`{i}`" for i in w.reduced)
            if keep is not None and keep.span is not None:
                line = f"the line that keeps `{keep.names[0]}`"
            raise NotComputed(
                f"`{first}` is read at the write-back of `{whole}`, which comes after the end of what this line keeps",
                x.span,
                help=f"write it above {line}, or leave it out",
            )


def _needed(focus: Focus, w: Computation) -> frozenset[str]:
    """What the write-back of `w` reads of other computations in focus that nothing keeps yet."""
    made = {
        t for x in focus.computations if x is not w for t in x.targets if t in focus.views and focus.views[t].form == "global"
    }
    return frozenset(ld.tensor for o in w.outputs for ld in loads(o.value) if ld.tensor in made)


# ---------------------------------------------------------------- nests one after another


def stored_by_others(low: Lowering, focus: Focus, parts: list[tuple[Computation, ...]], node: Node) -> None:
    """STORED_BY_OTHERS. Raises CannotMeet where a later part reads what units store that it cannot wait for; NotComputed where
    a line in the block of what reads it was to keep it."""
    pairs = [
        (v, w, t)
        for n, part in enumerate(parts)
        for v in (v for earlier in parts[:n] for v in earlier if v not in part)
        for w in part
        for t in v.targets
        if t in w.reads and focus.views[t].form == "global"
    ]
    if not pairs:
        return
    for index, level, span in _distributed(low.ctx, focus, node):
        for v, w, t in pairs:
            if index not in v.all_indices or reads_beyond_tile(v, w, index):
                first, then = v.result, w.result
                kept_in_block_of_reader(node, t, v, w)
                way = f"leave the line that holds `{t}` in one launch out, or do all of it in one {level}"
                keep = next((x for x in node.path() if isinstance(x, Keep) and t in x.tensors and not x.has_block), None)
                if keep is not None and keep.memory is not None and not low.ctx.register(keep.memory):
                    way = f"give `keep {t} in {keep.memory}` a block, which makes what each {level} reads; or {way}"
                raise CannotMeet(
                    f"`{then}` needs what every {level} makes of `{first}`, and none waits for another"
                    if index in v.all_indices
                    else f"`{first}` is stored by one {level}, and `{then}` in every {level} reads it: none waits for another",
                    span,
                    help=way,
                )


def kept_in_block_of_reader(node: Node, tensor: str, maker: Computation, reader: Computation) -> None:
    """Raises NotComputed at a line in the block of a `keep` of what the reader computes: the block computes nothing else."""
    then = "has a launch of its own" if maker.reduction is not None else "is recomputed where it is read"
    for x in node.path():
        if not isinstance(x, Keep) or x.block is None or reader.result not in x.tensors:
            continue
        line, name = next((y for y in x.block.path() if isinstance(y, Keep) and tensor in y.tensors), None), reader.result
        if line is None:
            continue
        raise NotComputed(
            f"the block of `keep {name}` computes `{name}` alone: what it reads of `{tensor}` is computed before it",
            line.span,
            help=f"leave this line out: `{tensor}` then {then}. Or keep it with a block above the line that keeps `{name}`,"
            " and above loops over indices that it lacks",
        )


def _distributed(ctx: LoweringContext, focus: Focus, node: Node) -> Iterator[tuple[str, str, Span | None]]:
    """The indices whose tiles units get that cannot wait for each other (none where all do the same, and one stores): the level
    of the units, and the line that distributes the tiles."""
    known: set[str] = set()
    for d in focus.digits:
        known.update(d.levels)
        alone = next((x for x in d.levels if ctx.device.level(x).siblings == "nothing"), None)
        if alone is not None and d.extent.constant != 1:
            yield d.index, alone, None
    for x in node.path():
        if not isinstance(x, Tile) or x.level is None or ctx.device.level(x.level).siblings != "nothing":
            continue
        known.add(x.level)
        for a in x.axes:
            capacity = focus.ranges[a.index].capacity if a.index in focus.ranges else 1
            if capacity is None or capacity > a.size:  # one tile: one unit
                yield a.index, x.level, x.span
    for level in ctx.device.levels[1:]:
        if level.siblings == "nothing" and level.units == "finite" and level.name in ctx.units and level.name not in known:
            yield "", level.name, None


def reads_beyond_tile(first: Computation, second: Computation, i: str) -> bool:
    """Whether one tile of `i` in the second work reads what more than that tile makes in the first."""
    for ld in (ld for t in first.targets for ld in reads_of((second,), t)):
        if i in first.reduced:
            return True
        here: Iterable[tuple[str, Expr]] = zip(first.subscripts_of(ld.tensor), ld.indices, strict=True)
        if any(first.alias.get(c, c) == i and plain_index(e) != c for c, e in here):
            return True
    return False
