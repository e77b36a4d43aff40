"""Results that go through staging memory, so that rows are stored in whole transactions.

    keep C in register:
        move C -> shared swizzle

An instruction spreads its result over a group by its fragment. Where a row of the fragment is shorter than a transaction, a
store of the group fills parts of many. The buffer lies where those of the operands were (`lower.capacity`).

ROOM    The result is staged where the operands' buffers have the room, or where as many blocks are resident with more.
PARTS   Where they have not, each group stages its rows of one fragment, then those of the next one:

            keep C in register:
                tile m: 64, n: 128 -> wave
                tile m: 32
                move C -> shared swizzle
                tile m: 1, n: 8 -> thread

SPREAD  Rows that fill all banks once or several times are swizzled, others padded: neighbours in a column are in other banks.
        Of open sizes all are padded: for these coverage is proven.
VECTORS Rows are as long as vectors, or of open length: others are stored element by element either way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ....dsl import syntax
from ...ir.limits import WIDEST_ACCESS
from ..access_model import AccessModel
from ..line_builders import modifier, tiled
from ..machine_model import MachineModel
from .cost import resident_blocks

if TYPE_CHECKING:
    from .contraction import ContractionTemplate


@dataclass(frozen=True)
class StagedResult:
    """`waste`: bytes of transactions for each byte that is stored without staging. `pad`: elements after a row.
    `banks`: elements that fill all banks; None where all rows are padded (SPREAD)."""

    access: AccessModel
    axes: tuple[str, str]  # rows and columns
    rows: str  # the name of the size across rows, of a block's tile or a group's: the letter after `b` and `w`
    columns: str
    fragment: int  # rows of one
    waste: float
    pad: int
    banks: int | None

    def bytes(self, t: dict[str, Any]) -> Any:
        """Of a block."""
        return self._bytes(t["b" + self.rows], t["b" + self.columns])

    def _bytes(self, rows: Any, columns: Any) -> Any:
        return rows * (columns + self._padding(columns)) * self.access.dtype.bytes

    def _padding(self, columns: Any) -> Any:
        """SPREAD"""
        return self.pad if self.banks is None else np.where(columns % self.banks, self.pad, 0)

    def room(self, machine: MachineModel, t: dict[str, Any], registers: Any, operands: Any) -> Any:
        """ROOM, PARTS: bytes that a block stages at once; 0: the result is not staged.

        Lanes have so many registers, and buffers of the operands so many bytes. Parts of a split reduction are not staged.
        """
        groups, out = t["gm"] * t["gn"], 0
        unstaged: Any = None  # blocks that are resident without a staged result
        for mine in (groups * self._bytes(self.fragment, t["w" + self.columns]), self.bytes(t)):
            fits = mine <= operands
            if not np.all(fits):
                more = resident_blocks(machine, groups, registers, np.maximum(mine, operands))
                unstaged = resident_blocks(machine, groups, registers, operands) if unstaged is None else unstaged
                fits |= (more > 0) & (more >= unstaged)
            out = np.where((t["split"] == 0) & fits, mine, out)
        return out

    def last_stores(self, t: dict[str, Any], staged: Any) -> Any:
        """Bytes that pass the pipe of staging memory when a block has computed: in and out, or whole transactions."""
        return self.bytes(t) * np.where(staged, 2, self.waste)

    def lines(self, machine: MachineModel, t: dict[str, int], room: int) -> tuple[syntax.Line, ...]:
        """The block of the accumulator's `keep`."""
        whole = room == self.bytes(t)
        columns = t[("b" if whole else "w") + self.columns]
        spread = modifier("pad", self.pad) if self._padding(columns) else modifier("swizzle")
        move = syntax.Move(self.access.tensor, machine.staging.name, modifiers=spread)
        if whole:
            return (move,)
        sizes = ((x, t["w" + size], None) for x, size in zip(self.axes, (self.rows, self.columns), strict=True))
        return (
            tiled(list(sizes), level=machine.group.name),
            tiled([(self.axes[0], self.fragment, None)]),
            move,
            tiled([(self.axes[0], 1, None), (self.axes[1], self.pad, None)], level=machine.lane.name),
        )


def staged_result(nest: ContractionTemplate) -> StagedResult | None:
    """How the result of a group's instruction would be staged; None where that gains nothing."""
    mp, written = nest.mapping, nest.problem.writes
    if not nest.by_group or len(written) != 1:
        return None
    (access,) = written
    axis = access.fast
    if axis is None or axis not in (mp.m, mp.n) or not {mp.m, mp.n} <= access.axes:
        return None
    row, transaction = mp.leaf[0 if axis == mp.m else 1] * access.dtype.bytes, nest.machine.home.transaction or 1
    vector = max(1, WIDEST_ACCESS // access.dtype.bytes)
    extent = nest.problem.extents[axis].constant
    if row >= transaction or (extent is not None and extent % vector):  # VECTORS
        return None
    turned = axis == mp.m
    axes, (across, along), fragment = ((mp.n, mp.m), "nm", mp.leaf[1]) if turned else ((mp.m, mp.n), "mn", mp.leaf[0])
    known = all(nest.problem.extents[i].constant is not None for i in (mp.m, mp.n))
    banks = nest.machine.bank_bytes // access.dtype.bytes if known else None
    return StagedResult(access, axes, across, along, fragment, transaction / row, vector, banks)
