"""Whether results are right: compared with the reference, within the bounds of the language."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..dsl.index.expr import Var, as_expr
from ..dsl.op import Op, Statement, Tensor
from ..dsl.semantics.reference import reference
from ..dsl.values import IndexValue, Load, loads, walk
from .arrays.bind_sizes import bind_sizes
from .op_counts import flops

_REFERENCE_FLOPS = 1 << 31  # above this the reference would take longer than a person waits
_ROWS = 16  # how many rows are checked then


@dataclass(frozen=True)
class WrongElements:
    """What is wrong with an output: `count` of the `of` elements that were compared; the first of them, in the order of memory,
    is at `at`."""

    tensor: str
    count: int
    of: int
    at: tuple[int, ...]
    expected: float
    got: float
    allowed: float

    def __str__(self) -> str:
        which = (
            f"{self.count:,} of {self.of:,} elements of {self.tensor} are wrong" if self.of > 1 else f"{self.tensor} is wrong"
        )
        where = f", the first {self.tensor}{list(self.at)}" if self.of > 1 else ""
        return f"{which}{where}: expected {self.expected:.9g}, got {self.got:.9g} (allowed: {self.allowed:.3g} off)"


@dataclass(frozen=True)
class CheckResult:
    """`error` is the largest |y - ref|, `allowed` the bound where the ratio of both is worst; `note` says what was checked.

    wrong  each output that is wrong, in the order of the op
    """

    ok: bool
    error: float
    allowed: float
    note: str = ""
    wrong: tuple[WrongElements, ...] = ()


class ExpectedResults:
    """What the reference says of some inputs, computed once; for ops that would take it long, of rows picked evenly.

    The rows are those of the first axis that can be cut out of the op without changing its meaning.
    """

    def __init__(self, op: Op, inputs: Sequence[np.ndarray]) -> None:
        self.op = op
        self.note = ""
        self._cut: tuple[str, np.ndarray] | None = None
        sizes = bind_sizes(op, [a.shape for a in inputs], {})
        if flops(op, sizes) > _REFERENCE_FLOPS:
            dim = row_dim(op)
            if dim is None:
                self.note = "every element was checked; the op has no axis to pick rows of"
            elif sizes[dim] > _ROWS:
                rows = np.unique(np.linspace(0, sizes[dim] - 1, _ROWS).astype(int))
                self.note = f"checked {len(rows)} of {sizes[dim]} rows along {dim}: the reference of all would take long"
                inputs = [_rows(t, a, dim, rows) for t, a in zip(op.inputs, inputs, strict=True)]
                self._cut = dim, rows
        pairs = reference(op, exact=True)(*inputs)
        self._pairs = [pairs] if len(op.outputs) == 1 else pairs
        free = sum(int(np.isinf(bound).sum()) for _, bound in self._pairs)
        if free:  # a division by what may be zero, a root of what may be negative
            size = sum(np.size(value) for value, _ in self._pairs)
            said = f"no bound is known for {free} of {size} elements, which were not compared"
            self.note = f"{self.note}; {said}" if self.note else said

    def check(self, outputs: Sequence[np.ndarray]) -> CheckResult:
        """Compares within the bounds of docs/numbers.md."""
        if self._cut is not None:
            outputs = [_rows(t, a, *self._cut) for t, a in zip(self.op.outputs, outputs, strict=True)]
        tensors = self.op.outputs
        verdicts = [_compare(t.name, y, *pair) for t, y, pair in zip(tensors, outputs, self._pairs, strict=True)]
        worst = max(verdicts, key=lambda v: (not v.ok, v.error))
        wrong = tuple(self._whole(t, w) for t, v in zip(tensors, verdicts, strict=True) for w in v.wrong)
        return CheckResult(all(v.ok for v in verdicts), worst.error, worst.allowed, self.note, wrong)

    def _whole(self, tensor: Tensor, wrong: WrongElements) -> WrongElements:
        """With the row that it is in the whole output, where only some rows were compared."""
        if self._cut is None:
            return wrong
        dim, rows = self._cut
        at = (int(rows[i]) if str(extent) == dim else i for i, extent in zip(wrong.at, tensor.shape, strict=True))
        return replace(wrong, at=tuple(at))


def check(op: Op, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> CheckResult:
    """Compares with the reference within the bounds of docs/numbers.md; see `ExpectedResults`."""
    return ExpectedResults(op, inputs).check(outputs)


def _compare(tensor: str, y: np.ndarray, value: np.ndarray, bound: np.ndarray) -> CheckResult:
    if y.size == 0:
        return CheckResult(True, 0.0, 0.0)
    got = np.asarray(y).astype(np.float64)
    with np.errstate(all="ignore"):
        error = np.abs(got - value)
        # Equal infinities differ by NaN; NaN where the reference is NaN is right.
        same = (got == value) | (np.isnan(got) & np.isnan(value)) | np.isinf(bound)
        good = same | (error <= bound)
    error = np.where(same, 0.0, np.where(np.isnan(error), np.inf, error))
    at = np.unravel_index(np.argmax(error), error.shape)
    bounds, values = np.broadcast_to(bound, error.shape), np.broadcast_to(value, error.shape)
    wrong: tuple[WrongElements, ...] = ()
    if not good.all():
        first = np.unravel_index(int(np.argmin(good)), good.shape)
        place = tuple(int(i) for i in first)
        count = int(good.size - good.sum())
        wrong = (WrongElements(tensor, count, good.size, place, float(values[first]), float(got[first]), float(bounds[first])),)
    return CheckResult(not wrong, float(error[at]), float(bounds[at]), wrong=wrong)


def row_dim(op: Op) -> str | None:
    """A size whose axis only numbers independent rows: every access along it is at the statement's own free index.

    Then the op over some of the rows gives those rows of the results.
    """
    for expr in op.outputs[0].shape:
        name = str(expr)
        is_size = any(name == d.name for d in op.dims)
        everywhere = all(any(str(e) == name for e in t.shape) for t in op.outputs)
        if is_size and everywhere and not _used(op, name) and all(_independent(s, name, op) for s in op.statements):
            return name
    return None


def _independent(s: Statement, dim: str, op: Op) -> bool:
    along = [i for i, extent in s.ranges if str(extent) == dim]
    if s.reduction and any(i in s.reduction.indices for i in along):
        return False
    own = {as_expr(Var(i)) for i in along}
    return all(
        (sub in own) if str(extent) == dim else not any(v.name in along for v in sub.variables())
        for ld in loads(s.value)
        for sub, extent in zip(ld.indices, op.tensor(ld.tensor).shape, strict=True)
    ) and (len(along) == 1 or not along)


def _used(op: Op, dim: str) -> bool:
    """Whether the size, or an index along it, is a number in the arithmetic or part of another size."""
    exprs = [e for t in op.tensors for e in t.shape if str(e) != dim]
    exprs += [e for _, e in op.derived] + [e for e, _ in op.conditions]
    for s in op.statements:
        along = {i for i, extent in s.ranges if str(extent) == dim}
        for v in walk(s.value):
            if isinstance(v, IndexValue) and any(x.name == dim or x.name in along for x in v.expr.variables()):
                return True
            if isinstance(v, Load):
                exprs += v.indices
    return any(v.name == dim for e in exprs for v in e.variables())


def _rows(tensor: Tensor, array: np.ndarray, dim: str, rows: np.ndarray) -> np.ndarray:
    for axis, extent in enumerate(tensor.shape):
        if str(extent) == dim:
            array = np.take(array, rows, axis)
    return array
