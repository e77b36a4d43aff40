"""Operands of a warp's instruction that are materialised in the staging memory, because the instruction reads them there.

An instruction that needs a tensor as a factor needs a computed factor in memory: it is computed where it would be staged, for
each tile (`lower/intermediates/compute_at.py`), zero past the edges. Where nothing is padded, lanes can compute it in the
instruction's fragments as well: no step waits for its loads, but each warp computes all that it reads. The faster one is taken.
If the instruction can convert the factor itself, or no instruction matches, the factor is computed where it is read.

FINISHED  what finishes a reduction, and is a factor of another, is computed once: where the results of the first are stored.
          Several such factors, as of the gradients of attention, are stored side by side.
"""

from __future__ import annotations

from math import inf

from ....dsl.op import Op
from ....dsl.values import loads
from ...lower.lowering_context import LoweringContext
from ...plan.computations import Computation
from ...plan.group_launches import group_launches, group_launches_keeping
from ..access_model import AccessProblem
from ..instr_mappings import mappings, reused_indices
from ..machine_model import MachineModel
from ..made_in_tile.find_pairs import is_window
from ..rank import rank_candidates
from .computed_operands import Made, operand_computations
from .contraction import ContractionTemplate


def materialised_operands(ctx: LoweringContext, machine: MachineModel, op: Op, pointwise: frozenset[str]) -> frozenset[str]:
    """Intermediates in `pointwise` whose materialisation lets an instruction of warps match a product, or makes it faster."""
    found: set[str] = set()
    plainly = {w.name: w for g in group_launches(op, frozenset()) for w in g}
    for g in group_launches_keeping(op, pointwise):
        for w in [x for x in g if x.reduction is not None]:
            factors = pointwise & {ld.tensor for ld in loads(w.value)}  # what an epilogue alone reads is no operand
            as_it_is = plainly.get(w.name)
            if not factors or as_it_is is None:
                continue
            launch = next((x for x in group_launches_keeping(op, factors) if x[-1].name == w.name), None)
            operands = operand_computations(launch, ctx.device.computes) if launch is not None else ()
            pointwise_alone = not any(cost.reduced for _, cost in operands)
            if launch is None or not operands or not pointwise_alone or not _grouped(ctx, machine, launch[-1], operands):
                continue
            staged = _seconds(ctx, launch)
            if staged < _seconds(ctx, (as_it_is,), staged):
                found |= factors
    return frozenset(found) - _finishing(op, frozenset(found))


def _finishing(op: Op, found: frozenset[str]) -> frozenset[str]:
    """Those of `found` that finish a reduction once all of them are kept: several readers would share its launch."""
    makers = [w for g in group_launches_keeping(op, found) for w in g if w.reduction is not None]
    return found.intersection(t for w in makers for t in w.targets)


def finished_operands(op: Op, pointwise: frozenset[str]) -> frozenset[str]:
    """FINISHED: those in `pointwise`. Nothing else reads the reduction, or its results would be stored as well."""
    reductions = [s for s in op.statements if s.reduction is not None]
    factors = pointwise & {ld.tensor for s in reductions for ld in loads(s.value)}
    found = set()
    every = [w for g in group_launches(op, frozenset(), factors) for w in g] if factors and len(reductions) > 1 else []
    for name in factors:
        maker = next((w for w in every if w.reduction is not None and name in w.targets), None)
        if maker is None or not factors.issuperset(maker.targets):
            continue
        if len(reused_indices(maker)) < 2 and not is_window(maker):
            continue
        readers = [w for w in every if name in w.reads]
        alone = not any(maker.name in w.reads for w in every if w is not maker)
        if alone and all(len(reused_indices(w)) > 1 and w.reduction is not None for w in readers):
            found.add(name)
    return frozenset(found)


def _grouped(ctx: LoweringContext, machine: MachineModel, computation: Computation, made: Made = ()) -> bool:
    """Whether an instruction of whole warps computes it, with these of its operands staged."""
    for m in mappings(ctx, computation):
        if m.instr is None or m.refused or m.instr.level == machine.lane.name:
            continue
        problem = AccessProblem.of(computation, ctx.dtypes, ctx.device.computes)
        if ContractionTemplate(ctx, machine, m, problem, made).materialises_all:
            return True
    return False


def _seconds(ctx: LoweringContext, launch: tuple[Computation, ...], limit: float = inf) -> float:
    """Those of the fastest candidate, at the largest sizes. Candidates beyond the limit are not looked at: infinite then."""
    return min((float(r.seconds[-1].min()) for r in rank_candidates(ctx, launch, limit=limit, largest=True)), default=inf)
