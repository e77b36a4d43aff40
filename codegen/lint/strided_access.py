"""Strided, uncoalesced accesses: those of the outermost memory whose lanes lie far apart.

A subgroup accesses memory in whole transactions. It is a cliff if nearly every lane needs a transaction of its own, and the
bytes would fit into a fraction of them. Vector accesses are calls of the tile program (`Call`): each counts by itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...dsl import syntax
from ...dsl.errors.warning import Caution, StridedAccess
from ...dsl.index.expr import Expr
from ...dsl.source import Span
from ..ir.limits import CACHE_LINE
from ..ir.tile_ir import Buffer, Call, Store
from .typical_block import ExecutionPoints, StatementPoints, TypicalBlock, distributing_line, innermost_line, loads_at

_LANES = 8  # lanes: a smaller subgroup touches too little for a warning [estimate; test_cliffs_have_thresholds]
_OWN = 0.75  # share: of lanes that have a transaction to themselves, for a warning [estimate; test_cliffs_have_thresholds]
_WAYS = 4.0  # times: the least number of transactions, for a warning [estimate; test_cliffs_have_thresholds]
# share: of the bytes that accesses of the launch move, for a warning; where caches keep lines, of all that is executed
# [estimate; test_cliffs_have_thresholds]
_SHARE = 0.1


def strided_accesses(
    block: TypicalBlock, mine: tuple[Span, ...], decl: syntax.ScheduleDecl
) -> Iterator[tuple[Span | None, Caution]]:
    """Accesses by which a lockstep group touches many times the segments that its bytes would fill."""
    device = block.program.device
    inner = device.levels[-1]
    group = min(inner.width or block.counts.get(inner.name, 1), block.counts.get(inner.name, 1))
    if inner.siblings != "lockstep" or group < _LANES:
        return
    found = []
    for node in block.leaves():
        for buffer, coords, extent, points, verb in _accesses(block, node):
            if buffer.memory != device.memories[0].name:
                continue
            size = device.memory(buffer.memory).transaction or CACHE_LINE
            counted = _transactions(buffer, coords, extent, points, group, size)
            if counted is not None:
                found.append((node, buffer, verb, size, *counted, float(points.weight.sum()) / block.units))
    total = sum(touched * times for *_, touched, _, _, times in found)
    executed = sum(float(node.points.weight.sum()) for node in block.leaves()) / block.units
    for node, buffer, verb, size, lanes, touched, least, stride, times in found:
        cached = inner.width is None  # lanes of vectors
        share = times / executed if cached else (touched - least) * times / total
        if touched >= max(_WAYS * least, _OWN * lanes) and share >= _SHARE:
            moved = "cache lines" if cached else "transactions"
            yield (
                innermost_line(node, mine) or distributing_line(decl, inner.name),
                StridedAccess(
                    f"adjacent {inner.name}s {verb} `{buffer.name}` {stride:,} bytes apart: {touched} {moved} of {size} "
                    f"bytes where {least} would do",
                    note=f"{verb} `{buffer.name}`",
                    help=f"let the last index of `{buffer.name}` be the last in the line onto `{inner.name}`, or move "
                    "it through a memory that the block shares",
                ),
            )


def _accesses(
    block: TypicalBlock, node: StatementPoints
) -> Iterator[tuple[Buffer, tuple[Expr, ...], int, ExecutionPoints, str]]:
    stmt = node.stmt
    if isinstance(stmt, Store):
        yield block.buffers[stmt.buffer], stmt.coords, 1, node.points, "write"
        for load, points in loads_at(stmt.value, node.points):
            yield block.buffers[load.tensor], load.indices, 1, points, "read"
    elif isinstance(stmt, Call):
        instr = next(i for i in block.program.instrs if i.name == stmt.instr)
        if instr.level == block.program.device.levels[-1].name:
            for operand, piece in zip(instr.operands, stmt.pieces, strict=True):
                verb = "write" if operand.role == "output" else "read"
                yield block.buffers[piece.buffer], piece.coords, piece.extent, node.points, verb


def _transactions(
    buffer: Buffer, coords: tuple[Expr, ...], extent: int, points: ExecutionPoints, group: int, size: int
) -> tuple[int, int, int, int] | None:
    """Of one execution by one group: units that take part, transactions, those that would do, and bytes between neighbours.

    None where too few units take part.
    """
    if not len(points.unit):
        return None
    # The group with most points, and of each of its units the first point.
    groups = points.unit // group
    mine = points.only(groups == np.argmax(np.bincount(groups)))
    _, first = np.unique(mine.unit, return_index=True)
    mine = ExecutionPoints(
        {k: v[first] if np.ndim(v) else v for k, v in mine.env.items()}, mine.unit[first], mine.weight[first]
    )
    if len(first) < _LANES:
        return None
    element = buffer.dtype.bytes
    address = sum(
        (mine.value(c) * mine.value(s) for c, s in zip(coords, buffer.strides, strict=True)), np.zeros(len(first), int)
    )
    places = np.unique(address)
    at = np.unique(((places[:, None] + np.arange(extent)) * element).ravel())
    stride = int(np.median(np.diff(places))) * element if len(places) > 1 else 0
    return len(first), len(np.unique(at // size)), -(-len(at) * element // size), stride
