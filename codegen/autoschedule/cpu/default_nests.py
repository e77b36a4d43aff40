"""Default nests for CPUs whose cores share a memory and have vector lanes, for computations that are not contractions.

LANES_READ    lanes go along the index in which most traffic is contiguous, four vectors at a time, so that loads overlap.
CHUNKS        a core takes long pieces of rows, or several rows. With shorter ones cores share cache lines, and memory serves
              them in turn.
FLAT_MAPS     if rows are short and all tensors have one layout, rows are one index with one remainder.
TRANSPOSED    if reads and writes are contiguous in different indices, squares are transposed in registers by an instruction of
              the device, or pass through the innermost cache. Blocks are long where rows are read: a page of each.
STREAMED      results larger than the caches use non-temporal stores where the device has them: otherwise each written line is
              read first.
IN_STRIPS     a sum over the slow index has a strip of results in registers, for a few rows at a time: long runs of memory.
SPLIT         a reduction to one element is split over the cores, by a workspace.
FUSED         statistics of a row and their readers are one nest, so that the row is still in the cache (`row_statistics`).
              Expensive elements that are read twice stay there (`row_caching`).
"""

from __future__ import annotations

from collections.abc import Set

from ....dsl import syntax
from ....dsl.device import Device, Level
from ....dsl.op import Op
from ....dsl.support.fast_replace import replace
from ....dsl.values import Load, loads
from ...lower.leaves.match_instr import InstrMatch
from ...lower.lowering_context import LoweringContext
from ...lower.stores.store_instr import is_store_instr
from ...plan.computations import Computation, fused_name, plain_index
from ...plan.group_launches import CircularLaunches, group_launches, launch_keeping, shared_outputs
from ..instr_mappings import reused_indices
from ..line_builders import tile_text
from ..machine_model import block_machine, core_level
from .matmul_model import square_transpose
from .row_caching import HeldRow, cached_rows, caches_of, repeated_rows

UNROLL = 4  # vectors: a block of a lane index, so that loads overlap [estimate; test_first_candidates]
ROWS = 32  # rows: that a core takes at once [measured: default-nests; test_first_candidates]
CHUNK = 16384  # elements: of a row, that a core takes at once [measured: default-nests; test_first_candidates]
FLAT = 64  # elements: a block of a transpose along the tensor that is written [measured: default-nests; test_first_candidates]
LONG = 1024  # elements: a block of a transpose along the tensor that is read [measured: default-nests; test_first_candidates]
STRIP = 8192  # bytes: of a row, that a core takes at once in register strips [measured: default-nests; test_first_candidates]
DEEP = 8  # rows: that a register strip adds up before it moves on [measured: default-nests; test_first_candidates]
ARGUMENTS = ("argmax", "argmin")


def cores_and_lanes(device: Device) -> tuple[Level, Level] | None:
    """The levels that these nests are for, where the device has them."""
    lane = device.levels[-1]
    cores = core_level(device)
    return (cores, lane) if cores is not None and lane.siblings == "lockstep" and lane.bytes else None


