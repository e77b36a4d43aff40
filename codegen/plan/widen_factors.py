"""Factors in a type that instructions of the device multiply, where theirs is none, and that type has each of their values.

    C[m, n] = sum(k) f32(A[m, k]) * f32(B[k, n])    -->    C[m, n] = sum(k) f32(f16(A[m, k])) * f32(f16(B[k, n]))

where A and B are f8e4m3 and the device has no product of f8. The conversions are exact, so the product is the same. They are
done where factors are staged, as all that is computed.

NARROWEST   Of several types the one with the fewest bits: its products are the fastest, and its copies the smallest. Of
            those the one in which no value is subnormal: some instructions take subnormal numbers for 0. So f8e5m2 is bf16.
FEW         Where an element of a factor meets few of the other one, instructions of groups would compute padding.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, prod

from ...dsl.device import Device
from ...dsl.op import Op, Statement
from ...dsl.support.fast_replace import replace
from ...dsl.types import DType, has_subnormals_of, holds_all
from ...dsl.values import Apply, Cast, Value, loads
from .computations import indices_of
from .name_factors import converted_factors, factors, with_factors

Pair = tuple[DType, DType]
# elements: of the other factor, for which it pays [estimate; test_few_uses]
FEW = 8


def widen_factors(op: Op, device: Device, few: int = FEW) -> Op:
    """The op for this device. `few`: FEW, where a caller weighs them itself."""
    statements = tuple(_widened(s, device, few) for s in op.statements)
    return op if statements == op.statements else replace(op, statements=statements)


def _widened(s: Statement, device: Device, few: int) -> Statement:
    left, right = converted_factors(s)
    if left is None or right is None or not factors(s) or left.dtype.kind != "float" or fewest_uses(s) < few:
        return s
    own = left.arg.dtype, right.arg.dtype
    pairs = [x for p in _multiplied(device, left.dtype) for x in (p, (p[1], p[0]))]
    exact = [x for x in pairs if all(a is b or holds_all(a, b) for a, b in zip(x, own, strict=True))]
    if not exact or own in exact:
        return s
    narrow = min(exact, key=lambda x: _rank(x, own))
    return with_factors(s, _in_type(left, narrow[0]), _in_type(right, narrow[1]))


def _rank(types: Pair, own: Pair) -> tuple[int, int]:
    """NARROWEST"""
    changed = [(a, b) for a, b in zip(types, own, strict=True) if a is not b]
    return sum(t.bits for t in types), sum(has_subnormals_of(a, b) for a, b in changed)


def fewest_uses(s: Statement, apart: frozenset[str] = frozenset()) -> float:
    """Of an element of either factor of a product, with how many elements of the other it is multiplied; infinite without a
    bound.

    apart   tensors: factors that read one of these do not count
    """
    mine = (x for x in factors(s) if apart.isdisjoint(ld.tensor for ld in loads(x)))
    return min((prod(inf if n is None else n for n in _others(s, x)) for x in mine), default=inf)


def _others(s: Statement, factor: Value) -> Iterator[int | None]:
    """The most of each index that the factor has not."""
    return (e.interval[1] for i, e in s.ranges if i not in indices_of(factor, {}))


def _in_type(x: Cast, dtype: DType) -> Value:
    return x if x.arg.dtype is dtype else replace(x, arg=Cast(x.arg, dtype))


def _multiplied(device: Device, accumulated: DType) -> Iterator[Pair]:
    """The types of operands whose products instructions of groups of units add up in a type."""
    for instr in device.instrs:
        value = instr.statement.value
        if instr.accumulate and instr.level != device.levels[-1].name and isinstance(value, Apply) and value.fn == "mul":
            left, right = value.args
            if isinstance(left, Cast) and isinstance(right, Cast) and left.dtype is right.dtype is accumulated:
                yield left.arg.dtype, right.arg.dtype
