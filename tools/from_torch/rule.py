"""A row of the table: the ops of the library that compute an operator of ATen, and what becomes their inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .operands import Operand
from .scalars import Number


@dataclass(frozen=True)
class Rule:
    """A row.

    target  the operator, as `add.Tensor`
    ops     of the library, alike but for their types: the first whose types are the call's
    inputs  what becomes each input of the op, by its name
    params  what becomes each parameter of the op, by its name
    when    arguments that must have these values. A set holds several that will do, and numbers stand for lists of them:
            `1` for `[1, 1]`
    order   the axes of the result, from those of the op's output; None is as they are
    """

    target: str
    ops: tuple[str, ...]
    inputs: Mapping[str, Operand | Number]
    params: Mapping[str, Number] = field(default_factory=dict)
    when: Mapping[str, Any] = field(default_factory=dict)
    order: tuple[int, ...] | None = None


def rules(targets: str, ops: str, params: Mapping[str, Number] | None = None, **rest: Any) -> tuple[Rule, ...]:
    """One row for each of several operators that have the same arguments. Names are separated by spaces.

    inputs, when and order are as those of `Rule`; `when` may be left out.
    """
    made = {"inputs": rest.pop("inputs"), "params": params or {}, **rest}
    return tuple(Rule(target, tuple(ops.split()), **made) for target in targets.split())
