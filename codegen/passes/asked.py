"""What is known where a statement stands, and what was asked there: most of a program stands as it is in its variants, and is
asked about again.

Statements, and expressions in them, are known again as objects: expressions that are equal may differ in the intervals of their
variables, and so may variables of one name in two programs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...dsl.index import Expr
from ...dsl.prove import always, feasible
from ..tile import For, Let, Program
from ..walk_tile import known


class Asked:
    """`facts`: >= 0 here."""

    def __init__(self, facts: tuple[Expr, ...] = ()) -> None:
        self.facts = facts
        self._inside: dict[tuple[int, ...], tuple[Asked, Any]] = {}
        self._answers: dict[tuple[int, ...], tuple[bool, Any]] = {}

    def always(self, cond: Expr) -> bool:
        key = (id(cond),)
        if key not in self._answers:
            self._answers[key] = always(cond, self.facts), cond
        return self._answers[key][0]

    def never(self, conds: Sequence[Expr]) -> bool:
        """Whether they cannot all hold."""
        key = (0, *map(id, conds))
        if key not in self._answers:
            self._answers[key] = not feasible([*conds, *self.facts]), conds
        return self._answers[key][0]

    def let(self, s: Let) -> Asked:
        return self if s.extent is None else self._with((s.var, s.extent), lambda: (s.extent - s.var - 1,))  # type: ignore

    def turn(self, s: For) -> Asked:
        def facts() -> tuple[Expr, ...]:
            last = s.stop - s.var - 1
            return (last,) if s.start.constant == 0 else (last, s.var - s.start)

        return self._with((s.var, s.start, s.stop), facts)

    def holding(self, conds: tuple[Expr, ...]) -> Asked:
        return self._with(conds, lambda: conds)

    def failing(self, conds: tuple[Expr, ...]) -> Asked:
        """Where they do not all hold."""
        return self._with((conds[0], None), lambda: (-conds[0] - 1,)) if len(conds) == 1 else self

    def program(self, program: Program) -> Asked:
        return self._with((program.conditions, program.lets), lambda: known(program))

    def _with(self, what: tuple, facts: Callable[[], tuple[Expr, ...]]) -> Asked:
        """`what` the facts are made of."""
        key = tuple(map(id, what))
        if key not in self._inside:
            self._inside[key] = Asked((*self.facts, *facts())), what
        return self._inside[key][0]
