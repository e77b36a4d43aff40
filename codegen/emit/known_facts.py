"""What is known of index expressions at the statement that is being printed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from ...dsl.index.expr import Expr, Var
from .c.memo_substitution import MemoSubstitution


@dataclass
class KnownFacts:
    """`values`: of the variables of unrolled loops, and of plain Lets. `false`: conditions that do not hold."""

    values: dict[Var, Expr] = field(default_factory=dict)
    false: tuple[Expr, ...] = ()
    substitution: MemoSubstitution = field(default_factory=MemoSubstitution)

    def substitute(self, e: Expr) -> Expr:
        return self.substitution(e, self.values)

    @contextmanager
    def assuming_false(self, conds: Sequence[Expr]) -> Iterator[None]:
        """Where not all of the conditions hold."""
        before = self.false
        self.false = (*before, *conds) if len(conds) == 1 else before
        yield
        self.false = before

    @contextmanager
    def assuming_unknown(self, var: Var) -> Iterator[None]:
        """Where a variable takes another value."""
        before = self.false
        self.false = tuple(e for e in before if var not in e.variables())
        yield
        self.false = before
