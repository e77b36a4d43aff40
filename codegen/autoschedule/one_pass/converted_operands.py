"""Operands that the device multiplies in another type, where they are those of a pass.

    s.right1[h, t, d] = f16(k[h, t, d])     converted before, in a launch of its own, as every block reads them again

FEW  Where rows are few, keys are read about once, and one that is converted before is moved three times more: they are read
     as they are.
"""

from __future__ import annotations

from ....dsl.device import Device
from ....dsl.op import Op
from ....dsl.support.fast_replace import replace
from ...plan.name_factors import converted_factors, named_factor
from ...plan.widen_factors import fewest_uses, widen_factors
from .chains import pass_in_one_launch

# rows: that read each key, for which it is converted before [tried; test_keys_of_few_rows_are_read_as_they_are]
FEW = 64


def widen_operands(op: Op, device: Device) -> tuple[Op, frozenset[str]]:
    """The op with `widen_factors`, and the names of factors that are converted before."""
    widened = widen_factors(op, device)
    new = {s.target for s, before in zip(widened.statements, op.statements, strict=True) if s is not before}
    products = {w.result for w in pass_in_one_launch(widened) or ()} if new else set()
    of_pass = [s for s in widened.statements if s.target in products and converted_factors(s) != (None, None)]
    if new.isdisjoint(products):
        return widened, frozenset()
    made = frozenset(s.target for s in op.statements)
    if any(fewest_uses(s, made) < FEW for s in of_pass):
        kept = zip(widened.statements, op.statements, strict=True)
        return replace(op, statements=tuple(before if s.target in products else s for s, before in kept)), frozenset()
    return widened, frozenset(name for s in of_pass if s.target in new for name in named_factor(s))
