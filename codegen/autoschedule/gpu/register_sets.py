"""Registers of a lane for a tile of results and its operands. Two sets of these: the next ones are loaded while the first are
multiplied. What barriers cost then."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Any

import numpy as np

from ....dsl.values import Apply, Cast, Load, Value
from ..access_model import AccessModel
from ..tile_space import Tiles

if TYPE_CHECKING:
    from .contraction import ContractionTemplate

SYNC = 20  # cycles: that warps lose at a barrier [estimate; test_first_candidates]
# cycles: that each subgroup of a scheduler loses at a barrier where operands of the next step are in registers, and no other
# block has a subgroup there [measured: triton-2026-11; test_first_candidates]
BARRIER = 30


def tile_registers(nest: ContractionTemplate, t: Tiles) -> Any:
    """Of a lane: accumulators, and a row and a column of operands; more than there are where these do not fit (ONE_FILE)."""
    machine = nest.machine
    out = max(1, nest.problem.computation.value.dtype.bytes // machine.register_bytes)
    results = np.floor(t["wm"] * t["wn"] * out / machine.lanes) if nest.by_group else t["tm"] * t["tn"] * out
    tile = results + operand_registers(nest, t)
    named = results + nest.result_registers if nest.by_group else tile + machine.reserved
    return np.where(named <= machine.vector_registers, tile, np.maximum(tile, machine.max_registers + 1))


def operand_registers(nest: ContractionTemplate, t: Tiles) -> Any:
    """Of a lane, for one set of operands."""
    lm, ln, k = nest.mapping.leaf
    if not nest.by_group:
        each = [max(1, a.dtype.bytes * k // nest.machine.register_bytes) for a in nest.inputs[:2]] or [1]
        return t["tm"] * each[0] + t["tn"] * each[-1]
    left, right = nest.fragment_registers
    return np.floor(t["wm"] / lm) * left + np.floor(t["wn"] / ln) * right


def extra_registers(nest: ContractionTemplate, t: Tiles) -> Any:
    """Of a lane, for more sets than one; more than there are where the inner loop cannot have them."""
    return np.where(take_turns(nest, t), (t["sets"] - 1) * operand_registers(nest, t), nest.machine.max_registers + 1)


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


def copied_ahead(nest: ContractionTemplate, t: Tiles) -> bool:
    """Whether all that is staged is copied asynchronously: no unit stores what it has loaded."""
    return all(s.asynchronous for s in nest.staged(int(t["bk"][0])))


def cycles_at_barriers(nest: ContractionTemplate, t: Tiles, steps: Any) -> tuple[Any, Any]:
    """Those that a group loses in so many steps, and those that it loses unless another block hides them: where operands are in
    registers before the barrier, and the copies that it waits for are those of two steps ago."""
    barriers = steps * np.where(t["stages"] > 2, 1, 2)
    hidden = (t["sets"] > 1) & (t["stages"] > 2) & copied_ahead(nest, t)
    each = np.maximum(1, t["gm"] * t["gn"] / nest.machine.schedulers)
    return np.where(hidden, 0, SYNC * barriers), np.where(hidden, BARRIER * each * barriers, 0)


def converts(nest: ContractionTemplate, a: AccessModel) -> bool:
    """Whether an operand is converted where it is staged."""
    made = dict(nest.materialised).get(a.tensor)
    return made is not None and made.converted
