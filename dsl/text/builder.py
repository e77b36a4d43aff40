"""The builder of the syntax tree. It has a method for each rule of the grammar, with the rule's name.

A method gets the results of its rule's parts: nodes, tokens whose names in the grammar lack an underscore, and None for an
absent optional part. This file has expressions, ops and imports; devices and schedules are mixed in.

Errors that the grammar cannot express are collected in `diagnostics`, so that parsing goes on.
"""

from __future__ import annotations

import math
from typing import Any

from .. import syntax as s
from ..errors import syntax as errors
from ..errors.base import Diagnostics, Label
from ..source import Source, Span
from .build_device import DeviceRules
from .build_schedule import ScheduleRules
from .builder_base import Parts, TreeRules
from .versions import first_statement, not_a_version

_VALUES = {"inf": math.inf, "nan": math.nan, "true": True, "false": False}
REDUCTIONS = ("sum", "max", "min", "prod", "argmax", "argmin", "any", "all")
_ONLY_REDUCTIONS = frozenset(REDUCTIONS) - {"max", "min"}


class BoundedIndex:
    """`r: 2` in the parentheses of a reduction, or in the brackets of a left side."""

    def __init__(self, id: str, extent: s.Expr, span: Span) -> None:
        self.id, self.extent, self.span = id, extent, span


def _bound(parts: list[s.Name | BoundedIndex]) -> tuple[tuple[str, ...], tuple[s.Expr | None, ...]]:
    """The indices, and the extents that are written after them, if there are any."""
    extents = tuple(p.extent if isinstance(p, BoundedIndex) else None for p in parts)
    return tuple(p.id for p in parts), extents if any(extents) else ()


