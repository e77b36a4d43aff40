"""The body of an op with its names bound, before it is typed: `bind_names` builds it and `extract_reductions` splits it.

Bound = Literal | Number(expr) | Read(tensor, subscripts, otherwise) | Operation(fn, args) | Convert(arg, type)
      | Reduced(kind, indices, body)
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..index.expr import Expr, Var
from ..source import Span
from ..types import DType


@dataclass(eq=False)
class BoundIndex:
    """One index: of a target, or of a reduction. `extent` is None where a mistake has been reported."""

    name: str
    span: Span | None
    reduced: bool
    extent: Expr | None = None
    declared: bool = False  # the first of `firm` is the axis of an output, or written
    firm: list[tuple[Expr | None, str, Span | None]] = field(default_factory=list)  # extents that the index must have
    loose: list[tuple[Expr | None, str, Span | None]] = field(default_factory=list)  # read with `else`: may be left

    @property
    def var(self) -> Var:
        return Var(self.name, 0, None)


@dataclass(frozen=True, eq=False)
class Literal:
    value: int | float | bool
    span: Span | None


@dataclass(frozen=True, eq=False)
class Number:
    """An index, a size, or integer arithmetic on them, used as a value."""

    expr: Expr
    span: Span | None


@dataclass(frozen=True, eq=False)
class Read:
    tensor: str
    subscripts: tuple[Expr, ...]
    otherwise: Bound | None
    span: Span | None


@dataclass(frozen=True, eq=False)
class Operation:
    """`fn` is a function's name or one of + - * / % neg < <= > >= == != and or not."""

    fn: str
    args: tuple[Bound, ...]
    span: Span | None


@dataclass(frozen=True, eq=False)
class Convert:
    arg: Bound
    dtype: DType
    span: Span | None


@dataclass(frozen=True, eq=False)
class Reduced:
    kind: str
    binders: tuple[BoundIndex, ...]
    body: Bound
    scope: tuple[BoundIndex, ...]  # what is bound around it, outermost first
    span: Span | None
    conds: tuple[Expr, ...] = ()  # of the terms that count: each is at least 0


Bound = Literal | Number | Read | Operation | Convert | Reduced


def child_nodes(b: Bound) -> tuple[Bound, ...]:
    match b:
        case Read(otherwise=otherwise):
            return () if otherwise is None else (otherwise,)
        case Operation(args=args):
            return args
        case Convert(arg=arg):
            return (arg,)
        case Reduced(body=body):
            return (body,)
    return ()


def variable_names(b: Bound) -> set[str]:
    """The names of all variables of the index expressions in `b`."""
    match b:
        case Number(expr=expr):
            return {v.name for v in expr.variables()}
        case Read(subscripts=subscripts):
            own = {v.name for e in subscripts for v in e.variables()}
        case Reduced(binders=binders, body=body):
            of_conds = {v.name for c in b.conds for v in c.variables()}
            inner = (variable_names(body) | of_conds) - {x.name for x in binders}
            return inner.union(*({v.name for v in x.extent.variables()} for x in binders if x.extent is not None))
        case _:
            own = set()
    return own.union(*(variable_names(p) for p in child_nodes(b)))
