"""A plain product of tensors, in the notation of `numpy.einsum`."""

from __future__ import annotations

from string import ascii_letters

from ..dsl.index.expr import Var, as_expr
from ..dsl.op import Op
from ..dsl.values import Apply, Cast, Load, Value


def einsum_of(op: Op) -> tuple[str, list[int]] | None:
    """The subscripts and the inputs' numbers, for an op of one statement `C[..] = sum(..) A[..] * B[..] * ...`."""
    if len(op.statements) != 1 or len(op.outputs) != 1:
        return None
    (s,) = op.statements
    factors = _factors(s.value)
    if s.reduction is None or s.reduction.kind != "sum" or factors is None:
        return None
    letters = {as_expr(Var(name)): ascii_letters[i] for i, (name, _) in enumerate(s.ranges)}
    names = [t.name for t in op.inputs]
    if any(index not in letters for f in factors for index in f.indices) or any(f.otherwise for f in factors):
        return None
    sides = ["".join(letters[i] for i in f.indices) for f in factors]
    result = "".join(letters[as_expr(Var(i))] for i in s.indices)
    return f"{','.join(sides)}->{result}", [names.index(f.tensor) for f in factors]


def _factors(v: Value) -> list[Load] | None:
    match v:
        case Load():
            return [v]
        case Cast(arg=Load() as load) if load.dtype.kind == "float":
            return [load]
        case Apply(fn="mul", args=(a, b)):
            left, right = _factors(a), _factors(b)
            return left + right if left and right else None
        case _:
            return None
