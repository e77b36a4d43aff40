"""Statistics of few long rows: in one launch with their readers, or in launches of their own, where units have parts of a row.

    keep top, total in global:                 TOGETHER: one pass over the parts (`row_pass`), a launch that combines them, then
        auto                                   the readers
    auto

    keep mean in global:                       APART: a launch for each, and another one that combines its parts
        auto
    keep variance in global:
        auto
    auto

CHOSEN     Lines are added where they are predicted to be clearly faster, and nobody wrote any. All ways are in the report.
LONG       On GPUs rows that registers hold are read once, and have no parts. On CPUs other cores must be worth waking. The
           number of rows is known, and their length: there are fewer than units.
ROWS_ONLY  The op has nothing but statistics of rows of one shape, and their readers. A vector is one row: its statistics are
           apart in any case.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, prod

from ....dsl import syntax
from ....dsl.device import Device
from ....dsl.errors.schedule import NotComputed
from ....dsl.op import Op
from ...lower.lowering_context import LoweringContext
from ...plan.computations import Computation
from ...plan.group_launches import launch_keeping
from ...schedule.candidate import Lines
from ..access_model import AccessProblem
from ..candidates import candidate_groups
from ..cpu.default_nests import row_statistics, vector_statistics
from ..cpu.nest_space import LEAST
from ..gpu.passes.one_pass_choice import ChosenLaunch, apart_launches, in_turn, side_by_side
from ..gpu.resident_rows import GROUPS, bytes_of_place, fits_registers
from ..launches.launches_of_op import launches_of
from ..line_builders import is_all_open
from ..machine_model import MachineModel
from ..op_context import context_of
from ..rank import sample_sizes
from .find_chain import row_chain

# times: as long as one launch, that several are predicted to take at most [estimate; test_alike_rows_have_one_launch]
CLEARLY = 0.95


def with_rows_in_parts(op: Op, device: Device, lines: Lines, ctx: LoweringContext) -> Lines:
    """CHOSEN: the lines, with blocks for statistics that have launches of their own. `ctx`: of the op; gets the report."""
    machine = MachineModel.of(device) if is_all_open(lines) else None
    ways = _ways(op, device, machine) if machine is not None and _may_be_few_and_long(op, machine) else []
    if len(ways) < 2:
        return lines

    def new() -> LoweringContext:
        return context_of(op, device)

    if machine is not None and machine.has_blocks:
        judged = [sizes for sizes, _ in sample_sizes(new(), ways[0].launches[0])]
        taken = _fastest_by_blocks([(x, apart_launches(x.launches, new, judged)) for x in ways], ctx)
    else:
        taken = _fastest_by_cores([(x, [_seconds(new(), g) for g in x.launches]) for x in ways])
    return (*taken.blocks, *(lines or (syntax.AutoLine(),)))


@dataclass(frozen=True)
class _Way:
    """Blocks for statistics, and the launches that there are with them."""

    name: str
    blocks: Lines
    launches: tuple[tuple[Computation, ...], ...]


def _ways(op: Op, device: Device, machine: MachineModel) -> list[_Way]:
    """What there is without blocks first; nothing where rows are not few and long."""
    of_rows = row_statistics(op, device)
    kept = of_rows or vector_statistics(op, device)
    whole = launch_keeping(op, kept) if kept else None
    if whole is None or not _are_few_and_long(machine, whole):
        return []

    def way(name: str, *blocks: tuple[str, ...]) -> _Way:
        lines = tuple(syntax.Keep(x, machine.home.name, block=(syntax.AutoLine(),)) for x in blocks)
        return _Way(name, lines, tuple(g for g, _ in launches_of(op, device, lines)))

    def one_pass(some: tuple[str, ...]) -> _Way | None:
        try:
            found = way("statistics in one pass", some)
        except NotComputed:  # some of them read none of the others, and have launches of their own
            return None
        return found if row_chain(found.launches[0]) is not None else None

    rows = min((w.indices for w in whole), key=len)
    names = tuple(s.target for s in op.statements if s.target in kept and s.indices == rows)
    out = [way("together")] if of_rows else []
    if of_rows and len(out[0].launches) > 1:
        return []
    out.append(way("statistics apart", *((t,) for t in names if of_rows)))
    reduced = tuple(t for w in whole if w.reduction is not None for t in w.targets)
    for some in (reduced, names):  # results of rows, which nobody reads, are reduced with the statistics if that is a pass
        if len(some) > 1 and not (of_rows and len(some) == len(whole)) and (found := one_pass(some)) is not None:
            return [*out, found]
    return out


def _fastest_by_blocks(ways: Sequence[tuple[_Way, list[ChosenLaunch] | None]], ctx: LoweringContext) -> _Way:
    """CHOSEN, by the model of devices with blocks."""
    named = {_counted(x.name, launches): (x, launches) for x, launches in ways if launches is not None}
    if len(named) < len(ways):
        return ways[0][0]
    (first, (_, launches)), *others = named.items()
    report = side_by_side({first: in_turn(first, launches)}, {name: x for name, (_, x) in others}, 1 / CLEARLY)
    ctx.alternatives.append(report)
    return named[report.candidates[0].nest][0]


def _fastest_by_cores(ways: Sequence[tuple[_Way, list[float]]]) -> _Way:
    """CHOSEN, by the model of devices with cores."""
    seconds = [sum(x) for _, x in ways]
    seconds[0] *= CLEARLY
    return ways[seconds.index(min(seconds))][0]


def _seconds(ctx: LoweringContext, computations: tuple[Computation, ...]) -> float:
    """Of a launch; infinite where no model is for it."""
    for w in computations:
        ctx.dtypes.setdefault(w.name, w.value.dtype)
    found = next(candidate_groups(ctx, computations, (syntax.AutoLine(),)), None)
    cost = found[0].cost if found else None
    return inf if cost is None else float(cost.seconds)


def _counted(way: str, launches: Sequence[ChosenLaunch]) -> str:
    """With the number of launches: parts are combined by one more."""
    count = len(launches) + sum(x.candidate.tile.get("part", 0) > 0 for x in launches)
    return f"{way}: {count} launch{'es' if count > 1 else ''}"


def _may_be_few_and_long(op: Op, machine: MachineModel) -> bool:
    """Whether some statement reduces such rows: a quick look."""
    least = machine.lanes * GROUPS[-1] if machine.has_blocks else LEAST // machine.units
    for s in op.statements:
        if s.reduction is not None and len(s.reduction.indices) == 1:
            extents = {i: e.constant for i, e in s.ranges}
            rows = prod(extents[i] or machine.units for i in s.indices)
            if rows < machine.units and (extents[s.reduction.indices[0]] or 0) > least:
                return True
    return False


def _are_few_and_long(machine: MachineModel, whole: tuple[Computation, ...]) -> bool:
    """LONG"""
    reductions = [w for w in whole if w.reduction is not None]
    shared = min((w.indices for w in whole), key=len)
    along = {i for w in reductions for i in w.reduced}
    extents = {i: e.constant for w in whole for i, e in w.extents}
    if len(along) != 1 or None in extents.values() or any(w.domain for w in whole):
        return False
    (fast,) = along
    count, length = prod(extents[i] or 0 for i in shared), extents[fast] or 0
    if not 0 < count < machine.units:
        return False
    if not machine.has_blocks:
        return count * length >= LEAST
    size = bytes_of_place([AccessProblem.of(w, {}) for w in whole], fast, {t for w in reductions for t in w.reads})
    return not fits_registers(machine, length, size, GROUPS[-1])
