"""`arrange u: m = ..., n = ...`: the tile of a unit, computed from its number. Checked by trying every unit."""

from __future__ import annotations

from itertools import product

from ....dsl import syntax
from ....dsl.errors.schedule import BadArrange
from ....dsl.index.expr import Expr, Var, as_expr
from ...schedule.elaborate import arranged


def arranged_stride(m: syntax.Modifier, index: str, count: Expr, total: Expr, reduced: bool) -> int:
    """How far apart the numbers of units are that have neighbouring tiles of an index, where they are a digit of the number.

    Units that combine their parts find each other by that digit. Raises BadArrange where a reduced index is no digit.
    """
    units, tiles = total.constant or 1, count.constant or 1
    found = [int(arranged(m, index, as_expr(Var("unit"))).evaluate({"unit": u})) for u in range(units)]
    for stride in range(1, units // tiles + 1):
        if units % (stride * tiles) == 0 and all(u // stride % tiles == t for u, t in enumerate(found)):
            return stride
    if reduced:
        raise BadArrange(
            f"one digit of a unit's number must select its part of a reduction over `{index}`; this map is not a digit",
            m.span,
            help=f"`{index} = u % {tiles}` is one, or `u / N % {tiles}`",
        )
    return 1


def check_arrange(m: syntax.Modifier, indices: list[str], counts: list[Expr], later: Expr) -> bool:
    """Whether units that only the lines below tell apart have the same tile.

    Raises BadArrange unless each tile has `later` units, told apart by what the lines below do with the number.
    """
    known = [c.constant for c in counts]
    rest = later.constant
    if rest is None or any(n is None for n in known):
        raise BadArrange(
            "the number of tiles is not known at compile time",
            m.span,
            help="make the number of tiles constant: tile the index above, or leave `arrange` out",
        )
    sizes = [n or 1 for n in known]
    maps = [arranged(m, i, as_expr(Var("unit"))) for i in indices]
    total = rest
    for n in sizes:
        total *= n
    taken: dict[tuple[int, ...], int] = {}
    tiles: list[tuple[int, ...]] = []
    for u in range(total):
        tile = tuple(int(e.evaluate({"unit": u})) for e in maps)
        tiles.append(tile)
        outside = next((k for k, (t, n) in enumerate(zip(tile, sizes, strict=True)) if not 0 <= t < n), None)
        if outside is not None:
            message = f"unit {u} would take tile {tile[outside]} of `{indices[outside]}`, of which there are {sizes[outside]}"
            raise BadArrange(message, m.span, help="the maps give 0, 1, ... for units 0, 1, ...")
        before = taken.setdefault((*tile, u % rest), u)
        if before != u:
            shown = ", ".join(f"{i} = {t}" for i, t in zip(indices, tile, strict=True))
            free = next(x for x in product(*map(range, sizes)) if (*x, u % rest) not in taken)
            nobody = ", ".join(f"{i} = {t}" for i, t in zip(indices, free, strict=True))
            raise BadArrange(
                f"units {before} and {u} would both take the tile {shown}, and no unit {nobody}",
                m.span,
                help="each tile needs one unit: digits of the number by `/` and `%`",
            )
    return all(tile == tiles[u - u % rest] for u, tile in enumerate(tiles))
