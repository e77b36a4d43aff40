"""For each reduction of an op: the mapping of each instruction with its predicted time, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...dsl.device import Device
from ...dsl.op import Op
from ...dsl.support.amounts import seconds_text
from .access_model import AccessProblem
from .gpu.computed_operands import operand_computations
from .gpu.contraction import ContractionTemplate
from .instr_mappings import mappings
from .launches.launches_of_op import launches_of
from .launches.named_factors import with_named_factors
from .machine_model import block_machine
from .op_context import context_of
from .rank import rank_nest, sample_sizes


@dataclass(frozen=True)
class MappingVerdict:
    """A mapping of an instruction's indices, and its best predicted time, or why it is not legal."""

    mapping: str
    seconds: float | None
    refused: str


def mapping_verdicts(op: Op, device: Device) -> list[tuple[str, list[MappingVerdict]]]:
    """For each reduction of the op: every mapping of every instruction that accumulates, and the scalar body.

    Empty for devices for which no schedule is constructed this way.
    """
    machine = block_machine(device)
    if machine is None:
        return []
    out = []
    op = with_named_factors(op, device, ())
    ctx = context_of(op, device)
    for computations, _ in launches_of(op, device, ()):
        for w in computations:
            ctx.dtypes.setdefault(w.name, w.value.dtype)
        last, operands = computations[-1], operand_computations(computations, device.computes)
        if (len(computations) > 1 and not operands) or last.reduction is None:
            continue
        whole, at = AccessProblem.of(last, ctx.dtypes, device.computes), sample_sizes(ctx, computations)
        verdicts = []
        for m in mappings(ctx, last):
            seconds = None
            if not m.refused:
                found = rank_nest(ctx, at, ContractionTemplate(ctx, machine, m, whole, operands))
                seconds = float(found.seconds[-1].min()) if found is not None else None
            verdicts.append(MappingVerdict(str(m), seconds, m.refused))
        out.append((last.result, verdicts))
    return out


def show_verdicts(found: Sequence[tuple[str, Sequence[MappingVerdict]]], everything: bool = True) -> str:
    """Legal ones first, the fastest first; then the others, those of one instruction with one reason together."""
    out = []
    for name, verdicts in found:
        out.append(f"reduction {name}")
        legal = sorted((v for v in verdicts if not v.refused), key=lambda v: v.seconds or 0.0)
        for v in legal:
            out.append(f"  {v.mapping}: " + (seconds_text(v.seconds) if v.seconds is not None else "no tile fits"))
        reasons: dict[str, list[str]] = {}
        for v in verdicts:
            if v.refused and everything:
                reasons.setdefault(v.refused, []).append(v.mapping.removesuffix("()"))
        for why, names in reasons.items():
            shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
            out.append(f"  not {shown}: {why}")
    return "\n".join(out) or "no reduction for which instructions are matched"