class Builder(DeviceRules, ScheduleRules, TreeRules):
    def begin(self, source: Source) -> None:
        self.source = source
        self.diagnostics = Diagnostics()

    def start(self, c: Parts) -> list[Any]:
        return c

    def language(self, c: Parts) -> s.Language:
        word, number = c
        node = s.Language(self.int_of(number), span=self.span(word, number))
        first = first_statement(self.source.text)
        if word.start_pos != first:
            self._below_others(node.span, first)
        elif number[0] == "0":
            self.diagnostics.add(not_a_version(str(number), self.span(number)))
        return node

    def _below_others(self, span: Span, first: int) -> None:
        """`language` at `span`, below the statement at `first`."""
        line, column = self.source.position(first)
        above = self.source.line(line)[column - 1 :].split("#")[0].rstrip()
        if above.split()[0] == "language":
            error = errors.LanguageTwice(
                "the version of the language is stated twice",
                span,
                labels=[Label(self.spot(first, first + len(above)), "the first time here")],
                help="keep the first",
            )
        else:
            error = errors.MisplacedLanguage(
                "`language` stands below other statements", span, help="it is the first statement of a text, above the imports"
            )
        self.diagnostics.add(error)

    def import_text(self, c: Parts) -> s.Import:
        return s.Import(self.string(c[1]), False, span=self.span(c[0], c[1]))

    def import_std(self, c: Parts) -> s.Import:
        node = s.Import(".".join(c[1:]), True, span=self.span(c[0], c[-1]))
        if c[1] != "std":
            self.diagnostics.add(
                errors.ImportPath(
                    f"`{node.path}` is no part of the standard library",
                    node.span,
                    help='write `import std.ops.gemm` for the standard library, `import "file.sched"` for a file',
                )
            )
        return node

    # ------------------------------------------------------------ op

    def op(self, c: Parts) -> s.OpDecl:
        keyword, name, dims, inputs, outputs, where, body = c
        span = self.span(keyword, name)
        for result in outputs:
            if isinstance(result, s.IntParam):
                self.diagnostics.add(
                    errors.IntResult(
                        f"`{result.name}: int` cannot be a result",
                        result.span,
                        help=f"`int` is for parameters; a scalar result is `{result.name}: i32[]`",
                    )
                )
        outputs = tuple(r for r in outputs if isinstance(r, s.TensorDecl))
        return s.OpDecl(str(name), dims or (), inputs, outputs, where or (), body, span=span)

    def dims(self, c: Parts) -> tuple[str, ...]:
        return tuple(map(str, c[:-1]))

    def params(self, c: Parts) -> Any:
        return tuple(c[1:-1])

    tensors = params

    def tensor(self, c: Parts) -> s.TensorDecl | s.IntParam:
        name, dtype, shape, _, word = c
        span = self.span(name, word or (shape[1] if shape else dtype))
        if dtype == "int" and not shape and not word:
            return s.IntParam(str(name), span=span)
        return s.TensorDecl(str(name), str(dtype), shape[0] if shape else (), word and str(word), span=span)

    def int_param(self, c: Parts) -> s.IntParam:
        name, kind, _, default = c
        node = s.IntParam(str(name), default, span=self.span(name, default))
        if kind != "int":
            self.diagnostics.add(
                errors.TensorDefault(
                    f"`{name}: {kind}` has a default value, and only `int` parameters can",
                    node.span,
                    help=f"write `{name}: int = ...` for a constant, or `{name}: {kind}[]` for a scalar given at the call",
                )
            )
        return node

    def shape(self, c: Parts) -> tuple[tuple[s.Expr, ...], Any]:
        return tuple(c[:-1]), c[-1]

    def where(self, c: Parts) -> tuple[s.SizeCondition, ...]:
        return tuple(c)

    def condition(self, c: Parts) -> s.SizeCondition:
        left, op, right = c
        node = s.SizeCondition(left, str(op), right, span=self.span(left, right))
        if op == "=" and not isinstance(left, s.Name):
            self.diagnostics.add(
                errors.DefinedSize(
                    f"`{left.span.text} = ...` does not define a size",
                    left.span,
                    help="`where` defines a name, as in `P = (H - R) / stride + 1`; to compare, write `==`",
                )
            )
        return node

    def assigns(self, c: Parts) -> tuple[s.Assign, ...]:
        return tuple(x for x in c if isinstance(x, s.Assign))

    def assign(self, c: Parts) -> s.Assign:
        name, subscripts, where, op, value = c
        bound: list[s.Name | BoundedIndex] = []
        if subscripts:
            subs, otherwise, _ = subscripts
            for sub in subs:
                if isinstance(sub, s.Name | BoundedIndex):
                    bound.append(sub)
                else:
                    way = f"the left side has plain indices, as in `{name}[i, j] = ...`; arithmetic stands on the right"
                    if isinstance(sub, s.Access):
                        way = f"a scatter is written as a sum: `{name}[b] = sum(i) where({sub.span.text} == b, value, 0)`"
                    elif isinstance(sub, s.Num):
                        at = sub.span.text
                        way = (
                            f"one statement defines all elements: an index in the place of `{at}`, and `where(j == {at}, a, b)`"
                        )
                    self.diagnostics.add(
                        errors.TargetSubscript(
                            f"`{sub.span.text}` cannot subscript the left side of a statement",
                            sub.span,
                            help=way,
                        )
                    )
            if otherwise:
                self.diagnostics.add(
                    errors.TargetSubscript(
                        "`else` has no meaning on the left side of a statement",
                        otherwise.span,
                        help="`else` gives the value of an access that leaves its tensor: it belongs to an access on the right",
                    )
                )
        indices, extents = _bound(bound)
        return s.Assign(str(name), indices, value, op == "+=", where or (), extents, span=self.span(name, value))

    def domain(self, c: Parts) -> tuple[s.DomainCondition, ...]:
        return tuple(c)

    def domain_condition(self, c: Parts) -> s.DomainCondition:
        left, op, right = c
        return s.DomainCondition(left, str(op), right, span=self.spot(left.span.start, right.span.end))

    # ------------------------------------------------------------ expressions

    def subscripts(self, c: Parts) -> tuple[tuple[Any, ...], s.Expr | None, Any]:
        *subs, otherwise, close = c
        return tuple(subs), otherwise, close

    target_axes = subscripts

    def binary(self, c: Parts) -> s.Binary:
        left, op, right = c
        return s.Binary(str(op), left, right, span=self.spot(left.span.start, right.span.end))

    def unary(self, c: Parts) -> s.Unary:
        op, operand = c
        return s.Unary(str(op), operand, span=self.spot(op.start_pos, operand.span.end))

    def group(self, c: Parts) -> s.Expr:
        # The node is new and nobody else's yet; its parentheses count as its own, so that carets cover them.
        object.__setattr__(c[1], "span", self.span(c[0], c[2]))
        return c[1]

    def name(self, c: Parts) -> s.Name:
        return s.Name(str(c[0]), span=self.spot(c[0].start_pos, c[0].end_pos))

    def access(self, c: Parts) -> s.Access:
        name, (subs, otherwise, close) = c
        return s.Access(str(name), subs, otherwise, span=self.spot(name.start_pos, close.end_pos))

    def call(self, c: Parts) -> tuple[Any, list[Any], tuple[s.DomainCondition, ...], Any]:
        """The name, the arguments, the domain that stands behind them, and the place."""
        name, _, *args, close = c
        where: tuple[s.DomainCondition, ...] = ()
        if args and isinstance(args[-1], tuple):
            args[-1], where = args[-1]
        return name, args, where, self.spot(name.start_pos, close.end_pos)

    def restricted(self, c: Parts) -> tuple[s.Name | BoundedIndex, tuple[s.DomainCondition, ...]]:
        *index, where = c
        return self.bounded(index) if len(index) > 1 else self.name(index), where

    def bounded(self, c: Parts) -> BoundedIndex:
        return BoundedIndex(str(c[0]), c[1], self.span(c[0], c[1]))

    def size_call(self, c: Parts) -> s.Call:
        name, args, _, span = self.call(c)
        return s.Call(str(name), tuple(args), span=span)

    def plain_call(self, c: Parts) -> s.Call:
        name, args, where, span = c[0]
        bound = next((a for a in args if isinstance(a, BoundedIndex)), None)
        if name in _ONLY_REDUCTIONS or bound or where:
            self.diagnostics.add(
                errors.ReductionBody(
                    f"`{span.text}` reduces nothing",
                    span,
                    help=f"the reduced value follows, as in `{name}(k) A[m, k] * B[k, n]`; a leading minus needs parentheses: "
                    f"`{name}(k) (-A[m, k])`",
                )
            )
        return s.Call(str(name), tuple(a for a in args if not isinstance(a, BoundedIndex)), span=span)

    def reduce(self, c: Parts) -> s.Expr:
        (name, args, where, span), body = c
        indices, extents = _bound([a for a in args if isinstance(a, s.Name | BoundedIndex)])
        if name not in REDUCTIONS:
            self.diagnostics.add(
                errors.MissingOperator(
                    f"nothing stands between `{span.text}` and `{body.span.text}`",
                    body.span,
                    help=f"put an operator between them; the reductions are {', '.join(REDUCTIONS)}",
                )
            )
        elif len(indices) != len(args) or not indices:
            bad = next((a.span for a in args if not isinstance(a, s.Name | BoundedIndex)), span)
            self.diagnostics.add(
                errors.ReductionIndex(
                    f"`{name}` reduces over indices",
                    bad,
                    help=f"name them, as in `{name}(k) ...`; to apply `{name}` to values, put an operator after it",
                )
            )
        return s.Reduce(str(name), indices, body, extents, where, span=self.spot(span.start, body.span.end))

    def integer(self, c: Parts) -> s.Num:
        token = c[0]
        span = self.spot(token.start_pos, token.end_pos)
        # `-9223372036854775808` is the least i64: behind a minus, what means the expression looks at its range.
        least = token.lstrip("0") == str(1 << 63) and self.source.text[: token.start_pos].rstrip().endswith("-")
        return s.Num(1 << 63 if least else self.int_of(token), span=span)

    def real(self, c: Parts) -> s.Num:
        token = c[0]
        return s.Num(self.float_of(token), span=self.spot(token.start_pos, token.end_pos))

    def word_value(self, c: Parts) -> s.Num:
        return s.Num(_VALUES[c[0]], span=self.span(c[0], c[0]))

    def auto(self, c: Parts) -> s.Auto:
        return s.Auto(span=self.span(c[0], c[0]))
