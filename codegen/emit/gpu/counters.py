"""Remainders of a loop's number as counters.

COUNTED  for (int k = 0; k < n; k++) {          -->   int slot = 0;
             const int slot = k % 3;                  for (int k = 0; k < n; k++) {
             ...                                          ...
         }                                                slot = slot < 2 ? slot + 1 : 0;
                                                      }

A remainder is a multiplication, which takes the pipe of the products of f32, and some ten instructions around it; a counter is
a comparison, an addition and a choice. A remainder by a power of two is one instruction, and stays. So do those of loops with
matrix instructions (SLOTS_ARE_FREE): these leave issue slots free, and a counter takes a register where they are scarce.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ....dsl.device import Instr
from ....dsl.index.expr import Expr, Fn, Var
from ....dsl.support.fast_replace import replace
from ...ir.tile_ir import Call
from ...ir.tile_ir import For as Loop
from ...ir.tile_visitors import statements
from ..c.c_tree import Assign, Declaration, For, Statement
from ..emission_context import EmissionContext


@dataclass(frozen=True)
class Counter:
    """`name` is `value` in each iteration of a loop, and less than `end`."""

    name: str
    kind: str
    value: Expr
    end: int


def has_counters(loop: Loop, instrs: Mapping[str, Instr], innermost: str) -> bool:
    """Whether remainders are counted in a loop: SLOTS_ARE_FREE. `innermost`: the level of a single unit."""
    called = {s.instr for s in statements(loop.body) if type(s) is Call}
    return not any(instrs[name].accumulate and instrs[name].level != innermost for name in called)


def counted_by(ctx: EmissionContext, counts: Mapping[Var, object], e: Expr) -> tuple[Var, int] | None:
    """The loop of `counts` whose every iteration adds one to what `e` is the remainder of, and the divisor."""
    atom = e.atom
    if not isinstance(atom, Fn) or atom.kind != "mod" or (n := atom.args[1].constant) is None or n & (n - 1) == 0:
        return None
    x, depth = atom.args[0], ctx.text.depth
    for loop in ctx.loops:
        by_one = loop.var in counts and loop.step == 1 and dict(x.terms).get(loop.var) == 1
        if by_one and depth(x - loop.var) < depth(loop.var):
            return loop.var, n
    return None


def with_counters(
    ctx: EmissionContext, printed: Sequence[Statement], loop: Loop, counters: Sequence[Counter]
) -> list[Statement]:
    """COUNTED: what was printed of a loop, the loop itself last."""
    *before, last = printed
    assert isinstance(last, For)
    start, index = {loop.var: ctx.substitute(loop.start)}, ctx.text.index
    first = [Declaration(c.kind, c.name, index.text(ctx.known.substitution(c.value, start)), span=last.span) for c in counters]
    on = [Assign(c.name, f"{c.name} < {c.end - 1} ? {c.name} + 1 : 0", span=last.span) for c in counters]
    return [*first, *before, replace(last, body=[*last.body, *on])]
