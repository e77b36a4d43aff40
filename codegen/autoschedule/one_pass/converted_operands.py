"""Operands that the device multiplies in another type, where they are those of a pass.

    s.right1[h, t, d] = f16(k[h, t, d])     converted where they are staged, or before, in a launch of its own

CONVERTED  Every block of rows reads all keys. Where it converts them itself, nothing is written before, but they are converted
           as often as there are such blocks. What is predicted to be faster is taken.
FEW        Where rows are few, keys are read about once, and one that is converted before is moved three times more. So there
           they are converted by the pass, or read as they are, which lanes can do.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ....dsl.device import Device
from ....dsl.op import Op, Statement
from ....dsl.support.fast_replace import replace
from ....dsl.support.memoised import memoised_with
from ....dsl.values import loads
from ...plan.name_factors import factors, name_factors, named_factor
from ...plan.widen_factors import fewest_uses, widen_factors
from ..gpu.passes.one_pass_choice import rank_pass
from ..instr_mappings import is_loaded
from ..machine_model import block_machine
from ..op_context import context_of
from ..rank import mean_slowdown
from .chains import chains_of, pass_in_one_launch, together_in_launch
from .kept_intermediates import kept_intermediates

# rows: that read each key, for which it is converted before [tried; test_keys_of_few_rows_are_read_as_they_are]
FEW = 64


@memoised_with
def widen_operands(op: Op, device: Device) -> tuple[Op, frozenset[str]]:
    """The op with `widen_factors`, and the names of factors of a pass that are converted."""
    plain, widened = widen_factors(op, device), widen_factors(op, device, 1)
    new = {s.target for s, before in zip(widened.statements, op.statements, strict=True) if s is not before}
    products = {w.result for w in pass_in_one_launch(widened) or ()} if new else set()
    of_pass = [s for s in widened.statements if s.target in products and s.target in new]
    if not of_pass:
        return plain, frozenset()
    op_of = {s.target: s for s in op.statements}
    names = frozenset(name for s in of_pass for name in named_factor(s))
    both = tuple(w if w.target in products else p for w, p in zip(widened.statements, plain.statements, strict=True))
    widened = replace(op, statements=both)
    computed = frozenset(s.target for s in op.statements)
    if any(fewest_uses(s, computed) < FEW for s in of_pass):
        as_it_is = replace(op, statements=tuple(op_of[s.target] if s.target in products else s for s in both))
        if not _is_faster(widened, names, as_it_is, device):
            return as_it_is, frozenset()
    return widened, names


def _is_faster(widened: Op, names: frozenset[str], as_it_is: Op, device: Device) -> bool:
    """FEW: whether a pass that converts these factors takes less time than one that reads operands as they are."""
    named = name_factors(widened, names)
    found = [conversions_with(named, part) for part in chains_of(named)]
    ranked = [
        r
        for whole, made in found
        if made and (together := together_in_launch(whole, kept_intermediates(whole) | made, frozenset())) is not None
        for r in rank_pass(context_of(named, device), together)
    ]
    together = pass_in_one_launch(as_it_is)
    plain = rank_pass(context_of(as_it_is, device), together) if together is not None else []
    if not ranked or not plain:
        return bool(ranked)
    fastest = np.min([r.seconds.min(axis=1) for r in plain], axis=0)
    return min(mean_slowdown(r.seconds, fastest).min() for r in ranked) < 1


def parts_of_passes(op: Op, device: Device, before: frozenset[str]) -> Iterator[tuple[Op, Op, frozenset[str]]]:
    """The parts of an op that may be a pass; each with the statements that convert its operands, and what these compute:
    nothing where some of it is computed `before`."""
    blocks = block_machine(device) is not None
    for part in chains_of(op):
        if not blocks:
            yield part, part, frozenset()
        elif not _converted_inside(part):  # what is left without the conversions is a part as well
            whole, made = conversions_with(op, part)
            yield (part, part, frozenset()) if made & before else (part, whole, made)


def _converted_inside(part: Op) -> bool:
    """Whether an op converts factors of its products itself."""
    return any(_is_conversion(part, s) and all(factors(x) for x in _readers(part, s.target)) for s in part.statements)


def conversions_with(op: Op, part: Op) -> tuple[Op, frozenset[str]]:
    """CONVERTED: a chain with the statements of the op that convert its operands, and what these compute."""
    inputs, mine = {t.name for t in part.inputs}, {s.target for s in part.statements}
    found = {s.target: s for s in op.statements if s.target in inputs and _is_conversion(op, s)}
    made = frozenset(t for t in found if all(x.target in mine for x in _readers(op, t)))
    sources = inputs.union(ld.tensor for t in made for ld in loads(found[t].value)) - made
    own = {t.name: t for t in part.tensors if t.name in mine} | {t.name: t for t in op.tensors if t.name in made}
    tensors = (own.get(t.name, replace(t, role="input")) for t in op.tensors if t.name in own or t.name in sources)
    statements = tuple(s for s in op.statements if s.target in made | mine)
    return replace(op, tensors=tuple(tensors), statements=statements), made


def _is_conversion(op: Op, s: Statement) -> bool:
    """Is it an element of an input, converted, that others read?"""
    inner = s.reduction is None and op.tensor(s.target).role == "intermediate" and is_loaded(s.value)
    return inner and bool(_readers(op, s.target)) and all(op.tensor(ld.tensor).role == "input" for ld in loads(s.value))


def _readers(op: Op, tensor: str) -> list[Statement]:
    return [s for s in op.statements if any(ld.tensor == tensor for ld in loads(s.value))]
