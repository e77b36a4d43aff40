"""The nodes of expressions in the syntax tree, and the class of all nodes. Other files know them as `dsl.syntax`."""

from __future__ import annotations

from dataclasses import dataclass, field

from .source import Span


@dataclass(frozen=True)
class Node:
    span: Span = field(default=None, compare=False, repr=False, kw_only=True)  # type: ignore[assignment]


@dataclass(frozen=True)
class Num(Node):
    """A literal; `value` is an int, a float or a bool; `inf` and `nan` are floats."""

    value: int | float | bool


@dataclass(frozen=True)
class Name(Node):
    id: str


@dataclass(frozen=True)
class Access(Node):
    """`T[i, j + 1 else 0]`."""

    tensor: str
    subscripts: tuple[Expr, ...]
    otherwise: Expr | None = None


@dataclass(frozen=True)
class Unary(Node):
    """`op` is `-` or `not`."""

    op: str
    operand: Expr


@dataclass(frozen=True)
class Binary(Node):
    """`op` is one of + - * / % < <= > >= == != and or."""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True)
class Call(Node):
    """A scalar function, `where(c, a, b)`, or a cast by type name."""

    function: str
    args: tuple[Expr, ...]


@dataclass(frozen=True)
class Reduce(Node):
    """`sum(k, l) body`; binds as loosely as possible to the right, tighter than + only through parentheses:

    `sum(k) a * b` reduces the product; `sum(k) a + b` is `(sum(k) a) + b`.

    `extents` is empty, or gives each index the extent written after it, or None: `max(r: 2, s: W) X[2*i + r, s]`, for an
    index whose range no shape tells.

    `where`: conditions of the terms that count, `sum(t where t <= i) X[t]`.
    """

    kind: str
    indices: tuple[str, ...]
    body: Expr
    extents: tuple[Expr | None, ...] = ()
    where: tuple[DomainCondition, ...] = ()


@dataclass(frozen=True)
class DomainCondition(Node):
    """A condition of a domain, `t <= i`; `op` is a comparison."""

    left: Expr
    op: str
    right: Expr


Expr = Num | Name | Access | Unary | Binary | Call | Reduce
