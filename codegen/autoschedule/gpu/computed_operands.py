"""Operands of a contraction that are computed: in the staging memory for each tile, or in registers where they are read."""

from __future__ import annotations

from dataclasses import dataclass

from ....dsl.values import Cast, Load, Value, loads, walk
from ...lower.leaves.match_instr import InstrMatch, fragment_map
from ...plan.computations import Computation
from ..access_model import AccessModel, AccessProblem, calls, operations
from ..instr_mappings import is_loaded

# operations: an integer to a float, by the pipe of special functions: 16 a cycle and SM, where there are 64 additions
# [measured: whole-steps-2026-11; test_integers_are_converted_once]
INTEGER_TO_FLOAT = 4


@dataclass(frozen=True)
class ElementCost:
    """Of one element of a tensor that is computed where it is staged.

    read        bytes that a lane reads for it; `own` are those that it reads for no other element
    operations  on scalars
    sources     what it is computed from
    converted   whether it is an element of another tensor, converted
    """

    read: int
    own: int
    operations: float
    sources: tuple[AccessModel, ...]
    converted: bool


Made = tuple[tuple[str, ElementCost], ...]  # the tensors that are computed where they are staged


def operand_computations(computations: tuple[Computation, ...], own: frozenset[str]) -> Made:
    """The operands of the last computation, a reduction, among the others, which are pointwise and have fewer indices.

    own  what the device computes by itself (`Device.computes`)
    """
    *first, last = computations
    if last.reduction is None or any(
        w.reduction is not None or w.name not in last.reads or not set(w.indices) < set(last.all_indices) for w in first
    ):
        return ()
    return tuple((w.name, _operand_cost(w, own)) for w in first)


def _operand_cost(w: Computation, own: frozenset[str]) -> ElementCost:
    sources = AccessProblem.of(w, {}).reads
    alone = sum(a.dtype.bytes for a in sources if a.axes >= set(w.indices))
    read = sum(ld.dtype.bytes for ld in loads(w.value))
    return ElementCost(read, alone, operations(w.value, w, own) + _from_integers(w.value), sources, is_loaded(w.value))


def _from_integers(value: Value) -> int:
    """Operations that convert integers to floats."""
    casts = [v for v in walk(value) if isinstance(v, Cast) and v.dtype.kind == "float" and v.arg.dtype.kind in ("int", "uint")]
    return INTEGER_TO_FLOAT * len(casts)


def operations_in_fragments(match: InstrMatch, own: frozenset[str]) -> dict[str, float]:
    """For each index of the computation, the operations of a lane on each fragment of the computed operand along it."""
    out: dict[str, float] = {}
    for name, value in match.operands:
        if count := sum(c.operations for c in calls(value, {}, own)) + _from_integers(value):
            f = fragment_map(match, name)
            for i, _, _ in f.maps:
                out[i] = out.get(i, 0.0) + count * f.registers
    return out


def elements_read(match: InstrMatch, tensor: str) -> int:
    """Elements of a tensor that a lane reads for a fragment, if the operand is computed from it."""
    for name, value in match.operands:
        if not isinstance(value, Load) and any(ld.tensor == tensor for ld in loads(value)):
            return fragment_map(match, name).registers
    return 0
