"""The factors that have names, so that memory or a launch of their own can hold them."""

from __future__ import annotations

from ....dsl.device import Device
from ....dsl.op import Op
from ....dsl.support.memoised import memoised, memoised_with
from ....dsl.syntax import all_lines, tensors_of
from ...plan.equal_factors import share_equal_factors
from ...plan.name_factors import inline_copies, name_factors, second_names, squared_factor_names
from ...schedule.build_tree import modifier
from ..cpu.precompute_operands import factors_of_moved, precomputed_operands
from ..gpu.materialised_operands import finished_operands, materialised_operands
from ..line_builders import is_all_open
from ..machine_model import block_machine
from ..made_in_tile.operands_apart import OperandsApart, operands_apart
from ..one_pass.converted_operands import widen_operands
from ..op_context import context_of
from .own_blocks import has_own_launch, is_filled_in, launch_blocks, moved_tensors


def with_named_factors(op: Op, device: Device, lines: tuple) -> Op:
    """The op with names for the computed factors that lines speak of, or that rTile makes for an instruction."""
    spoken = named = frozenset(t for x in all_lines(lines) for t in tensors_of(x))
    op, converted = widen_operands(op, device)
    op, once = inline_copies(op, named), frozenset(blocks := launch_blocks(device, lines))
    carries = any(modifier(x, "carry") is not None for x in all_lines(lines))  # made for all terms of all rows, they undo it
    every = None
    if is_all_open(lines) or (is_filled_in(lines) and not carries):
        every = name_factors(op)
        ready = finished_factors(every, device)
        named |= materialise_operands(every, device) | ready | squared_factor_names(op) | converted
        rest = tuple(x for x in lines if not has_own_launch(device, x))
        made = precomputed_operands(op, device)
        named |= made - factors_of_moved(name_factors(op, made), made, moved_tensors(rest)).union(
            *(factors_of_moved(name_factors(op, made), made, moved_tensors(x), t) for t, x in blocks.items())
        )
        once |= named & made | ready
    op = share_equal_factors(op, once, spoken, moved_tensors(lines))
    # The lines are for one launch. Others are chosen, and stage factors by names of their own.
    with_names = name_factors(op, named | squared_factor_names(op, named))
    return every if every is not None and with_names == every else with_names  # what was found for it is known


def materialise_operands(op: Op, device: Device) -> frozenset[str]:
    """Pointwise intermediates that an instruction of a group can read from memory, where it cannot compute them."""
    return materialised(op, device)[0]


def factors_apart(op: Op, device: Device, lines: tuple) -> frozenset[str]:
    """Those of them that launches of their own compute."""
    found = materialised(op, device)[1] if is_all_open(lines) else ()
    return frozenset(t for x in found if x.is_faster for t in x.tensors)


@memoised_with
def materialised(op: Op, device: Device) -> tuple[frozenset[str], tuple[OperandsApart, ...]]:
    """What `materialise_operands` gives, and those that launches of their own may compute, with their predictions."""
    machine = block_machine(device)
    pointwise = _pointwise_intermediates(op) - finished_factors(op, device)
    if machine is None or not pointwise or all(s.reduction is None for s in op.statements):
        return frozenset(), ()
    made = materialised_operands(context_of(op, device), machine, op, pointwise)
    return made, operands_apart(op, made, lambda: context_of(op, device))


def finished_factors(op: Op, device: Device) -> frozenset[str]:
    """Pointwise intermediates that finish a product, and that others have as factors."""
    return frozenset() if block_machine(device) is None else _finished_operands(op)


@memoised
def _finished_operands(op: Op) -> frozenset[str]:
    return finished_operands(op, _pointwise_intermediates(op))


def _pointwise_intermediates(op: Op) -> frozenset[str]:
    return frozenset(s.target for s in op.statements if s.reduction is None) & intermediates(op)


def intermediates(op: Op) -> frozenset[str]:
    """Those that something is computed for."""
    return frozenset(t.name for t in op.tensors if t.role == "intermediate") - second_names(op).keys()
