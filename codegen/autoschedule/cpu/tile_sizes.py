"""Tile sizes that divide an extent evenly, and the registers that a tile of results leaves free."""

from __future__ import annotations

from .matmul_model import MatmulModel


def scratch_registers(p: MatmulModel) -> int:
    """Registers besides those of results and of the wide operand: one element of the narrow operand in all lanes, and for an
    instruction that adds several products itself their sum, before it is added to the result."""
    return 1 if p.step == 1 else 2


def even_tiles(size: int, most: int) -> int:
    """Tiles of at most `most` that are as good as alike."""
    return -(-size // -(-size // most)) if size else 1


def depth_blocks(k: int, most: int) -> int:
    """Blocks of k of nearly equal size, in whole unrolled iterations."""
    return max(4, -(-even_tiles(k, most) // 4) * 4)


def rounded_down(sizes: tuple[int, ...], unit: int) -> tuple[int, ...]:
    return tuple(max(unit, s // unit * unit) for s in sizes)


def near_equal_tiles(size: int, targets: tuple[int, ...], unit: int) -> tuple[int, ...]:
    """Tile sizes in whole units that divide a size into nearly equal parts of about these sizes."""
    return tuple(dict.fromkeys(max(unit, -(-even_tiles(size, max(t, 1)) // unit) * unit) for t in targets))
