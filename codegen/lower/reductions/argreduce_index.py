"""The index of argmax and argmin: the row-major number of the chosen element among the reduced indices.

NOWHERE       the initial index, larger than every number. It remains if no element was better than the identity: then all
              elements equal the identity, and the first one is the result.
PLACES_GROW   if a unit visits its elements in the order of their numbers, an equal element never replaces the current one, and
              the numbers need not be compared.
"""

from __future__ import annotations

from ....dsl.index.expr import Expr, Var
from ....dsl.types import TYPES, DType
from ....dsl.values import Apply, Cast, Const, Load, Value
from ...plan.computations import Computation
from ..lowering_context import LoweringContext
from ..spec import ZERO, Focus

MOST_NARROW = (1 << 31) - 1  # elements: whose indices fit 32 bits, with one value left for no index [fact: i32]


def prefers_i32(values: DType) -> bool:
    """Whether places of 32 bits, where they fit, are no wider than the values: then vectors are not halved for them."""
    return values.compute.bits <= 32


def _index_type(computation: Computation) -> DType:
    """i64; i32 where that is enough and not narrower than the values."""
    total = 1
    for i, extent in computation.extents:
        high = extent.interval[1] if i in computation.reduced else 1
        total = MOST_NARROW + 1 if high is None else total * max(1, high)
    known = {i for i, _ in computation.extents}
    return TYPES[
        "i32" if total <= MOST_NARROW and set(computation.reduced) <= known and prefers_i32(computation.value.dtype) else "i64"
    ]


def accumulator_types(computation: Computation) -> tuple[DType, ...]:
    """What a unit holds of one element of a reduction: its value, and its place where the op asks for that."""
    assert computation.reduction is not None
    return (
        computation.value.dtype,
        *((_index_type(computation),) if computation.reduction.kind in ("argmax", "argmin") else ()),
    )


def no_index(dtype: DType) -> Const:
    """NOWHERE"""
    return Const((1 << (dtype.bits - 1)) - 1, dtype)


def found_index(place: Load) -> Value:
    """What an op gets: the place, or 0 where nothing was found (NOWHERE)."""
    still = Apply("eq", (place, no_index(place.dtype)), TYPES["bool"])
    found = Apply("where", (still, Const(0, place.dtype), place), place.dtype)
    return found if place.dtype == TYPES["i64"] else Cast(found, TYPES["i64"])


def index_is_monotone(ctx: LoweringContext, focus: Focus, computation: Computation, place: Expr) -> bool:
    """PLACES_GROW, for one reduced index: its loops are nested in the order of its steps, and each turn of one goes further
    than all turns of those inside it."""
    if len(computation.reduced) != 1 or any(computation.reduced[0] == name for name, _ in computation.fused):
        return False
    r = focus.ranges[computation.reduced[0]]
    further = 0  # how far the loops inside go
    for step in reversed(r.steps):
        if step.expr == ZERO or (step.unit is not None and _is_uniform_for_unit(ctx, step.unit)):
            continue
        atom = step.expr.terms[0][0] if len(step.expr.terms) == 1 and step.expr.const == 0 else None
        k = place.coefficient(atom) if isinstance(atom, Var) else 0
        last = step.extent.interval[1]
        if r.strided_runs or k <= further or (last is None and step is not r.steps[0]):
            return False
        further += k * (last - 1) if last is not None else 0
    return True


def _is_uniform_for_unit(ctx: LoweringContext, level: str) -> bool:
    """Whether a step dealt to units is one and the same for all that a unit does."""
    return level != "fragment" and ctx.device.level(level).units != "finite"
