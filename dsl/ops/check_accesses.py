"""Every access stays inside its tensor, or has an `else`.

`check_accesses(op, diagnostics)` proves 0 <= subscript < extent for all sizes that the op's conditions allow. Parameters
that are still open count with their defaults; without one the access is checked when they are bound.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

from ..errors import Diagnostics
from ..errors.op import MayLeaveTensor
from ..index.expr import Expr, Var, as_expr
from ..index.prove import always
from ..op import Op, Statement
from ..source import Span
from ..values import Load, loads


def check_accesses(op: Op, diagnostics: Diagnostics) -> None:
    """Adds a MayLeaveTensor for every access that is not proven to stay inside."""
    known = expander(op)
    shapes = {t.name: tuple(known(e) for e in t.shape) for t in op.tensors}
    always_true = [known(c) for c, _ in op.conditions] + [known(definition) for _, definition in op.derived]
    for s in op.statements:
        extents = [(Var(i, 0, None), known(e)) for i, e in s.ranges]
        context = [e - 1 - v for v, e in extents] + always_true
        plain = {as_expr(v): e for v, e in extents}
        seen: Counter[str] = Counter()
        for load in loads(s.value):
            seen[load.tensor] += 1
            if load.otherwise is not None:
                continue
            for axis, e in enumerate(load.indices):
                size = shapes[load.tensor][axis]
                if plain.get(e) != size:
                    _check(known(e), size, context, load, axis, s, seen[load.tensor], op, diagnostics)


def expander(op: Op) -> Callable[[Expr], Expr]:
    """Writes out derived sizes, and open parameters by their defaults."""
    defaults = {Var(name, None, None): value for name, value in op.params if value is not None}

    def known(e: Expr) -> Expr:
        for var, definition in reversed(op.derived):
            e = e.subs({var: definition})
        try:
            return e.subs(defaults)
        except ZeroDivisionError:  # a condition says so
            return e

    return known


def _check(
    e: Expr, size: Expr, context: list[Expr], load: Load, axis: int, s: Statement, nth: int, op: Op, diagnostics: Diagnostics
) -> None:
    open_params = {name for name, value in op.params if value is None}
    if any(v.name in open_params for x in (e, size, *context) for v in x.variables()):
        return
    below = not always(e, context)
    above = not always(size - 1 - e, context)
    if not (below or above):
        return
    faults = [f"{e} may be negative"] * below + [f"{e} may be {size} or more"] * above
    text = f"{load.tensor}[{', '.join(map(str, load.indices))}]"
    diagnostics.add(
        MayLeaveTensor(
            f"`{text}` may leave `{load.tensor}` along axis {axis}: {' and '.join(faults)}",
            _spot_access(s.span, load.tensor, nth),
            help="give a value, `else 0` after the last subscript, or state a condition in `where`",
        )
    )


def _spot_access(span: Span | None, tensor: str, nth: int) -> Span | None:
    """The span of the nth access to `tensor` inside a statement's span."""
    if span is None:
        return None
    text = span.text
    eq = text.find("=") + 1 if re.match(r"\s*[\w.]+\s*\[[^\]]*\]\s*\+?=", text) else 0
    found = [m.start() for m in re.finditer(rf"(?<![\w.]){re.escape(tensor)}\s*\[", text[eq:])]
    if nth > len(found):
        return span
    start = end = eq + found[nth - 1]
    depth = 0
    for end in range(start, len(text)):
        depth += (text[end] == "[") - (text[end] == "]")
        if text[end] == "]" and depth == 0:
            break
    return Span(span.source, span.start + start, span.start + end + 1)
