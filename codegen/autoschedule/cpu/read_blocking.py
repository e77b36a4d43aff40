"""The blocking of a matrix product that schedule lines follow: the inverse of `matmul.lines_of`, whoever wrote the lines."""

from __future__ import annotations

from collections.abc import Sequence

from ....dsl import syntax
from .matmul_cost import Blocking
from .matmul_model import MatmulModel

Cut = dict[str, list[int]]  # of an index, the sizes of its tiles, the outermost first


def read_blocking(p: MatmulModel, cores: str, lines: Sequence[syntax.Line]) -> Blocking | None:
    """None where the lines follow none of the nests that `matmul_cost` prices. `cores`: the level that tiles go to."""
    leaf = lines[-1] if lines else None
    if not isinstance(leaf, syntax.Compute):
        return None
    cut: Cut = {}
    tiles = [x for x in lines if isinstance(x, syntax.Tile)]
    for x in tiles:
        for a in x.axes:
            if not isinstance(a.size, syntax.Num) or a.every is not None:
                return None
            cut.setdefault(a.index, []).append(int(a.size.value))
    moves = {x.tensor: x for x in lines if isinstance(x, syntax.Move)}
    try:
        if leaf.instr is None:
            dealt = frozenset(a.index for x in tiles if x.level == cores for a in x.axes)
            return _along_k(p, cut, moves, dealt)
        if leaf.instr not in (p.instr.name, p.instr.family):
            return None
        if p.rows_are_windows:
            return _channels_last(p, cut)
        if p.n not in cut or (p.wide.tensor in moves and not p.plain(p.wide) and not _in_panels(moves[p.wide.tensor], p.n)):
            return _windows(p, cut)
        return _panels(p, cut, moves)
    except KeyError:  # an index is not cut where each of these nests cuts it
        return None


def _panels(p: MatmulModel, cut: Cut, moves: dict[str, syntax.Move]) -> Blocking:
    rows, columns, deep = cut[p.m], cut[p.n], cut[p.k]
    high = rows[1] if len(rows) > 2 else rows[0]
    depth = deep[0] if len(deep) > 1 else None
    packed = (p.wide.tensor in moves, p.narrow.tensor in moves)
    return Blocking("panels", rows[-1], columns[-1], depth, high, rows[0], columns[0], *packed)


def _windows(p: MatmulModel, cut: Cut) -> Blocking:
    *others, last = p.component_indices(p.n)
    rows, lines = cut[p.m], cut[others[-1]] if others else [1]
    columns = cut[last][-1] if last in cut else -(-p.image[1] // p.lanes) * p.lanes
    return Blocking("windows", rows[-1], columns, _depth(p, cut), rows[-1], rows[0], lines[0], True, False, lines[-1])


def _channels_last(p: MatmulModel, cut: Cut) -> Blocking:
    rows, columns = cut[p.m], cut[p.n]
    tall = cut[p.line][0] if p.line else 1
    return Blocking("channels last", rows[-1], columns[-1], _depth(p, cut), rows[0], tall, columns[0], True, True)


def _along_k(p: MatmulModel, cut: Cut, moves: dict[str, syntax.Move], dealt: frozenset[str]) -> Blocking:
    """DOTS and FEW ROWS: the indices that cores share tell one from the other."""
    last = p.component_indices(p.n)[-1]
    if last in dealt:
        rows = cut[p.m][-1] if p.m in cut else p.fixed_extent(p.m) or 1
        return Blocking("few rows", rows, cut[last][-1], None, cut[last][0], rows, cut[last][0], False, False)
    rows = cut[p.m]
    columns = cut[p.n][-1] if p.n in cut else p.fixed_extent(p.n) or 1
    packed = p.wide.tensor in moves
    return Blocking("dots", rows[-1], columns, cut[p.k][0] if packed else None, rows[0], rows[0], columns, packed, False)


def _depth(p: MatmulModel, cut: Cut) -> int | None:
    """Of a block of the reduction; its last tile is the step of the instruction."""
    deep = cut[p.plain_reduced_index] if p.plain_reduced_index is not None else [1]
    return deep[0] if len(deep) > 1 else None


def _in_panels(move: syntax.Move, index: str) -> bool:
    return any(m.name == "layout" and any(i == index for i, _ in m.maps) for m in move.modifiers)
