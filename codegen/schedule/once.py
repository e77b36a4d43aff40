"""Factors of products that cost much to compute, and are read for each tile of them: computed once, into memory.

attention: `o[i, d] = sum(t) exp(s[i, t] - m[i]) * v[t, d]` computes each exponential for each tile along `d`. Made once, it is
an operand like others: packed, shared by the rows that a tile has.
"""

from __future__ import annotations

from ...dsl.device import Device
from ...dsl.op import Op
from ...dsl.values import Cast, Load, Value
from .factors import factors
from .held import costs
from .nests import cores_and_lanes


def made_once(op: Op, device: Device) -> frozenset[str]:
    """Those of the op's intermediates, for processors whose cores share a memory."""
    if cores_and_lanes(device) is None:
        return frozenset()
    inner = {t.name for t in op.tensors if t.role == "intermediate"}
    dear = {s.target for s in op.statements if s.reduction is None and s.target in inner and costs(s.value)}
    return frozenset(name for s in op.statements for x in factors(s) if (name := _read(x)) in dear)


def _read(x: Value) -> str:
    """The tensor that a factor is an element of, converted or not; empty where it is more."""
    while isinstance(x, Cast):
        x = x.arg
    return x.tensor if isinstance(x, Load) else ""
