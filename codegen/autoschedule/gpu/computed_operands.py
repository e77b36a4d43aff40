"""Operands of a contraction that are computed: in the staging memory for each tile, or in registers where they are read.

WINDOWS  An operand may be a reduction of a few terms, as a depthwise convolution whose channels a product combines:

             move D -> shared swizzle:
                 tile m: 1, c: 8 -> thread
                 keep D in register
                 tile r: 1, s: 1
                 compute

NEIGHBOURS  Of what windows read, the next element along the last axis of pixels has most already.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from ....dsl import syntax
from ....dsl.support.fast_replace import replace
from ....dsl.values import Cast, Load, Value, loads, walk
from ...ir.limits import WIDEST_ACCESS
from ...lower.leaves.match_instr import InstrMatch, fragment_map
from ...plan.computations import Computation, reads_in_terms_alone
from ..access_model import AccessModel, AccessProblem, calls, operations
from ..instr_mappings import is_loaded
from ..line_builders import tile_text
from ..machine_model import MachineModel
from ..made_in_tile.find_pairs import is_window

# operations: an integer to a float, by the pipe of special functions: 16 a cycle and SM, where there are 64 additions
# [measured: whole-steps-2026-11; test_integers_are_converted_once]
INTEGER_TO_FLOAT = 4
# operations: a float of 8 bits to one of 32, which is integer arithmetic [measured: narrow-operands-2026-11;
# test_narrow_floats_are_converted_once]
FROM_8_BITS = 7


@dataclass(frozen=True)
class ElementCost:
    """Of one element of a tensor that is computed where it is staged.

    read        bytes that a lane reads for it; `own` are those that it reads for no other element
    operations  on scalars
    sources     what it is computed from
    converted   whether it is an element of another tensor, converted
    reduced     the indices of a window
    in_vectors  whether what a window reads are neighbours where its results are
    resident    whether it is whole in staging memory already: nothing is staged for a step
    """

    read: int
    own: int
    operations: float
    sources: tuple[AccessModel, ...]
    converted: bool
    reduced: tuple[str, ...] = ()
    in_vectors: bool = False
    resident: bool = False


RESIDENT = ElementCost(0, 0, 0, (), converted=True, resident=True)

Made = tuple[tuple[str, ElementCost], ...]  # the tensors that are computed where they are staged


def operand_computations(computations: tuple[Computation, ...], own: frozenset[str]) -> Made:
    """The operands of the last computation, a reduction, among the others, which are pointwise and have fewer indices.

    own  what the device computes by itself (`Device.computes`)
    """
    *first, last = computations
    if is_window_factor(computations):
        return ((first[0].targets[0], _window_cost(first[0], own)),)
    if last.reduction is None or any(
        w.reduction is not None or w.name not in last.reads or not set(w.indices) < set(last.all_indices) for w in first
    ):
        return ()
    return tuple((w.name, operand_cost(w, own)) for w in first)


def operand_cost(w: Computation, own: frozenset[str]) -> ElementCost:
    """Of a pointwise computation."""
    sources = AccessProblem.of(w, {}).reads
    alone = sum(a.dtype.bytes for a in sources if a.axes >= set(w.indices))
    read = sum(ld.dtype.bytes for ld in loads(w.value))
    return ElementCost(read, alone, operations(w.value, w, own) + _conversions(w.value), sources, is_loaded(w.value))


def is_window_factor(computations: tuple[Computation, ...]) -> bool:
    """WINDOWS: whether the launch is a window, and a sum that has its results as a factor, at their own elements alone."""
    if len(computations) != 2:
        return False
    w, last = computations
    if w.reduction is None or len(w.targets) != 1 or w.domain or last.reduction is None or last.reduction.kind != "sum":
        return False
    if w.alias or not is_window(w):
        return False
    (tensor,), stored = w.targets, w.stored_indices(w.targets[0])
    return bool(stored) and reads_in_terms_alone(last, tensor, stored) and set(stored) < set(last.all_indices)


def _window_cost(w: Computation, own: frozenset[str]) -> ElementCost:
    problem, extents = AccessProblem.of(w, {}, own), {i: e.constant or 1 for i, e in w.extents}
    terms, fast = prod(extents[i] for i in w.reduced), w.stored_indices(w.targets[0])[-1]
    once = [a for a in problem.reads if a not in problem.inner]
    alone = sum(a.dtype.bytes * _new_elements(a, extents, w) for a in problem.reads if a.axes >= set(w.indices))
    in_vectors = all(fast not in a.axes or (a.dims[-1] == ((fast, 1),) and a.plain(fast)) for a in problem.reads)
    loaded = sum(a.dtype.bytes / WIDEST_ACCESS if in_vectors else 1 for a in problem.inner)
    return ElementCost(
        read=sum(a.dtype.bytes for a in problem.inner) * terms + sum(a.dtype.bytes for a in once),
        own=alone,
        operations=(problem.operations + loaded) * terms + problem.finishing,
        sources=problem.reads,
        converted=False,
        reduced=w.reduced,
        in_vectors=in_vectors,
    )


def _new_elements(a: AccessModel, extents: Mapping[str, int], w: Computation) -> int:
    """NEIGHBOURS"""
    new, shared = 1, [d for d in a.dims if {i for i, _ in d} & {*w.reduced} and {i for i, _ in d} & {*w.indices}]
    for d in a.dims:
        terms = prod(extents[i] for i, _ in d if i in w.reduced)
        stride = sum(abs(c) for i, c in d if i in w.indices)
        new *= min(terms, max(1, stride)) if shared and d is shared[-1] else terms
    return new


def computing_line(
    move: syntax.Move, made: ElementCost | None, machine: MachineModel, axes: Sequence[tuple[str, int]]
) -> syntax.Move:
    """WINDOWS: the line with its block, whose lanes have so much along the axes; what is no window needs none."""
    if made is None or not made.reduced:
        return move
    kept = syntax.Keep((move.tensor,), machine.register.name)
    window = (kept, tile_text(*((i, 1) for i in made.reduced)), syntax.Compute())
    return replace(move, block=(tile_text(*axes, level=machine.lane.name), *window))


def _conversions(value: Value) -> int:
    """Operations that make floats of integers, and wide floats of narrow ones."""
    read = [v.arg.dtype for v in walk(value) if isinstance(v, Cast) and v.dtype.kind == "float"]
    integers, narrow = sum(x.kind in ("int", "uint") for x in read), sum(x.kind == "float" and x.bits == 8 for x in read)
    return INTEGER_TO_FLOAT * integers + FROM_8_BITS * narrow


def operations_in_fragments(match: InstrMatch, own: frozenset[str]) -> dict[str, float]:
    """For each index of the computation, the operations of a lane on each fragment of the computed operand along it."""
    out: dict[str, float] = {}
    for name, value in match.operands:
        if count := sum(c.operations for c in calls(value, {}, own)) + _conversions(value):
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
