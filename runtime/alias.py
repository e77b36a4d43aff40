"""When `out` may be the same memory as an input (docs/python.md)."""

from __future__ import annotations

from ..dsl.index import Var, as_expr
from ..dsl.op import Op, Statement
from ..dsl.values import loads


def may_alias(op: Op, output: str, input: str) -> bool:
    """Whether writing `output` over `input` is safe with any schedule: it is read only at the index being written.

    AT_THE_INDEX   every read that reaches `output` is at the output's own indices in their order, outside any reduction
                   (inside one the element is read again after others were written). Pointwise intermediates are followed.
    NOWHERE_ELSE   no other output depends on the input: which is computed first is up to the schedule.
    SAME_ELEMENTS  both have the same type and the same shape.
    """
    a, b = op.tensor(output), op.tensor(input)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    by_target = {s.target: s for s in op.statements}
    if any(_depends(by_target[t.name], input, by_target) for t in op.outputs if t.name != output):
        return False
    return _at_the_index(by_target[output], input, by_target)


def _at_the_index(s: Statement, input: str, by_target: dict[str, Statement]) -> bool:
    own = tuple(as_expr(Var(name)) for name in s.indices)
    for ld in loads(s.value):
        here = s.reduction is None and ld.indices == own
        if ld.tensor == input and not here:
            return False
        producer = by_target.get(ld.tensor)
        if producer and _depends(producer, input, by_target) and not (here and _at_the_index(producer, input, by_target)):
            return False
    return True


def _depends(s: Statement, input: str, by_target: dict[str, Statement]) -> bool:
    """Whether `s` reads the input, itself or through what it reads."""
    found, todo = {s.target}, [s]
    while todo:
        for ld in loads(todo.pop().value):
            if ld.tensor == input:
                return True
            if ld.tensor in by_target and ld.tensor not in found:
                found.add(ld.tensor)
                todo.append(by_target[ld.tensor])
    return False
