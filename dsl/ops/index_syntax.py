"""Subscripts and sizes: from syntax to `dsl.index.expr.Expr`.

`index_term(node, names)` looks up each name, and refuses expressions that are not quasi-affine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .. import syntax
from ..errors import UserError, did_you_mean
from ..errors.op import FloatSubscript, LiteralRange, NotAffine, UnknownName, WrongArity
from ..index.expr import Expr, as_expr, maximum, minimum
from ..source import Span

LARGEST = 2**63 - 1


def word_span(span: Span | None, word: str, last: bool = False) -> Span | None:
    """The span of `word` inside `span` (its first or last place), or `span` itself: for names that carry none of their own."""
    if span is None:
        return None
    text, found = span.text, None
    at = text.find(word)
    while at >= 0 and (last or found is None):
        before, after = text[at - 1 : at], text[at + len(word) : at + len(word) + 1]
        if not (_in_name(before) or before == "." or _in_name(after)):
            found = at
        at = text.find(word, at + 1)
    return span if found is None else Span(span.source, span.start + found, span.start + found + len(word))


def _in_name(c: str) -> bool:
    return c.isalnum() or c == "_"


def index_term(
    node: syntax.Expr,
    names: Mapping[str, Expr],
    scalable: Callable[[Expr], bool] = lambda e: True,
    unknown: Callable[[syntax.Name], UserError] | None = None,
) -> Expr:
    """The index expression a syntax tree means.

    `names` gives the meaning of each name. `scalable(e)` tells whether `e` may be a factor or a divisor: in a subscript,
    constants and parameters. Raises a UserError: UnknownName (or `unknown(name)`), NotAffine, FloatSubscript, LiteralRange.
    """

    def term(n: syntax.Expr) -> Expr:
        match n:
            case syntax.Num(value=bool() | float()):
                raise FloatSubscript(f"`{node_text(n)}` is not an integer; subscripts and sizes are", n.span)
            case syntax.Num(value=value):
                assert isinstance(value, int)
                if abs(value) > LARGEST:
                    raise LiteralRange(f"`{value}` does not fit 64 bits", n.span, help="integers end at 2^63 - 1")
                return as_expr(value)
            case syntax.Name(id=name):
                if name in names:
                    return names[name]
                if unknown:
                    raise unknown(n)
                raise UnknownName(f"there is no size `{name}` here", n.span, help=did_you_mean(name, names))
            case syntax.Unary(op="-", operand=operand):
                return checked(-term(operand), n)
            case syntax.Binary(op="+" | "-" | "*" | "/" | "%" as op, left=left, right=right):
                return checked(binary(op, term(left), term(right), n), n)
            case syntax.Call(function="min" | "max" as function, args=args):
                if len(args) < 2:
                    raise WrongArity(f"`{function}` takes two or more arguments", n.span)
                return (minimum if function == "min" else maximum)(*map(term, args))
        if isinstance(n, syntax.Access):
            raise NotAffine(
                f"`{node_text(n)}` cannot stand in a subscript or a size, which do not depend on data",
                n.span,
                help=f"a masked sum gathers, and reads all of its tensor: `sum(v) where(v == {node_text(n)}, X[v], 0)`",
            )
        raise NotAffine(
            f"`{node_text(n)}` cannot stand in a subscript or a size",
            n.span,
            help="they are built from integers with + - * / % and min, max",
        )

    def binary(op: str, a: Expr, b: Expr, n: syntax.Binary) -> Expr:
        if op == "+":
            return a + b
        if op == "-":
            return a - b
        if op == "*":
            if not (scalable(a) or scalable(b)):
                raise NotAffine(
                    f"`{node_text(n)}` is not affine: one factor must be a constant or a parameter",
                    n.span,
                    help="an axis for each factor keeps it affine: `X[i, j]` instead of `X[i*N + j]`",
                )
            return a * b
        if not scalable(b):
            raise NotAffine(
                f"`{node_text(n)}` divides by `{b}`; in a subscript the divisor is a constant or a parameter",
                n.right.span or n.span,
            )
        if b.constant is not None and b.constant <= 0:
            raise NotAffine(f"`{node_text(n)}` divides by {b.constant}; divisors are positive", n.right.span or n.span)
        return a // b if op == "/" else a % b

    def checked(e: Expr, n: syntax.Expr) -> Expr:
        if any(abs(x) > LARGEST for x in (e.const, *(c for _, c in e.terms))):
            raise LiteralRange(f"`{node_text(n)}` overflows 64 bits", n.span)
        return e

    return term(node)


def names_in(node: syntax.Node) -> set[str]:
    """The names that an index expression mentions, also where it is the same for all their values, as `2*k % 2`."""
    match node:
        case syntax.Name(id=name):
            return {name}
        case syntax.Unary(operand=x):
            return names_in(x)
        case syntax.Binary(left=a, right=b):
            return names_in(a) | names_in(b)
        case syntax.Call(args=args):
            return {n for x in args for n in names_in(x)}
    return set()


def node_text(node: syntax.Node) -> str:
    """The text of a node, for messages."""
    if node.span is not None:
        return " ".join(node.span.text.split())
    match node:
        case syntax.Num(value=value):
            return str(value)
        case syntax.Name(id=name):
            return name
        case syntax.Unary(op=op, operand=x):
            return f"{op} {node_text(x)}" if op == "not" else f"{op}{node_text(x)}"
        case syntax.Binary(op=op, left=a, right=b):
            return f"{node_text(a)} {op} {node_text(b)}"
        case syntax.Access(tensor=tensor, subscripts=subscripts):
            return f"{tensor}[{', '.join(map(node_text, subscripts))}]"
        case syntax.Call(function=f, args=args):
            return f"{f}({', '.join(map(node_text, args))})"
        case syntax.Reduce(kind=kind, indices=indices, body=body):
            return f"{kind}({', '.join(indices)}) {node_text(body)}"
    return type(node).__name__.lower()
