"""Operands of a pass that the device multiplies in another type: they are converted before, as every block reads them again."""

from __future__ import annotations

from ....dsl.op import Op
from ...plan.name_factors import named_factor
from .chains import pass_in_one_launch


def converted_operands(op: Op, widened: Op) -> frozenset[str]:
    """The names of such factors; `widened`: the op with `widen_factors`."""
    new = [s for s, before in zip(widened.statements, op.statements, strict=True) if s is not before]
    together = pass_in_one_launch(widened) if new else None
    products = {w.result for w in together or ()}
    return frozenset(name for s in new if s.target in products for name in named_factor(s))
