"""The blocking of a matrix product that a schedule tree follows: the inverse of `matmul.lines_of`, whoever wrote the lines.

An index that no tile cuts is one tile of its whole extent, for each core.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...ir.schedule_tree import Leaf, Move, Node, Tile
from ..machine_model import MachineModel
from ..tile_space import round_up
from .matmul_cost import Blocking
from .matmul_model import MatmulModel


@dataclass(frozen=True)
class _Cuts:
    """The sizes of tiles: those that cores share, and those of the loops of a core, the outermost first. `extents`: of whole
    indices."""

    shared: Mapping[str, int]
    loops: Mapping[str, list[int]]
    extents: Mapping[str, int]

    def of_core(self, index: str) -> int:
        return self.shared.get(index, self.extents[index])

    def block(self, index: str) -> int:
        """What a core has of the index at once: its tile, or the first of several loops over it."""
        loops = self.loops.get(index, [])
        return loops[0] if len(loops) > 1 else self.of_core(index)

    def innermost(self, index: str) -> int:
        return self.loops[index][-1] if index in self.loops else self.of_core(index)

    def depth(self, index: str, step: int) -> int | None:
        """Of a block of a reduced index; None: all of it. Tiles of `step` are the instruction's."""
        return next((n for n in self.loops.get(index, ()) if n > step), None)


def read_blocking(p: MatmulModel, cpu: MachineModel, tree: Node, extents: Mapping[str, int]) -> Blocking | None:
    """None where the tree follows none of the nests that `matmul_cost` prices."""
    leaf = tree.leaf
    tiles = [x for x in tree.path() if isinstance(x, Tile)]
    if not isinstance(leaf, Leaf) or any(a.every is not None for x in tiles for a in x.axes):
        return None
    lanes = cpu.device.levels[-1].name
    shared = {a.index: a.size for x in tiles if x.level == cpu.outer.name for a in x.axes}
    loops: dict[str, list[int]] = {}
    for x in tiles:
        for a in x.axes if x.level is None else ():
            loops.setdefault(a.index, []).append(a.size)
    cuts = _Cuts(shared, loops, extents)
    moves = {x.tensor: x for x in tree.path() if isinstance(x, Move)}
    if leaf.instr is None:
        along = {a.index for x in tiles if x.level == lanes for a in x.axes}
        return _along_k(p, cuts, p.wide.tensor in moves) if along == {p.k} else None
    if leaf.instr not in (p.instr.name, p.instr.family):
        return None
    if p.rows_are_windows:
        return _channels_last(p, cuts)
    copy = moves.get(p.wide.tensor)
    if p.plain(p.wide) or (copy is not None and _in_panels(copy, p.n)):
        return _panels(p, cuts, copy is not None, p.narrow.tensor in moves)
    return _windows(p, cuts) if copy is not None else None


def _panels(p: MatmulModel, cuts: _Cuts, pack_wide: bool, pack_narrow: bool) -> Blocking:
    rows, columns, depth = cuts.innermost(p.m), cuts.innermost(p.n), cuts.depth(p.k, p.step)
    across = cuts.of_core(p.n)
    return Blocking("panels", rows, columns, depth, cuts.block(p.m), cuts.of_core(p.m), across, pack_wide, pack_narrow)


def _windows(p: MatmulModel, cuts: _Cuts) -> Blocking:
    *others, last = p.component_indices(p.n)
    rows, columns = cuts.innermost(p.m), round_up(cuts.innermost(last), p.lanes)
    across, lines = (cuts.of_core(others[-1]), cuts.innermost(others[-1])) if others else (1, 1)
    depth, width = _plain_depth(p, cuts), cuts.shared.get(last)
    return Blocking("windows", rows, columns, depth, rows, cuts.of_core(p.m), across, True, False, lines, width)


def _channels_last(p: MatmulModel, cuts: _Cuts) -> Blocking:
    rows, columns, depth = cuts.innermost(p.m), cuts.innermost(p.n), _plain_depth(p, cuts)
    tall = cuts.of_core(p.line) if p.line else 1
    return Blocking("channels last", rows, columns, depth, cuts.of_core(p.m), tall, cuts.of_core(p.n), True, True)


def _along_k(p: MatmulModel, cuts: _Cuts, packed: bool) -> Blocking:
    """DOTS and FEW ROWS: the indices that cores share tell one from the other."""
    last = p.component_indices(p.n)[-1]
    rows = cuts.innermost(p.m)
    if last in cuts.shared:
        across = cuts.of_core(last)
        return Blocking("few rows", rows, cuts.innermost(last), None, across, rows, across, False, False)
    columns, high = cuts.innermost(p.n), cuts.of_core(p.m)
    return Blocking("dots", rows, columns, cuts.depth(p.k, 0) if packed else None, high, high, columns, packed, False)


def _plain_depth(p: MatmulModel, cuts: _Cuts) -> int | None:
    """Of a block of the reduced index that both operands have as an axis of its own."""
    return cuts.depth(p.plain_reduced_index, p.step) if p.plain_reduced_index is not None else None


def _in_panels(move: Move, index: str) -> bool:
    return move.layout is not None and any(i == index for i, _ in move.layout.maps)
