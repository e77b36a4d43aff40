"""Queries whether integer sets are empty, in isl's text: exact for affine expressions with quotients and remainders by numbers.

A term that is not affine becomes a fresh variable with the facts known about it (`facts_of`).
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from functools import lru_cache
from typing import Any

from ..support.forks import ForkLock
from .expr import Expr, Fn, Var, as_expr

# Operations of isl before it gives up on a question: about a quarter of a second.
_BUDGET = 400_000


# Stands for the atom in the facts about it; no author's variable has this name.
_OPAQUE = Var("$", None)


class _Writer:
    """Writes expressions as isl text over x0, x1, ...; opaque atoms get variables too, with facts in `facts`."""

    def __init__(self, variables: Iterable[Var]) -> None:
        self.names: dict[Var | Fn, str] = {}
        self.facts: list[str] = []
        for v in sorted(variables, key=lambda v: v.name):
            self.name(v)

    def name(self, atom: Var | Fn) -> str:
        if atom not in self.names:
            self.names[atom] = name = f"x{len(self.names)}"
            low, high = atom.interval
            if low is not None:
                self.facts.append(f"{name} >= {low}")
            if high is not None:
                self.facts.append(f"{name} <= {high}")
        return self.names[atom]

    def expr(self, e: Expr) -> str:
        return " + ".join([f"{c}*{self.atom(a)}" for a, c in e.terms] + [str(e.const)])

    def atom(self, a: Var | Fn) -> str:
        if isinstance(a, Var) or a in self.names:
            return self.name(a)
        by = a.args[1].constant
        if a.kind == "div" and by:
            return f"floor(({self.expr(a.args[0])})/{by})"
        if a.kind == "mod" and by:
            return f"(({self.expr(a.args[0])}) mod {by})"
        name = self.name(a)
        for fact in facts_of(a, as_expr(_OPAQUE)):
            own = fact.coefficient(_OPAQUE)
            self.facts.append(f"{own}*{name} + {self.expr(fact - own * _OPAQUE)} >= 0")
        if a.kind in ("min", "max"):
            args = [self.expr(x) for x in a.args]
            sign = "<=" if a.kind == "min" else ">="
            self.facts += [f"{name} {sign} {x}" for x in args]
            self.facts.append("(" + " or ".join(f"{name} = {x}" for x in args) + ")")
        return name


def facts_of(a: Fn, t: Expr) -> list[Expr]:
    """Expressions >= 0 that hold for the atom `a`, which they name `t` (beyond its interval)."""
    x, y = a.args[:2]
    from_zero = [e.at_least(0) for e in (x, y)]
    match a.kind:
        case "mod":
            return [y - 1 - t] + ([x - t] if from_zero[0] else [])
        case "div":
            return [x - t] if from_zero[0] else []
        case "xor" if all(from_zero):
            return [x + y - t, t - x + y, t - y + x]
        case "mul" if all(from_zero):
            return [t - p for p, q in ((x, y), (y, x)) if q.at_least(1)]
    return []


def text_of(constraints: Sequence[Expr]) -> str:
    variables = frozenset().union(*(c.variables() for c in constraints))
    writer = _Writer(variables)
    wanted = [f"{writer.expr(c)} >= 0" for c in constraints]
    return f"{{ [{', '.join(writer.names.values())}] : {' and '.join(wanted + writer.facts)} }}"


_own = threading.local()


_alone = ForkLock()


def _context() -> Any:
    """isl's context, one for each thread: isl has no locks, and what a question has used of its budget is counted there."""
    context = getattr(_own, "context", None)
    if context is None:
        import islpy

        context = _own.context = islpy.Context()
        context.set_max_operations(_BUDGET)
    return context


@lru_cache(maxsize=1 << 16)
def is_empty(text: str) -> bool:
    """Whether isl proves the set empty within its budget."""
    import islpy

    # Without the interpreter's lock, nothing keeps two threads apart in islpy itself, which is not made for that.
    with nullcontext() if getattr(sys, "_is_gil_enabled", lambda: True)() else _alone.held():
        context = _context()
        context.reset_operations()
        try:
            return bool(islpy.Set.read_from_str(context, text).is_empty())
        except islpy.Error:
            return False  # too hard: not proven
