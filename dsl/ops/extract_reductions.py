"""One reduction a statement: reductions inside an expression become statements of their own.

`extract_reductions(target, free, value) -> [Piece]`, inner ones first, the target's own last. The anonymous ones are named
`Y.sum1`, `Y.max1`, ..., numbered in the order of the text; their indices are exactly the ones they use.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ..index.expr import Expr, as_expr
from ..source import Span
from ..support.fast_replace import replace
from .untyped_body import Bound, BoundIndex, Convert, Operation, Read, Reduced, variable_names


@dataclass(frozen=True, eq=False)
class SplitStatement:
    """A statement to be: `target[free] = kind(reduced where conds) body`; `kind` is None without a reduction."""

    target: str
    free: tuple[BoundIndex, ...]
    kind: str | None
    reduced: tuple[BoundIndex, ...]
    body: Bound
    span: Span | None
    conds: tuple[Expr, ...] = ()


def extract_reductions(target: str, free: tuple[BoundIndex, ...], value: Bound, span: Span | None) -> list[SplitStatement]:
    pieces: list[SplitStatement] = []
    numbers: Counter[str] = Counter()

    def cut(b: Bound) -> Bound:
        match b:
            case Reduced():
                numbers[b.kind] += 1
                name = f"{target}.{b.kind}{numbers[b.kind]}"
                used = variable_names(b)
                own = tuple(x for x in b.scope if x.name in used)
                pieces.append(SplitStatement(name, own, b.kind, b.binders, cut(b.body), b.span, b.conds))
                return Read(name, tuple(as_expr(x.var) for x in own), None, b.span)
            case Operation(args=args):
                return replace(b, args=tuple(map(cut, args)))
            case Convert(arg=arg):
                return replace(b, arg=cut(arg))
            case Read(otherwise=otherwise) if otherwise is not None:
                return replace(b, otherwise=cut(otherwise))
        return b

    if isinstance(value, Reduced):
        root = SplitStatement(target, free, value.kind, value.binders, cut(value.body), span, value.conds)
    else:
        root = SplitStatement(target, free, None, (), cut(value), span)
    return [*pieces, root]
