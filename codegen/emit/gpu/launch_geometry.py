"""How the levels of a launch run on a GPU: as blocks, or as threads of a block.

How a level is realised follows from its facts, never from its name (`realise`):

    open                     blocks: one linear number for all open levels, the innermost fastest
    shaped, below the blocks threads of a block: one linear number, the innermost level fastest
    finite                   there must be one unit
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ....dsl.errors import InternalError
from ....dsl.index.expr import Expr, Var, as_expr
from ...ir.program import Program
from ...ir.tile_ir import Buffer, Launch, Units


@dataclass(frozen=True)
class LaunchGeometry:
    """How the levels of a launch run. `blocks`, `threads`: outermost first."""

    blocks: tuple[Units, ...]
    threads: tuple[Units, ...]
    ones: tuple[Units, ...]
    owner: int  # the depth of the level whose units are blocks

    @property
    def count(self) -> int:
        return prod(u.count.constant or 1 for u in self.threads)

    @property
    def grid(self) -> Expr:
        total = as_expr(1)
        for u in self.blocks:
            total = total * u.count
        return total


@dataclass(frozen=True)
class KernelSource:
    """One launch as a driver needs it: the function's name, blocks (an expression over the sizes), threads of a block, bytes of
    shared memory, and its parameters: a pointer for each of `buffers`, then an integer for each of `sizes`: of 64 bits, or of
    32 where the size is known to fit (its low half is at the same address on all machines with such devices)."""

    name: str
    blocks: Expr
    threads: int
    shared: int
    buffers: tuple[Buffer, ...]
    sizes: tuple[Var, ...]


def launch_geometry(program: Program, launch: Launch) -> LaunchGeometry:
    device = program.device
    blocks, threads, ones = [], [], []
    owner = max((i for i, x in enumerate(device.levels) if x.units == "open"), default=0)
    for u in launch.units:
        level = device.level(u.level)
        if level.units == "finite" or u.count.constant == 1:
            ones.append(u)
        elif level.units == "open":
            blocks.append(u)
        elif device.depth(u.level) < owner or u.count.constant is None:
            raise InternalError(f"{u.level} of {device.name}: {u.count} units above the blocks, or not a constant number")
        else:
            threads.append(u)
    return LaunchGeometry(tuple(blocks), tuple(threads), tuple(ones), owner)
