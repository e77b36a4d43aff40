"""Matrix products on CPUs: blockings as schedule lines, ranked by a closed form (`matmul_cost`).

PANELS   each core has a tile of the result. A block of the wide operand is packed into panels as wide as the register tile, in
         a cache of the core, so that cores never wait for each other. Results stay in registers through a block of k
         (after Van Zee & van de Geijn, "BLIS: A Framework for Rapidly Instantiating BLAS Functionality", 2015).
CHANNELS LAST   the narrow operand is an image (`convolutions.channels_last`).
WINDOWS  as PANELS, but a block of the image is copied as it is (`convolutions.windows`).
FEW ROWS   as DOTS, with the operands exchanged: nothing is transposed.
DOTS     few columns: lanes go along k, and the narrow operand is read once, without packing. The few columns are transposed
         once for all.

SEVERAL  an instruction that adds several products reads elements of both operands that are contiguous in k: both are packed so.

REGISTERS   three quarters of them are for results; the others for operands, and for loads that are in flight.
FLAT        no more rows at a time than hardware follows streams of stores (32); results of many more miss in the TLB, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import product

from ....dsl import syntax
from ....dsl.device import Device
from ....dsl.index.expr import Expr
from ....dsl.values import Load
from ...lower.lowering_context import LoweringContext
from ...plan.computations import Computation, unheld_indices
from ...schedule.candidate import Candidate, Description
from ..line_builders import Digit, modifier, move_in_panels, move_with_layout, tile_text
from ..machine_model import MachineModel, core_machine
from ..representative_sizes import TYPICAL
from ..tile_space import depth_blocks, even_tiles, near_equal_tiles, rounded_down
from .convolutions.channels_last import channel_blockings, channel_lines
from .convolutions.windows import window_blockings, window_lines
from .matmul_cost import Blocking, seconds
from .matmul_model import MatmulModel, matmul_of

FEW = 8  # columns: up to which lanes lie along k [measured: cpu-products; test_first_candidates]
# rows: of a register tile block whose stores hardware follows as streams [measured: cpu-products; test_first_candidates]
FLAT = 24
DEPTHS = (256, 384)  # elements: a block of k [tried; test_first_candidates]


def matmul_candidates(ctx: LoweringContext, computations: tuple[Computation, ...]) -> list[Candidate]:
    """All candidates, the best first; empty if the computation is not a matrix product or the device not a CPU."""
    found = sample_problem(ctx.device, computations[0], ctx.shapes) if len(computations) == 1 else None
    if found is None:
        return []
    cpu, p = found
    costs = ((seconds(p, cpu, b, p.typical_extents), b) for b in dict.fromkeys(blockings(p, cpu)))
    ranked = sorted(costs, key=lambda x: x[0].seconds)
    return [Candidate(partial(lines_of, p, cpu, b), partial(Description, cost, str(b))) for cost, b in ranked]


def deserves_few_columns(p: MatmulModel) -> bool:
    """Whether few columns deserve a schedule of their own (DOTS)."""
    return not p.batch and not p.fused and p.is_contiguous_along(p.narrow, p.k)


def deserves_few_rows(p: MatmulModel) -> bool:
    """Whether few rows do (FEW ROWS): the matrix need not be packed for them."""
    return not p.batch and (contiguous_along_k(p) or (p.plain(p.wide) and not p.wide_transposed))


def sample_problem(
    device: Device, computation: Computation, shapes: Mapping[str, tuple[Expr, ...]] | None = None
) -> tuple[MachineModel, MatmulModel] | None:
    cpu, p = core_machine(device), matmul_of(device, computation, shapes)
    return (cpu, p) if cpu is not None and p is not None else None


# ---------------------------------------------------------------- candidates


def blockings(p: MatmulModel, cpu: MachineModel) -> Iterator[Blocking]:
    """Those whose copies hold what is read of them."""
    found = _blockings(p, cpu)
    return found if _copies_hold(p, ()) else (b for b in found if _copies_hold(p, lines_of(p, cpu, b)))


def _copies_hold(p: MatmulModel, lines: Sequence[syntax.Line]) -> bool:
    """Whether copies of the operands hold what is read of them: those of the lines, or, without lines, any that may be made."""
    fused = {part: name for name, parts in p.fused for part in parts} if any(isinstance(x, syntax.Fuse) for x in lines) else {}
    copied = {x.tensor for x in lines if isinstance(x, syntax.Move)} if lines else {p.wide.tensor, p.narrow.tensor}
    read = (load for load in (p.wide, p.narrow) if load.tensor in copied)
    return all(unheld_indices([load], fused).isdisjoint(p.extents) for load in read)


def _blockings(p: MatmulModel, cpu: MachineModel) -> Iterator[Blocking]:
    held = _held(cpu)
    if p.rows_are_windows:
        yield from channel_blockings(p, cpu, held)
        return
    most = p.largest_extent(p.n)
    if most is not None and most <= FEW and not p.batch and not p.fused and p.is_contiguous_along(p.narrow, p.k):
        yield from _dots(p, cpu, held, max(1, most))
        if p.fixed_extent(p.n) is None:
            return
    if (few_rows := list(_few_rows(p))) and p.fixed_extent(p.m) is None:
        yield from few_rows
        return
    yield from few_rows
    windows = list(window_blockings(p, cpu, held))
    yield from windows
    if not windows or p.fixed_extent(p.n) is not None:
        yield from _panels(p, cpu, held)


def _held(cpu: MachineModel) -> int:
    return max(1, cpu.max_registers * 3 // 4)  # REGISTERS


def _few_rows(p: MatmulModel) -> Iterator[Blocking]:
    """Few rows by a matrix that is contiguous in k, as weights are: it is read once, without packing, 4 or 8 of its lines at a
    time."""
    m, last = p.largest_extent(p.m), p.component_indices(p.n)[-1]
    if m is None or not 0 < m <= FEW or not contiguous_along_k(p):
        return
    size = p.fixed_extent(last)
    lines = max(1, 8 >> (m - 1).bit_length())
    for across in (64, 256) if size is None else near_equal_tiles(size, (32, 64, 256), lines):
        yield Blocking("few rows", m, lines, None, across, m, across, False, False)


def contiguous_along_k(p: MatmulModel) -> bool:
    """Whether both operands are contiguous in k, without windows."""
    return (
        p.has_plain_operands
        and len(p.component_indices(p.k)) == 1
        and all(p.is_contiguous_along(load, p.k) for load in (p.wide, p.narrow))
    )


def _dots(p: MatmulModel, cpu: MachineModel, held: int, columns: int) -> Iterator[Blocking]:
    rows = 1 << min(3, (max(1, held // columns)).bit_length() - 1)
    turned = columns > 1 and not p.is_contiguous_along(p.wide, p.k)
    room = int(cpu.staging.capacity or 1 << 18) // 16 // (columns * p.dtype.bytes)
    depth = max(256, min(4096, 1 << (room.bit_length() - 1)))
    for high in (64, 256) if p.fixed_extent(p.m) is None else near_equal_tiles(p.fixed_extent(p.m) or 1, (32, 64, 256), rows):
        yield Blocking("dots", rows, columns, depth if turned else None, high, high, columns, turned, False)


def _panels(p: MatmulModel, cpu: MachineModel, held: int) -> Iterator[Blocking]:
    m, n, k = p.fixed_extent(p.m), p.fixed_extent(p.n), p.fixed_extent(p.k)
    most = p.largest_extent(p.m)
    if n is None and (columns := p.largest_extent(p.n)) is not None and columns <= 2 * p.lanes:
        n = columns  # a vector or two, in part or whole
    room = (cpu.staging.capacity or 1 << 18) * 3 // 4
    strided = p.plain(p.narrow) and not p.is_contiguous_along(p.narrow, p.k)
    across_lanes = (p.lanes,) if strided else ()  # whole vectors of it are packed
    for vectors, rows in product((1, 2, 3, 4), (0, *across_lanes)):
        columns, given = vectors * p.lanes, rows
        fit = (cpu.max_registers - p.scratch_registers) // vectors - 1
        rows = rows or max(1, min(held // vectors, fit, 12, most if most is not None else 12))
        if (given and rows * vectors > held) or (most is not None and rows > most):
            continue
        if rows * vectors + vectors + p.scratch_registers > cpu.max_registers or (
            vectors > 1 and n is not None and columns >= n + p.lanes
        ):
            continue
        if m is not None and not given:
            rows = even_tiles(m, rows)
        depths = DEPTHS if k is None else tuple(dict.fromkeys(depth_blocks(k, d) for d in DEPTHS))
        across = rounded_down((128, 256, 512), columns) if n is None else near_equal_tiles(n, (128, 256, 512, 1024), columns)
        for depth, wide, flat, packed in product(depths, across, (FLAT, 4 * FLAT), (True, False)):
            high = -(-flat // rows) * rows
            # What is packed stays in a cache of the core, with room for what passes by.
            packing, more = p.dtype.bytes * depth * wide * packed, p.dtype.bytes * depth * high
            if packing > room or (p.step > 1 and (not packed or packing + more > room)):
                continue
            tall = (-(-TYPICAL // high) * high,) if m is None else near_equal_tiles(m, (m, -(-m // cpu.units), 1024), high)
            for t in tall:
                if p.step > 1:  # SEVERAL
                    yield Blocking("panels", rows, columns, depth, min(high, t), t, wide, True, True)
                    continue
                if packed or (p.plain(p.wide) and not p.wide_transposed):
                    yield Blocking("panels", rows, columns, depth, min(high, t), t, wide, packed, False)
                if packed and t > high and packing + more <= room:
                    yield Blocking("panels", rows, columns, depth, high, t, wide, packed, True)


# ---------------------------------------------------------------- lines


def lines_of(p: MatmulModel, cpu: MachineModel, b: Blocking) -> tuple[syntax.Line, ...]:
    keep = syntax.Keep((p.name,), cpu.register.name)
    made = {"dots": _dot_lines, "few rows": _few_lines, "windows": window_lines, "panels": _panel_lines}
    made["channels last"] = channel_lines
    return made[b.kind](p, cpu, b, keep)


def _panel_lines(p: MatmulModel, cpu: MachineModel, b: Blocking, keep: syntax.Line) -> tuple[syntax.Line, ...]:
    inner = cpu.staging.name
    lines: list[syntax.Line] = [syntax.Fuse(parts, name) for name, parts in p.fused]
    lines.append(tile_text(*((i, 1) for i in p.batch), (p.m, b.tall), (p.n, b.across), level=cpu.outer.name))
    k = p.fixed_extent(p.k)
    if k is None or b.depth is None or b.depth < k:
        lines.append(tile_text((p.k, b.depth or DEPTHS[0])))
    pairs: list[Digit] = [(p.n, "/", b.columns), (p.k, "/", p.step), (p.n, "%", b.columns), (p.k, "%", p.step)]
    if b.pack_wide and p.step > 1:  # SEVERAL
        lines.append(_ordered(p, p.wide, inner, pairs))
    elif b.pack_wide:
        lines.append(move_in_panels(p.wide.tensor, inner, p.n, b.columns, _squares(p, cpu)))
    if b.high < b.tall:
        lines.append(tile_text((p.m, b.high)))
    if b.pack_narrow and p.step > 1:
        lines.append(_ordered(p, p.narrow, inner, [p.m, p.k]))
    elif b.pack_narrow:
        lines.append(move_in_panels(p.narrow.tensor, inner, p.m, b.rows))
    lines += [tile_text((p.n, b.columns)), tile_text((p.m, b.rows)), keep]
    lines.append(tile_text((p.k, p.step), modifiers=modifier("unroll", 4)))
    return (*lines, syntax.Compute(p.instr.name))


def _dot_lines(p: MatmulModel, cpu: MachineModel, b: Blocking, keep: syntax.Line) -> tuple[syntax.Line, ...]:
    lines: list[syntax.Line] = []
    vector = _along(p, cpu, b)
    if b.pack_wide and b.depth is not None:
        lines.append(tile_text((p.k, b.depth)))
        turn = (tile_text((p.k, 16 * p.lanes), level=cpu.outer.name), tile_text((p.n, 1)), *_along(p, cpu), syntax.Compute())
        order = (syntax.Modifier("layout", (syntax.Name(p.n), syntax.Name(p.k))),)
        lines.append(syntax.Move(p.wide.tensor, cpu.shared[0].name, block=turn, modifiers=order))
    lines.append(tile_text((p.m, b.high), level=cpu.outer.name))
    if p.fixed_extent(p.n) != b.columns:
        lines.append(tile_text((p.n, b.columns)))
    lines += [tile_text((p.m, b.rows)), keep, *vector]
    return (*lines, syntax.Compute())


def _few_lines(p: MatmulModel, cpu: MachineModel, b: Blocking, keep: syntax.Line) -> tuple[syntax.Line, ...]:
    *others, last = p.component_indices(p.n)
    lines: list[syntax.Line] = [tile_text(*((i, 1) for i in (*p.batch, *others)), (last, b.across), level=cpu.outer.name)]
    if p.fixed_extent(p.m) != b.rows:
        lines.append(tile_text((p.m, b.rows)))
    return (*lines, tile_text((last, b.columns)), keep, *_along(p, cpu, b), syntax.Compute())


def _along(p: MatmulModel, cpu: MachineModel, b: Blocking | None = None) -> tuple[syntax.Line, syntax.Line]:
    """Lanes along k: two vectors an iteration, or one if registers do not suffice for a sum of each."""
    vectors = 2 if b is None or 2 * b.rows * b.columns <= _held(cpu) else 1
    return tile_text((p.k, vectors * p.lanes)), tile_text((p.k, 1), level=cpu.device.levels[-1].name)


def _squares(p: MatmulModel, cpu: MachineModel) -> tuple[syntax.Line, ...] | None:
    """The packing of the wide operand if it is contiguous in k and an instruction transposes squares of it."""
    if p.turn is None:
        return None
    square = tile_text((p.n, p.turn.extent(p.n)), (p.k, p.turn.extent(p.k)))
    return (square, syntax.Keep((p.wide.tensor,), cpu.register.name), syntax.Compute(p.turn.instr.name))


def _ordered(p: MatmulModel, load: Load, memory: str, digits: Sequence[Digit]) -> syntax.Move:
    """A copy with these digits innermost, of the product's row, column and reduced indices."""
    mine = {d if isinstance(d, str) else d[0] for d in digits}
    others: list[Digit] = [a for a in p.fused_axes(load) if a not in mine]
    return move_with_layout(load.tensor, memory, [*others, *digits])
