"""argmax and argmin over nothing have no answer (docs/numbers.md)."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors.op import EmptyArgmax
from ..op import Op


def check_empty_argmax(op: Op, sizes: Mapping[str, int]) -> None:
    """Raises EmptyArgmax where a statement chooses from nothing, and has elements to give. `sizes`: of all dims."""
    for s in op.statements:
        if s.reduction is None or s.reduction.kind not in ("argmax", "argmin"):
            continue
        extents = {i: e.evaluate(sizes) for i, e in s.ranges}
        if all(extents[i] for i in s.indices) and not all(extents[i] for i in s.reduction.indices):
            raise EmptyArgmax(f"`{s.reduction.kind}` over nothing in `{s.target}` of op `{op.name}`", s.span)
