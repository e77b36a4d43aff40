"""Results that go through staging memory, so that rows are stored in whole transactions.

    keep C in register:
        move C -> shared swizzle

An instruction spreads its result over a group by its fragment. Where a row of the fragment is shorter than a transaction, a
store of the group fills parts of many. The buffer lies where those of the operands were (`lower.capacity`).

ROOM    The result is staged where the operands' buffers have the room, or where as many blocks are resident with more.
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
from ..line_builders import modifier
from ..machine_model import MachineModel
from .cost import resident_blocks

if TYPE_CHECKING:
    from .contraction import ContractionTemplate


@dataclass(frozen=True)
class StagedResult:
    """`waste`: bytes of transactions for each byte that is stored without staging. `pad`: elements after a row.
    `banks`: elements that fill all banks; None where all rows are padded (SPREAD)."""

    access: AccessModel
    rows: str  # the name of the size of a block's tile across rows
    columns: str
    waste: float
    pad: int
    banks: int | None

    def bytes(self, t: dict[str, Any]) -> Any:
        """Of a block."""
        return t[self.rows] * (t[self.columns] + self._padding(t)) * self.access.dtype.bytes

    def _padding(self, t: dict[str, Any]) -> Any:
        """SPREAD"""
        return self.pad if self.banks is None else np.where(t[self.columns] % self.banks, self.pad, 0)

    def fits(self, machine: MachineModel, t: dict[str, Any], registers: Any, operands: Any) -> Any:
        """ROOM, of lanes with so many registers, where buffers of the operands have so many bytes. Parts of a split reduction
        are not staged."""
        mine, groups = self.bytes(t), t["gm"] * t["gn"]
        room = mine <= operands
        if not np.all(room):
            more = resident_blocks(machine, groups, registers, np.maximum(mine, operands))
            room |= (more > 0) & (more >= resident_blocks(machine, groups, registers, operands))
        return (t["split"] == 0) & room

    def last_stores(self, t: dict[str, Any], staged: Any) -> Any:
        """Bytes that pass the pipe of staging memory when a block has computed: in and out, or whole transactions."""
        return self.bytes(t) * np.where(staged, 2, self.waste)

    def line(self, memory: str, t: dict[str, int]) -> syntax.Move:
        """The line in the block of the accumulator's `keep`."""
        spread = modifier("pad", self.pad) if self._padding(t) else modifier("swizzle")
        return syntax.Move(self.access.tensor, memory, modifiers=spread)


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
    across, along = ("bn", "bm") if axis == mp.m else ("bm", "bn")
    known = all(nest.problem.extents[i].constant is not None for i in (mp.m, mp.n))
    banks = nest.machine.bank_bytes // access.dtype.bytes if known else None
    return StagedResult(access, across, along, transaction / row, vector, banks)
