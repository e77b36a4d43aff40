"""Whether `out` may be the same memory as an input (docs/python.md), and the error if it may not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...dsl.errors.run import OutputOverlap
from ...dsl.index.expr import Var, as_expr
from ...dsl.op import Op, Tensor
from ...dsl.values import loads


def refuse_overlaps(
    op: Op,
    arrays: Sequence[np.ndarray],
    written: Sequence[np.ndarray],
    results: Sequence[np.ndarray],
    addresses: Sequence[int],
) -> None:
    """Raises OutputOverlap. What the kernel touches is contiguous, so comparing bounds is exact.

    An output that is not contiguous is written by way of a copy, after all inputs were read: it may overlap them.
    """
    first, inputs, outputs = len(arrays), op.inputs, op.outputs
    for j, (w, r) in enumerate(zip(written, results, strict=True)):
        for k in range(j):
            if np.may_share_memory(w, written[k]) and w.size and written[k].size:
                message = f"out `{outputs[j].name}` shares memory with out `{outputs[k].name}`"
                raise OutputOverlap(message, help="pass arrays that share no memory")
        start = addresses[first + j]
        for i, x in enumerate(arrays):
            if w is r and start < addresses[i] + x.nbytes and addresses[i] < start + r.nbytes:
                refuse_overlap(op, outputs[j], inputs[i], start == addresses[i] and x.shape == r.shape)


def refuse_overlap(op: Op, output: Tensor, input: Tensor, same: bool) -> None:
    """Raises OutputOverlap unless the output may be written over the input. `same`: they are the same memory, all of it."""
    if same and may_alias(op, output.name, input.name):
        return
    reads = f"{op.name} reads {input.name} at other places than the one being written"
    raise OutputOverlap(
        f"out `{output.name}` shares memory with {input.name}: {reads if same else 'they overlap only in part'}",
        help=f"pass a copy of {input.name}, or another out",
    )


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
    depending = _depending(op, input)
    if any(t.name in depending for t in op.outputs if t.name != output):
        return False
    seen, todo = {output}, [by_target[output]]
    while todo:
        s = todo.pop()
        own = tuple(as_expr(Var(name)) for name in s.indices)
        for ld in loads(s.value):
            if ld.tensor != input and ld.tensor not in depending:
                continue
            if s.reduction is not None or ld.indices != own:
                return False
            if ld.tensor in by_target and ld.tensor not in seen:
                seen.add(ld.tensor)
                todo.append(by_target[ld.tensor])
    return True


def _depending(op: Op, input: str) -> set[str]:
    """The targets of statements that read the input, themselves or through what they read, which is computed before."""
    found: set[str] = set()
    for s in op.statements:
        if any(ld.tensor == input or ld.tensor in found for ld in loads(s.value)):
            found.add(s.target)
    return found
