"""The launch that combines the parts of a pass (`split_chain`): statistics of rows in registers, and what reads them.

    tile h: 1, i: 1 -> block                   tile i: 1 -> block          without features lanes have the parts
    keep m, l in register                      keep m in register
    tile d: 128                                keep l in register
    keep o in register                         tile t_tile: 32
    tile t_tile: 8 unroll                      tile t_tile: 1 -> thread
    tile d: 32 -> warp
    tile d: 1 -> thread

Parts are few: a row of them is read from a cache, and each lane has all of them of its features. So no lane waits for another.
"""

from __future__ import annotations

from ....dsl import syntax
from ...lower.lowering_context import LoweringContext
from ...plan.computations import Computation
from ...plan.derived_names import CombiningAccumulator
from ...schedule.candidate import Candidate, Description
from ..line_builders import modifier, tile_text
from ..machine_model import MachineModel

AT_ONCE = 8  # parts: whose loads overlap [estimate; test_parts_are_combined_in_one_launch]
GROUPS = 4  # warps: of a block [estimate; test_parts_are_combined_in_one_launch]


def combining_candidates(ctx: LoweringContext, computations: tuple[Computation, ...]) -> list[Candidate]:
    """None where the launch is another one."""
    reductions = [w for w in computations if w.reduction is not None]
    if len(reductions) < 2 or not all(isinstance(w.name, CombiningAccumulator) for w in reductions):
        return []
    machine = MachineModel.of(ctx.device)
    if machine is None:
        return []
    return [Candidate(lambda: _lines(machine, computations, reductions), lambda: Description(about="combined parts"))]


def _lines(
    machine: MachineModel, computations: tuple[Computation, ...], reductions: list[Computation]
) -> tuple[syntax.Line, ...]:
    register, parts = machine.register.name, reductions[0].reduced[0]
    read = {t for w in computations for t in w.reads}
    rows = min((w.indices for w in reductions), key=len)
    widest = max(reductions, key=lambda w: len(w.indices))
    features = [i for i in widest.indices if i not in rows]
    kept = tuple(dict.fromkeys(t for w in computations for t in w.targets if t in read))
    lanes = _lanes(machine, widest)
    if not features and machine.has_blocks:
        tiles = (tile_text((parts, lanes)), tile_text((parts, 1), level=machine.lane.name))
        dealt = [tile_text(*((i, 1) for i in rows), level=machine.outer.name)] if rows else []
        return (*dealt, *_kept(kept, register), *_results(reductions, kept, register), *tiles, syntax.Compute())
    near = features[-1] if features else rows[-1] if rows else None
    outer = [i for i in rows if i != near]
    out: list[syntax.Line] = [tile_text(*((i, 1) for i in outer), level=machine.outer.name)] if outer else []
    if near is not None and near in rows:
        out.append(tile_text((near, lanes * GROUPS), level=None if outer else machine.outer.name))
    out += _kept(kept, register)
    out += [tile_text((i, 1)) for w in reductions for i in w.indices if i not in (*rows, near)]
    if near is not None and near not in rows:
        out.append(tile_text((near, lanes * GROUPS)))
    out += _results(reductions, kept, register)
    out.append(tile_text((parts, AT_ONCE), modifiers=modifier("unroll")))
    if near is not None and machine.has_blocks:
        out.append(tile_text((near, lanes), level=machine.group.name))
    if near is not None:
        out.append(tile_text((near, 1), level=machine.lane.name))
    return (*out, syntax.Compute())


def _lanes(machine: MachineModel, w: Computation) -> int:
    lane = machine.lane
    return max(1, lane.bytes // w.value.dtype.compute.bytes) if lane.bytes else machine.lanes


def _kept(names: tuple[str, ...], register: str) -> list[syntax.Line]:
    return [syntax.Keep(names, register)] if names else []


def _results(reductions: list[Computation], kept: tuple[str, ...], register: str) -> list[syntax.Line]:
    """A line for those that nothing else keeps."""
    names = tuple(w.result for w in reductions if not {*w.targets} & {*kept})
    return [syntax.Keep(names, register)] if names else []
