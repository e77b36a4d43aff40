"""The lines of a launch by a few rules. They need little of a device; candidates are compared with them.

CONTRACTION   sums of products that a multiply-add instruction matches, without packing.
NEIGHBOURS    otherwise the contiguous index is distributed over lockstep units, the others over units of the outer levels.
"""

from __future__ import annotations

from ...dsl import syntax
from ...dsl.index.expr import Var
from ..lower.lowering_context import LoweringContext
from ..plan.computations import Computation
from .cpu.default_nests import UNROLL, cores_and_lanes, fastest_index, vector_nest
from .cpu.matmul_model import operands_of
from .line_builders import tile_text
from .machine_model import core_machine


def rule_lines(ctx: LoweringContext, computations: tuple[Computation, ...]) -> tuple[syntax.Line, ...]:
    """The nest of a computation that is not a product, by a few rules: `cpu.nest_space` compares others with it."""
    computation = max(computations, key=lambda w: len(w.all_indices))
    levels = cores_and_lanes(ctx.device)
    found = _direct(ctx, computation) if len(computations) == 1 else None
    return found or (_neighbours(ctx, computation) if levels is None else vector_nest(ctx, computations, *levels))


def _direct(ctx: LoweringContext, computation: Computation) -> tuple[syntax.Line, ...] | None:
    """A contraction without packing: outputs to units, a few vectors in registers, the reduction inside.

    None where the instruction's lanes would lie along an index that has no neighbours in memory, in neither the operand nor the
    result, as the batch of a depthwise convolution: then another index is better off without the instruction.
    """
    cpu, found = core_machine(ctx.device), operands_of(ctx.device, computation)
    if cpu is None or found is None:
        return None
    m, n, finite = found[0], found[1], cpu.outer
    if len(m.index) != 1:
        return None  # what it takes must be packed for it
    if n != (computation.subscripts or computation.indices)[-1] and found[2].indices[-1].coefficient(Var(n)) != 1:
        return None
    others = [i for i in computation.indices if i != n]
    lines: list[syntax.Line] = []
    if others:
        lines.append(tile_text(*((i, 1) for i in others), level=finite.name))
        lines.append(tile_text((n, UNROLL * m.extent(n))))
    else:
        lines.append(tile_text((n, UNROLL * m.extent(n)), level=finite.name))
    lines.append(syntax.Keep((computation.result,), ctx.device.memories[-1].name))
    lines += [tile_text((k, 1)) for k in computation.reduced]
    lines.append(syntax.Compute(m.instr.name))
    return tuple(lines)


def _neighbours(ctx: LoweringContext, computation: Computation) -> tuple[syntax.Line, ...]:
    """Outer indices are distributed over outer units, the contiguous index over lockstep units; reductions stay inside."""
    outer = next((x for x in ctx.device.levels[1:] if x.units in ("open", "finite")), None)
    inner = ctx.device.levels[-1]
    dtype = computation.value.dtype.compute
    width = max(1, inner.bytes // dtype.bytes) if inner.bytes else inner.most or 1
    fast = fastest_index(computation)
    lines: list[syntax.Line] = []
    row = width if outer is not None and outer.units == "open" else UNROLL * width  # open units have all lanes of a row at once
    parallel = inner.siblings == "lockstep" and inner.units == "shaped" and computation.value.dtype.name != "bool"
    if fast in computation.indices or not computation.indices:
        others = [i for i in computation.indices if i != fast]
        if others and outer:
            lines.append(tile_text(*((i, 1) for i in others), level=outer.name))
        elif outer and fast in computation.indices:
            lines.append(tile_text((fast, width), level=outer.name))
        if fast in computation.indices:
            lines.append(tile_text((fast, row)))
            if parallel:
                lines.append(tile_text((fast, 1), level=inner.name))
        if computation.reduction is not None:
            lines.append(syntax.Keep((computation.result,), ctx.device.memories[-1].name))
            lines += [tile_text((k, 1)) for k in computation.reduced if k != fast or fast in computation.indices]
    if computation.reduction is not None and fast in computation.reduced:
        if computation.indices:
            lines = [tile_text(*((i, 1) for i in computation.indices), level=outer.name if outer else None)]
            lines.append(syntax.Keep((computation.result,), ctx.device.memories[-1].name))
            lines += [tile_text((k, 1)) for k in computation.reduced if k != fast]
        lines.append(tile_text((fast, row)))
        if parallel:
            lines.append(tile_text((fast, 1), level=inner.name))
    lines.append(syntax.Compute())
    return tuple(lines)
