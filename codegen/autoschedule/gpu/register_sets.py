"""Two sets of registers for operands: where an inner loop can load the next iteration's while it multiplies this one's."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Any

import numpy as np

from ....dsl.values import Apply, Cast, Load, Value
from ..tile_space import Tiles

if TYPE_CHECKING:
    from .contraction import ContractionTemplate


def extra_registers(nest: ContractionTemplate, t: Tiles) -> Any:
    """Of a lane, for more sets than one; more than there are where the inner loop cannot have them."""
    return np.where(take_turns(nest, t), (t["sets"] - 1) * nest.operand_registers(t), nest.machine.max_registers + 1)


def can_run_through(nest: ContractionTemplate, moved: Container[str]) -> bool:
    """Whether the inner loop can be a pipeline across staged tiles. All operands are `moved` to registers. The loop runs to the
    end of a tile at edges too, because zeros there add nothing (`lower.tiling.padded_trip_counts`). No loop around the staged
    tiles begins their pipeline anew. And sizes are fixed: for open ones, guards and addresses take the registers of a second
    set, and stand between its loads and the arithmetic (`register-pipelines-2026-11`)."""
    w, k = nest.problem.computation, nest.mapping.k
    along = {a.tensor for a in nest.inputs if a.plain(k) or a.view}
    product = w.reduction is not None and w.reduction.kind == "sum" and _is_product(w.value, along)
    fixed = all(e.constant is not None for e in nest.problem.extents.values())
    return product and all(a.tensor in moved for a in nest.inputs) and not nest.mapping.loops and fixed


def _is_product(v: Value, tensors: set[str]) -> bool:
    """Of elements, perhaps cast, of these tensors alone."""
    match v:
        case Apply(fn="mul", args=args):
            return all(_is_product(x, tensors) for x in args)
        case Cast(arg=arg):
            return _is_product(arg, tensors)
    return isinstance(v, Load) and v.tensor in tensors


def take_turns(nest: ContractionTemplate, t: Tiles) -> Any:
    """Where the inner loop can have the sets: its iterations in a tile, which is no larger than its range, take them in turn,
    and it is unrolled wholly, of scalars no further than `most_unrolled`."""
    k = nest.problem.extents[nest.mapping.k].constant
    turns = np.ceil((t["bk"] if k is None else np.minimum(t["bk"], max(1, k))) / t["inner"])
    short = nest.by_group or turns <= nest.most_unrolled(t)
    return (t["sets"] == 1) | (short & (turns % t["sets"] == 0))
