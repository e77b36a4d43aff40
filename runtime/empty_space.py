"""Calls at sizes for which a statement has no iteration, and would have very many if a size were not 0.

In a kernel for open sizes a loop may run around the loop that is empty: `k` of 2^40 iterations around `m` of none, which does
not end. A call at such sizes uses a variant in which the sizes that are 0 are fixed. Emission leaves out loops without a body.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from ..dsl.errors import UserError
from ..dsl.op import Op
from ..dsl.ops.specialise import specialise
from .variant import Variant

if TYPE_CHECKING:
    from .compile import CompileRequest

MOST = 1 << 26  # iterations without effect: that a call may make, because another variant takes a second to build


def fitted_to_zeros(chosen: Variant, request: CompileRequest | None, op: Op, sizes: Mapping[str, int]) -> Variant:
    """The variant for these sizes: `chosen`, or one without loops around nothing.

    A kernel that was loaded from a file has no request, and keeps `chosen`.
    """
    if request is None or 0 not in sizes.values() or not _has_long_empty_space(op, sizes):
        return chosen
    fixed = {**request.sizes, **{name: 0 for name, n in sizes.items() if n == 0 and any(v.name == name for v in op.dims)}}
    if fixed == request.sizes:
        return chosen
    try:
        return replace(request, special=specialise(request.op, fixed), sizes=fixed, verify=False).variant(None)
    except UserError:
        return chosen


def _has_long_empty_space(op: Op, sizes: Mapping[str, int]) -> bool:
    for s in op.statements:
        extents = [e.evaluate(sizes) for _, e in s.ranges]
        if 0 in extents and prod(n for n in extents if n) > MOST:
            return True
    return False
