"""One pass over the keys for attention and what is like it: products around a softmax, with a row for each lane.

    tile h: 1, i: 32 -> core                   ROWS_IN_LANES: of neighbouring rows each lane has one
    move q -> l2 layout (h, d, i)
    keep m, l in register
    keep o in l2 layout (h, d, i)
    tile t: 64 online
    keep s in l2 layout (h, t, i):             tiles of the scores accumulate in registers
        tile t: 8
        keep s in register
        tile d: 1
        tile i: 1 -> lane
        compute
    keep p in l2 layout (h, t, i)
    tile d: 8                                  so do tiles of the result
    keep o in register
    tile t: 1
    tile i: 1 -> lane
    compute

ROWS_IN_LANES   no lane waits for another: maxima and sums over the keys are those of vectors, and products need no transposed
                keys. Queries are transposed once, results when they are stored.
KNOWN_SIZES     sizes must be numbers: buffers hold a tile of all features, and fewer rows than lanes leave lanes idle.
MANY_KEYS       transposing queries and results takes time with the features, and pays where there are many more keys.
"""

from __future__ import annotations

from math import prod

from ....dsl import syntax
from ....dsl.device import Device
from ....dsl.values import loads
from ...lower.lowering_context import LoweringContext
from ...plan.computations import Computation, plain_index
from ...schedule.candidate import Candidate, Lines
from ..line_builders import modifier, move_with_layout, tile_text
from ..one_pass.find_pass import OnePass, name_of, one_pass_of
from .default_nests import cores_and_lanes

VECTORS = 2  # vectors: of rows, side by side [tried; test_lines_of_attention]
KEYS = 64  # keys: of an iteration, or a few more for whole register tiles [tried; test_lines_of_attention]
HIGH = 8  # rows of a register tile: of keys or of features, where registers allow as many [tried; test_lines_of_attention]
KEYS_A_FEATURE = 8  # keys: for each feature, for a pass to pay [measured: online; test_limits]
ROOM = 0.75  # share: of a cache, for the buffers [estimate; test_limits]


def one_pass_lines(device: Device, computations: tuple[Computation, ...]) -> Lines | None:
    """The lines of the pass; None where it is none, its sizes are not known, or no cache holds its buffers (KNOWN_SIZES)."""
    levels = cores_and_lanes(device)
    found = one_pass_of(computations) if levels is not None else None
    if levels is None or found is None:
        return None
    cores, lane = levels
    extents, last = {i: e.constant for i, e in found.extents.items()}, found.rows[-1]
    dtype = found.statistics[0].value.dtype.compute
    registers = device.memories[-1].registers
    width = max(1, (lane.bytes or 1) // dtype.bytes)
    if None in extents.values() or registers is None or dtype.kind != "float":
        return None
    known = {i: n or 0 for i, n in extents.items()}
    least = KEYS_A_FEATURE * max(known[i] for i in found.all_features)
    if known[last] < width or known[found.key] < least or 0 in known.values():
        return None
    across = VECTORS * width
    high = min(HIGH, max(1, (registers[0] - VECTORS - 1) // VECTORS))  # beside a row of operands and one that is broadcast
    keys = -(-KEYS // high) * high
    staged = _staged(found)
    cells = [prod(known[i] for i in axes if i not in found.rows) for _, axes in staged]
    cells += [prod(known[i] for i in found.features(w)) for w in found.products]
    cells += [keys] * (len(found.scores) + len(found.values))
    need = sum(cells) * across * dtype.bytes
    near = (m for m in device.memories if m.level == cores.name and m.capacity and need <= ROOM * m.capacity)
    memory = min(near, key=lambda m: m.capacity or 0, default=None)
    if memory is None:
        return None
    return _lines(device, found, cores.name, lane.name, memory.name, across, high, keys, staged)


def _staged(found: OnePass) -> list[tuple[str, tuple[str, ...]]]:
    """Tensors with rows that scores read, with their indices: lanes read neighbours of them where rows are last."""
    out: dict[str, tuple[str, ...]] = {}
    for w in found.scores:
        for ld in loads(w.value):
            axes = tuple(plain_index(e) for e in ld.indices)
            if found.rows[-1] in axes and None not in axes and len(set(axes)) == len(axes) and ld.otherwise is None:
                out[ld.tensor] = tuple(str(i) for i in axes)
    return list(out.items())


def _lines(
    device: Device,
    found: OnePass,
    core: str,
    lane: str,
    memory: str,
    across: int,
    high: int,
    keys: int,
    staged: list[tuple[str, tuple[str, ...]]],
) -> Lines:
    register, last = device.memories[-1].name, found.rows[-1]
    vector = tile_text((last, 1), level=lane)

    def rows_last(axes: tuple[str, ...]) -> tuple[str, ...]:
        return (*(i for i in axes if i != last), last)

    def kept(w: Computation, where: str, block: Lines | None = None) -> syntax.Keep:
        layout = tuple(syntax.Name(i) for i in rows_last(w.indices)) if where == memory else ()
        modifiers = (syntax.Modifier("layout", layout),) if layout else ()
        return syntax.Keep((name_of(w, found),), where, block=block, modifiers=modifiers)

    lines: list[syntax.Line] = [tile_text(*((i, across if i == last else 1) for i in found.rows), level=core)]
    lines += [move_with_layout(tensor, memory, rows_last(axes)) for tensor, axes in staged]
    lines += [kept(w, register) for w in (*found.statistics, *found.sums)]
    lines += [kept(w, memory) for w in found.products]
    lines.append(tile_text((found.key, keys), modifiers=modifier("online")))
    for w in found.scores:
        loop = [tile_text((i, 1)) for i in w.reduced]
        inner = (tile_text((found.key, high)), syntax.Keep((name_of(w, found),), register), *loop, vector, syntax.Compute())
        lines.append(kept(w, memory, inner))
    lines += [kept(w, memory) for w in found.values]
    for w in found.products[:1]:
        more = found.features(w)
        lines.append(tile_text(*((i, high if i == more[-1] else 1) for i in more)))
        lines.append(syntax.Keep(tuple(name_of(x, found) for x in found.products), register))
    return (*lines, tile_text((found.key, 1)), vector, syntax.Compute())


def one_pass_candidates(ctx: LoweringContext, computations: tuple[Computation, ...]) -> list[Candidate]:
    lines = one_pass_lines(ctx.device, computations)
    return [] if lines is None else [Candidate(lambda: lines, about="one pass, a row for each lane", template="one pass")]
