"""The unit that holds each element: the operands of an instruction as grids, an element coloured by its unit (lane).

The maps are those of the device's text, evaluated for every unit and register.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from ...dsl.device import Instr, Operand
from .svg import INK, picture, tag, text

CELL, MOST, LEFT, TOP = 24.0, 4096, 8.0, 26.0


def fragments(instr: Instr) -> str | None:
    """One grid a register operand of rank 1 or 2; None where there is none, or none that more than one unit holds."""
    grids = [g for o in instr.operands if (g := _held(o)) is not None]
    if not grids:
        return None
    x, inside, height = LEFT, [], 0.0
    for operand, held in grids:
        rows, columns = (1, *operand.shape)[-2:]
        inside.append(
            text(x, 14, f"{operand.name}: {operand.dtype.name}[{', '.join(map(str, operand.shape))}]", font_weight="bold")
        )
        units = max(u for u, _ in held.values()) + 1
        for (row, column), (unit, register) in held.items():
            inside += _cell(x + column * CELL, TOP + row * CELL, unit, register, units, (row, column))
        x += columns * CELL + 24
        height = max(height, TOP + rows * CELL)
    return picture(x, height + 12, *inside, title=f"Who holds the operands of {instr.name}")


def _held(operand: Operand) -> tuple[Operand, dict[tuple[int, int], tuple[int, int]]] | None:
    """(row, column) -> (unit, register); of units that hold copies, the first."""
    names = [v.name for v in operand.coords]
    if "lane" not in names or not 1 <= len(operand.shape) <= 2:
        return None
    spans = [range(int(v.lo or 0), int(v.hi or 0) + 1) for v in operand.coords]
    count = 1
    for s in spans:
        count *= len(s)
    if not 1 < count <= MOST:
        return None
    held: dict[tuple[int, int], tuple[int, int]] = {}
    for point in product(*spans):
        env = dict(zip(names, point, strict=True))
        at = tuple(int(e.evaluate(env)) for e in operand.map)
        if all(0 <= i < n for i, n in zip(at, operand.shape, strict=True)):
            row, column = (0, *at)[-2:]
            held.setdefault((row, column), (env["lane"], env.get("r", 0)))
    return operand, held


def _cell(x: float, y: float, unit: int, register: int, units: int, at: tuple[int, int]) -> Iterator[str]:
    hue = 360 * (unit * 7 % units) / units
    said = tag("title", f"element {at[0]}, {at[1]}: unit {unit}, register {register}")
    yield tag(
        "rect",
        said,
        x=x,
        y=y,
        width=CELL,
        height=CELL,
        fill=f"hsl({hue:.0f} 65% 60%)",
        fill_opacity=0.55,
        stroke=INK,
        stroke_opacity=0.25,
    )
    yield text(x + CELL / 2, y + 11, str(unit), text_anchor="middle", font_size=9)
    yield text(x + CELL / 2, y + 20, f"r{register}", text_anchor="middle", font_size=7, opacity=0.7)
