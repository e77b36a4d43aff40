"""The lowering context of an op."""

from __future__ import annotations

from ...dsl.device import Device
from ...dsl.op import Op
from ...dsl.support.fast_replace import replace
from ..lower.lowering_context import LoweringContext
from ..lower.workspace import workspace
from ..plan.name_factors import second_names
from .instr_mappings import index_sets, indices_by_reads


def context_of(op: Op, device: Device) -> LoweringContext:
    """Every tensor of the op gets its type and shape; names that are taken are set aside."""
    shapes = {t.name: t.shape for t in op.tensors}
    again = second_names(op)
    shapes |= {name: shapes[tensor] for name, tensor in again.items()}
    ctx = LoweringContext(
        device, op.name, {t.name: t.dtype for t in op.tensors}, shapes, op.derived, _has_statistics(op), again
    )
    ctx.nameable = frozenset(shapes)
    ctx.names |= {i for s in op.statements for i, _ in s.ranges}
    ctx.names |= {v.name for v in op.dims} | {v.name for v, _ in op.derived} | {t.name for t in op.tensors}
    for level in device.levels:
        ctx.names |= {level.name, level.name + "s"}
    for t in op.tensors:
        if t.role != "intermediate":
            ctx.buffers.append(replace(workspace(ctx, t.name, t.dtype, t.shape), kind=t.role))
    return ctx


def _has_statistics(op: Op) -> bool:
    """Whether any reduction reads no element again: a contraction has two groups of indices that its reads do not share."""
    reductions = [s for s in op.statements if s.reduction is not None]
    return any(len(indices_by_reads(s.indices, index_sets(s.value))) < 2 for s in reductions)
