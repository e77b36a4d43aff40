"""Values for modifiers that are left open: `unroll auto`, `pipeline auto`, `vector auto`, `pad auto`, `raster auto`."""

from __future__ import annotations

from ...dsl import syntax
from ...dsl.support.fast_replace import replace

# iterations, buffers, elements, rows of tiles: loads of 4 iterations overlap, 2 buffers let a copy run ahead, 1 element
# avoids bank conflicts [estimate]
DEFAULTS = {"unroll": 4, "pipeline": 2, "pad": 1, "raster": 8}
_VECTORS = (8, 4, 2)  # elements: of a vector access [tried]


def resolve_auto_modifiers(line: syntax.Line) -> syntax.Line:
    """The line with a number for each modifier that has `auto`; a vector is as wide as the tile's size allows."""
    if isinstance(line, syntax.Move | syntax.Keep) and line.block is not None:
        line = replace(line, block=tuple(resolve_auto_modifiers(x) for x in line.block))
    given = getattr(line, "modifiers", ())
    if not any(isinstance(v, syntax.Auto) for m in given for v in m.values):
        return line
    return replace(line, modifiers=tuple(x for m in given for x in _number(line, m)))  # type: ignore[arg-type]


def _number(line: syntax.Line, m: syntax.Modifier) -> tuple[syntax.Modifier, ...]:
    if not any(isinstance(v, syntax.Auto) for v in m.values):
        return (m,)
    n = DEFAULTS.get(m.name)
    if m.name == "vector":
        size = line.axes[-1].size if isinstance(line, syntax.Tile) else None
        n = next((n for n in _VECTORS if not isinstance(size, syntax.Num) or int(size.value) % n == 0), None)
    return (replace(m, values=(syntax.Num(n),)),) if n is not None else ()
