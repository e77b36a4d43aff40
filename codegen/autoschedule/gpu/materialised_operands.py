"""Operands of a warp's instruction that are materialised in the staging memory, because the instruction reads them there.

An instruction that needs a tensor as a factor needs a computed factor in memory: it is computed where it would be staged, for
each tile (`codegen/lower/compute_at.py`). If the instruction can convert the factor itself, or no instruction matches, the
factor is computed where it is read.
"""

from __future__ import annotations

from ....dsl.op import Op
from ....dsl.values import loads
from ...lower.lowering_context import LoweringContext
from ...plan.computations import Computation
from ...plan.group_launches import group_launches, group_launches_keeping
from ..access_model import AccessProblem
from ..instr_mappings import mappings
from ..machine_model import MachineModel
from .contraction import ContractionTemplate, Made


def materialised_operands(ctx: LoweringContext, machine: MachineModel, op: Op, pointwise: frozenset[str]) -> frozenset[str]:
    """Intermediates in `pointwise` whose materialisation lets an instruction of warps match a product."""
    found: set[str] = set()
    plainly = {w.name: w for g in group_launches(op, frozenset()) for w in g}
    for g in group_launches_keeping(op, pointwise):
        for w in [x for x in g if x.reduction is not None]:
            made = operand_computations((*(x for x in g if x.name in w.reads), w))
            as_it_is = plainly.get(w.name)
            if made and as_it_is is not None and _grouped(ctx, machine, w, made) and not _grouped(ctx, machine, as_it_is):
                found |= {name for name, _ in made}
    return frozenset(found)


def operand_computations(computations: tuple[Computation, ...]) -> Made:
    """The operands of the last computation, a reduction, among the others, which are pointwise and have fewer indices."""
    *first, last = computations
    if last.reduction is None or any(
        w.reduction is not None or w.name not in last.reads or not set(w.indices) < set(last.all_indices) for w in first
    ):
        return ()
    return tuple((w.name, sum(ld.dtype.bytes for ld in loads(w.value))) for w in first)


def _grouped(ctx: LoweringContext, machine: MachineModel, computation: Computation, made: Made = ()) -> bool:
    """Whether an instruction of whole warps computes it, with these of its operands staged."""
    for m in mappings(ctx, computation):
        if m.instr is None or m.refused or m.instr.level == machine.lane.name:
            continue
        if ContractionTemplate(ctx, machine, m, AccessProblem.of(computation, ctx.dtypes), made).materialises_all:
            return True
    return False