def vector_nest(
    ctx: LoweringContext, computations: tuple[Computation, ...], cores: Level, lane: Level
) -> tuple[syntax.Line, ...]:
    """The lines of a launch."""
    computation = max(computations, key=lambda w: len(w.all_indices))
    dtype = computation.value.dtype.compute
    vectors = [] if dtype.name == "bool" else [lane.name]
    block = UNROLL * max(1, (lane.bytes or 1) // dtype.bytes)
    fast, register = fastest_index(computation), ctx.device.memories[-1].name
    if len(computations) > 1 and all(w.reduction is None and w.indices == computation.indices for w in computations):
        lines = _pointwise(ctx, computation, fast, block, vectors, cores)
        kept = tuple(t for w in computations for t in w.targets if any(t in x.reads for x in computations))
        lines = [*lines[:-1], syntax.Keep(kept, register), *lines[-1:]] if kept else lines
        lines = _streamed(ctx, [w for w in computations if w.name not in kept], fast, lines, cores, lane)
    elif len(computations) > 1:
        kept = _kept(ctx, computations, cores)
        lines = _rows(computation, _shared(computations), fast, block, vectors, cores, kept)
        left = [w for w in computations if set(w.targets).isdisjoint(t for t, _ in kept)]
        lines = _streamed(ctx, left, fast, lines, cores, lane)
    elif computation.reduction is None:
        lines = _streamed(ctx, [computation], fast, _pointwise(ctx, computation, fast, block, vectors, cores), cores, lane)
    elif fast in computation.reduced and computation.indices:
        lines = _rows(computation, computation.indices, fast, block, vectors, cores, ((computation.result, register),))
    elif fast in computation.reduced:
        lines = _everything(ctx, computation, fast, block, vectors, cores)
    else:
        lines = _columns(ctx, computation, fast, block, vectors, cores)
    lines = [x for x in lines if not isinstance(x, syntax.Tile) or x.axes]  # of one element there is nothing to tile
    return tuple(lines) if lines and isinstance(lines[-1], syntax.Compute) else (*lines, syntax.Compute())


def _lanes(fast: str, block: int, vectors: list[str]) -> list[syntax.Line]:
    return [tile_text((fast, block)), *(tile_text((fast, 1), level=x) for x in vectors)]


def _dealt_rows(rows: tuple[str, ...], cores: Level, *more: tuple[str, int]) -> list[syntax.Line]:
    """CHUNKS. All rows but the last index one by one."""
    if not rows:
        return [tile_text(*more, level=cores.name)] if more else []
    sizes = [(i, ROWS if i == rows[-1] else 1) for i in rows]
    return [tile_text(*sizes, *more, level=cores.name), tile_text((rows[-1], 1))]


def _pointwise(
    ctx: LoweringContext, w: Computation, fast: str, block: int, vectors: list[str], cores: Level
) -> list[syntax.Line]:
    rows = tuple(i for i in w.indices if i != fast)
    if not rows:
        return [tile_text((fast, CHUNK), level=cores.name), *_lanes(fast, block, vectors)] if fast else []
    if vectors and (flat := _flat(ctx, w, block)) is not None:
        fuse, one = flat
        return [fuse, tile_text((one, CHUNK), level=cores.name), *_lanes(one, block, vectors)]
    across = _transposed(w, fast) if vectors else {}
    if across and len(set(across.values())) == 1:
        return _squares(ctx, w, fast, across, vectors, cores)
    return [*_dealt_rows(rows, cores, (fast, CHUNK)), *_lanes(fast, block, vectors)]


def _flat(ctx: LoweringContext, w: Computation, block: int) -> tuple[syntax.Fuse, str] | None:
    """FLAT_MAPS: the indices as one, if all reads have the layout of the result and rows are short; None otherwise."""
    sizes = [e.constant for i, e in w.extents if i in w.indices]
    alike = [tuple(map(plain_index, ld.indices)) == w.indices and ld.otherwise is None for ld in loads(w.value)]
    short = None not in sizes and 0 not in sizes and 1 < (sizes[-1] or 0) < block and (sizes[-1] or 0) % (block // UNROLL)
    if w.outputs or w.subscripts or not short or not alike or not all(alike) or len(w.indices) != len(sizes):
        return None
    same = all(tuple(x.constant for x in ctx.shapes.get(ld.tensor, ())) == tuple(sizes) for ld in loads(w.value))
    name = fused_name(w.indices)
    return (syntax.Fuse(w.indices, name), name) if same and name not in ctx.names else None


def _transposed(w: Computation, fast: str) -> dict[str, str]:
    """Tensors that are read along `fast`, but are contiguous in another index, with that index."""
    out: dict[str, str] = {}
    for ld in loads(w.value):
        plain = [plain_index(e) for e in ld.indices]
        once = len([x for x in loads(w.value) if x.tensor == ld.tensor]) == 1
        simple = None not in plain and len(set(plain)) == len(plain) and ld.otherwise is None
        if simple and once and fast in plain and plain[-1] not in (fast, None):
            out[ld.tensor] = str(plain[-1])
    return out


def _squares(
    ctx: LoweringContext, w: Computation, fast: str, across: dict[str, str], vectors: list[str], cores: Level
) -> list[syntax.Line]:
    """TRANSPOSED"""
    slow = next(iter(across.values()))
    swap = _swap(ctx, w, {fast, slow}, cores)
    if swap is not None:
        others = [(i, 1) for i in w.indices if i not in (fast, slow)]
        lanes = (ctx.device.levels[-1].bytes or 1) // w.value.dtype.bytes
        lines = [tile_text(*others, (fast, FLAT), (slow, LONG), level=cores.name)]
        lines.append(tile_text((slow, swap.extent(slow)), (fast, swap.extent(fast))))
        keep = syntax.Keep((w.name,), ctx.device.memories[-1].name, modifiers=_past_caches(ctx, w, lanes, cores))
        return [*lines, keep, syntax.Compute(swap.instr.name)]
    near = min((m for m in ctx.device.memories if m.level == cores.name), key=lambda m: m.capacity or 0, default=None)
    if near is None:
        return [*_dealt_rows(tuple(i for i in w.indices if i != fast), cores), *_lanes(fast, 1, vectors)]
    size, room = 64, (near.capacity or 1 << 15) * 2 // 3 // len(across)
    while size > 8 and size * (size + 1) * w.value.dtype.bytes > room:
        size //= 2
    pad = syntax.Modifier("pad", (syntax.Num(1),))
    lines: list[syntax.Line] = [tile_text(*((i, size if i in (fast, slow) else 1) for i in w.indices), level=cores.name)]
    lines += [syntax.Move(t, near.name, modifiers=(pad,)) for t in across]
    return [*lines, tile_text((slow, 1)), *(tile_text((fast, 1), level=x) for x in vectors)]


def _streamed(
    ctx: LoweringContext, computations: list[Computation], fast: str, lines: list[syntax.Line], cores: Level, lane: Level
) -> list[syntax.Line]:
    """STREAMED: results along `fast` are stored in whole vectors, from registers."""
    if not lines or lines[-1] != tile_text((fast, 1), level=lane.name):
        return lines
    keeps: list[syntax.Line] = []
    for w in computations:
        lanes = (lane.bytes or 1) // w.value.dtype.compute.bytes
        along = w.reduction is None and (w.subscripts or w.indices)[-1:] == (fast,)
        past = _past_caches(ctx, w, lanes, cores) if along and not w.outputs else ()
        keeps += [syntax.Keep((w.name,), ctx.device.memories[-1].name, modifiers=past)] if past else []
    return [*lines[:-1], *keeps, lines[-1]]


def _past_caches(ctx: LoweringContext, w: Computation, lanes: int, cores: Level) -> tuple[syntax.Modifier, ...]:
    """STREAMED. A result that the next launch reads should stay in a cache."""
    if not any(b.name == w.name and b.kind == "output" for b in ctx.buffers):
        return ()
    for i in ctx.device.instrs:
        target = i.operand(i.statement.target)
        fits = i.level == cores.name and target.dtype == ctx.dtypes[w.name] and target.shape == (lanes,)
        if fits and target.memory == ctx.device.memories[0].name and is_store_instr(i, ctx.register):
            return (syntax.Modifier("with", words=(i.family or i.name,)),)
    return ()


def _swap(ctx: LoweringContext, w: Computation, both: set[str], cores: Level) -> InstrMatch | None:
    """An instruction of a core that transposes a square in registers, if the computation is only a copy."""
    if not isinstance(w.value, Load) or w.value.dtype != ctx.dtypes[w.name]:
        return None
    return square_transpose(ctx.device, w, both, cores)


def _rows(w: Computation, rows: tuple[str, ...], fast: str, block: int, vectors, cores: Level, kept) -> list[syntax.Line]:
    lines = _dealt_rows(rows, cores)
    lines += [syntax.Keep((t,), memory) for t, memory in kept]
    lines += [tile_text((i, 1)) for i in w.all_indices if i != fast and i not in rows]
    return [*lines, *_lanes(fast, block, vectors)]


def _everything(
    ctx: LoweringContext, w: Computation, fast: str, block: int, vectors: list[str], cores: Level
) -> list[syntax.Line]:
    """SPLIT, unless it is the second part of a split, or cannot be split."""
    given = {b.name for b in ctx.buffers if b.kind == "input"}
    others = [i for i in w.reduced if i != fast]
    lines: list[syntax.Line] = []
    if {ld.tensor for ld in loads(w.value)} <= given and w.reduction is not None and w.reduction.kind not in ARGUMENTS:
        by = (syntax.Modifier("by", words=("workspace",)),)
        first = (others[0], 2 * ROWS) if others else (fast, 4 * CHUNK)
        lines.append(syntax.Tile((syntax.TileAxis(first[0], syntax.Num(first[1])),), cores.name, modifiers=by))
    lines.append(syntax.Keep((w.result,), ctx.device.memories[-1].name))
    return [*lines, *(tile_text((i, 1)) for i in others), *_lanes(fast, block, vectors)]


def _columns(
    ctx: LoweringContext, w: Computation, fast: str, block: int, vectors: list[str], cores: Level
) -> list[syntax.Line]:
    """IN_STRIPS, where all that is read is a matrix or more, by plain indices."""
    register = ctx.device.memories[-1].name
    rows = tuple(i for i in w.indices if i != fast)
    read = loads(w.value)
    plain = all(ld.otherwise is None and None not in map(plain_index, ld.indices) for ld in read)
    strips = plain and w.reduction is not None and w.reduction.kind not in ARGUMENTS
    lines: list[syntax.Line] = []
    if strips:
        lines = [
            tile_text(*((i, 1) for i in rows), (fast, max(block, STRIP // w.value.dtype.compute.bytes)), level=cores.name),
            tile_text((w.reduced[0], DEEP)),
        ]
    elif rows:
        lines = [tile_text(*((i, 1) for i in rows), level=cores.name)]
    else:
        lines = [tile_text((fast, CHUNK), level=cores.name)]
    lines += [tile_text((fast, block)), syntax.Keep((w.result,), register)]
    unroll = (syntax.Modifier("unroll", (syntax.Num(DEEP),)),) if strips else ()
    lines += [replace(tile_text((i, 1)), modifiers=unroll if i == w.reduced[0] else ()) for i in w.reduced]
    return [*lines, *(tile_text((fast, 1), level=x) for x in vectors)]


# ---------------------------------------------------------------- statistics of rows


def row_statistics(op: Op, device: Device) -> frozenset[str]:
    """FUSED: what to keep in the launch of its readers if the author wrote nothing: statistics of rows, which others read row
    by row.

    Products that these read come before, in launches of their own. Outputs are stored besides. What statements of other shapes
    read too, or reduce, has a launch of its own.
    """
    if cores_and_lanes(device) is None and block_machine(device) is None:
        return frozenset()
    inner = {t.name for t in op.tensors if t.role == "intermediate"} | shared_outputs(op)
    tried: set[tuple] = set()
    for w in (w for g in group_launches(op, frozenset()) for w in g):
        shape = w.indices, frozenset(w.reduced)
        if not w.indices or not w.reduced or shape in tried or inner.isdisjoint(w.targets):
            continue
        tried.add(shape)
        if found := _kept_statistics(op, device, inner, *shape):
            return found
    return frozenset()


def vector_statistics(op: Op, device: Device) -> frozenset[str]:
    """The same of an op on one vector, whose statistics are no rows: what would be in one launch, if one unit had it."""
    inner = {t.name for t in op.tensors if t.role == "intermediate"} | shared_outputs(op)
    along = {frozenset(s.reduction.indices) for s in op.statements if s.reduction is not None and not s.indices}
    return _kept_statistics(op, device, inner, (), *along) if len(along) == 1 else frozenset()


def _kept_statistics(op: Op, device: Device, inner: Set[str], rows: tuple[str, ...], along: frozenset[str]) -> frozenset[str]:
    """FUSED, of rows of this shape."""
    of_rows = [s.target for s in op.statements if s.indices == rows and s.target in inner]
    reads = {s.target: {ld.tensor for ld in loads(s.value)} for s in op.statements}
    # What is computed of values of a row, without a reduction, rides along with the last of them, but for outputs.
    rides = {(s.target, _last(of_rows, reads[s.target])) for s in op.statements if s.indices == rows and s.reduction is None}
    rides = {(x, t) for x, t in rides if t is not None and op.tensor(t).role == "intermediate"}
    kept = frozenset(t for t in of_rows if any(t in read and (x, t) not in rides for x, read in reads.items()))
    while kept:
        try:
            every = [w for g in group_launches(op, kept) for w in g]
        except CircularLaunches as error:
            kept -= error.tensors
            continue
        unfit = {t for w in every if not _is_of_rows(w, rows, along, kept) for t in kept & (w.reads | {w.name, *w.targets})}
        if not unfit:
            break
        kept -= unfit
    levels = cores_and_lanes(device)
    if levels is None and not _lie_along(op, rows, along):
        return frozenset()
    held = cached_rows(op, device, levels[0], rows, along) if levels is not None and kept else frozenset()
    found = next((x for x in (kept | held, kept) if kept and launch_keeping(op, x) is not None), frozenset())
    if found or not kept or levels is not None:
        return found
    # Statistics of what other statistics of the row finish, and store, are in one launch where it stays there.
    stored = frozenset(s.target for s in repeated_rows(op, rows, along))
    return kept if launch_keeping(op, kept | stored) is not None else frozenset()


def _lie_along(op: Op, rows: tuple[str, ...], along: Set[str]) -> bool:
    """Whether elements of such rows lie beside each other, so that units of a GPU share a row. Of columns each unit has its
    own, and few have one: parts of them, and what reads their sums, are launches of more units."""
    mine = (s for s in op.statements if {*rows} <= {i for i, _ in s.ranges} <= {*rows, *along})
    every = (ld.indices[-1] for s in mine for ld in loads(s.value) if ld.indices)
    return any(v.name in along for e in every for v in e.variables())


def _last(names: list[str], read: set[str]) -> str | None:
    return next((t for t in reversed(names) if t in read), None)


def _is_of_rows(w: Computation, rows: tuple[str, ...], along: Set[str], kept: Set[str]) -> bool:
    """Whether it is a reduction of rows, or goes over them, and reads what is kept of its own row alone. Products are none:
    tiles of them reuse what they read, rows do not."""
    if w.reduction is not None and (len(reused_indices(w)) > 1 or (w.reduction.kind in ARGUMENTS and kept & {*w.targets})):
        return False
    beyond, finish = {*w.all_indices} - {*rows}, w.reduction is None and w.indices == rows
    if (beyond != along and not finish) or not {*rows} <= {*w.indices} or (kept & {*w.targets} and w.indices != rows):
        return False
    read = (ld for v in (w.value, *(o.value for o in w.outputs)) for ld in loads(v) if ld.tensor in kept)
    return all(tuple(map(plain_index, ld.indices)) == rows for ld in read)


def _shared(computations: tuple[Computation, ...]) -> tuple[str, ...]:
    return min((w.indices for w in computations), key=len)


def _kept(ctx: LoweringContext, computations: tuple[Computation, ...], cores: Level) -> tuple[tuple[str, str], ...]:
    """Results of earlier computations that later ones of the launch read, with the memory that keeps them: registers if a row
    has one element of them."""
    read = {t for w in computations for t in w.reads}
    rows, register = _shared(computations), ctx.device.memories[-1].name
    outputs = {b.name for b in ctx.buffers if b.kind == "output"}
    held = []
    for w in computations:
        extents = tuple(e for i, e in w.extents if i in w.indices and i not in rows)
        held += [HeldRow(t, extents, w.value, t in outputs) for t in w.targets if t in read]
    memories = caches_of(ctx.device, cores, [x for x in held if x.extents])
    return tuple((x.name, memories.get(x.name, register)) for x in held)


# ---------------------------------------------------------------- neighbours


def fastest_index(computation: Computation) -> str:
    """The index along which most of the traffic is contiguous (LANES_READ): each access counts by its rank."""
    votes: dict[str, float] = {}
    outputs = [o.indices for o in computation.outputs] or [computation.subscripts or computation.indices]
    for indices in outputs:
        if indices:
            alias = computation.alias.get(indices[-1], indices[-1])
            votes[alias] = votes.get(alias, 0) + (len(indices) + 0.5 if computation.reduction is None else 0.5)
    for ld in loads(computation.value):
        last = ld.indices[-1] if ld.indices else None
        for v in last.variables() if last is not None else ():
            if last is not None and last.coefficient(v) == 1 and v.name in computation.all_indices:
                votes[v.name] = votes.get(v.name, 0) + len(ld.indices)
    votes = {i: n for i, n in votes.items() if i in computation.all_indices}
    if not votes:
        return computation.all_indices[-1] if computation.all_indices else ""
    return max(votes, key=lambda i: (votes[i], i in computation.indices))
