"""Binds the names in one statement's value: every subscript becomes an index expression, every index knows its uses.

`bind_names(assign, names, below, outputs, diagnostics) -> (free binders, Bound | None)`; None after an error in the value.
"""

from __future__ import annotations

from collections.abc import Sequence

from .. import syntax
from ..errors import Diagnostics, Label, UserError, did_you_mean
from ..errors.op import (
    DuplicateIndex,
    LiteralRange,
    ReducedAndFree,
    ReservedName,
    SelfReference,
    ShadowedName,
    UnboundIndex,
    UnknownFunction,
    UnknownName,
    UnknownReduction,
    UnknownTensor,
    UsedBeforeDefinition,
    WrongArity,
    WrongRank,
)
from ..index.expr import Expr, as_expr
from ..op import Tensor
from ..source import Span
from ..types import TYPES
from .builtins import FUNCTIONS, REDUCTIONS
from .declare_op import RESERVED, OpNames, require_positive
from .domains import check_some_elements, conditions_of, no_terms
from .index_syntax import LARGEST, index_term, node_text, word_span
from .infer_ranges import infer_range, range_from_consumers
from .stated_ranges import state_range, stated_extent
from .untyped_body import Bound, BoundIndex, Convert, Literal, Number, Operation, Read, Reduced

Scope = tuple[BoundIndex, ...]


class _Failed(Exception):
    """The mistake has been reported."""


def bind_names(
    assign: syntax.Assign,
    names: OpNames,
    below: Sequence[syntax.Assign],
    outputs: dict[str, Tensor | None],
    diagnostics: Diagnostics,
) -> tuple[tuple[BoundIndex, ...], Bound | None, tuple[Expr, ...]]:
    """Binds `assign.value` and the conditions of its domain. `names.tensors` holds what may be read, `below` the statements
    further down."""
    later = ({a.target for a in below} | outputs.keys()) - names.tensors.keys() - {assign.target}
    binding = _Binding(assign, names, later, diagnostics)
    free = binding.targets()
    try:
        value = binding.value(assign.value, free)
    except _Failed:
        value = None
    if value is None:
        return free, None, ()
    for axis, b in enumerate(free):
        found = None if b.firm or b.loose else range_from_consumers(assign.target, axis, below, outputs)
        if found is not None:
            b.firm.append((*found, b.span))
    ok = [infer_range(b, names, diagnostics, node_text(assign.value)) for b in free]
    try:
        domain = binding.conditions(assign.where, free)
    except _Failed:
        return free, None, ()
    return free, value if all(ok) else None, domain


class _Binding:
    def __init__(self, assign: syntax.Assign, names: OpNames, later: set[str], diagnostics: Diagnostics) -> None:
        self.assign, self.names, self.later, self.diagnostics = assign, names, later, diagnostics

    def fail(self, error: UserError) -> _Failed:
        self.diagnostics.add(error)
        return _Failed()

    # -- binders

    def targets(self) -> Scope:
        a = self.assign
        out: list[BoundIndex] = []
        target = self.names.tensors.get(a.target)
        for axis, name in enumerate(a.indices):
            where = _target_spot(a, name)
            if any(b.name == name for b in out):
                error = DuplicateIndex(
                    f"index `{name}` stands twice in `{a.target}[{', '.join(a.indices)}]`",
                    where,
                    help="name each axis by an index of its own",
                )
                self.diagnostics.add(error)
                continue
            self._check_name(name, where)
            b = BoundIndex(name, where, reduced=False)
            if target is not None and axis < len(target.shape):
                b.firm.append((target.shape[axis], f"axis {axis} of `{a.target}`", where))
                b.declared = True
            stated = a.extents[axis] if a.extents else None
            if stated is not None:
                try:
                    state_range(b, stated, a, target, self.names)
                except UserError as e:
                    self.diagnostics.add(e)
                    b.firm.append((None, "a mistake", None))
            out.append(b)
        return tuple(out)

    def _check_name(self, name: str, span) -> None:
        n = self.names
        if name in RESERVED:
            self.diagnostics.add(
                ReservedName(f"`{name}` cannot name an index: it is a word of the language", span, help="take another name")
            )
        elif name in n.spans or name in n.tensors:
            what = "tensor" if name in n.tensors else "size" if name in n.dims or name in n.derived else "parameter"
            first = n.spans.get(name)
            labels = [Label(first, "declared here")] if first is not None else []
            self.diagnostics.add(
                ShadowedName(f"index `{name}` has the name of a {what} of the op", span, labels=labels, help="rename the index")
            )

    # -- values

    def value(self, n: syntax.Expr, scope: Scope) -> Bound:
        match n:
            case syntax.Num(value=value):
                if type(value) is int and abs(value) > LARGEST:
                    raise self.fail(
                        LiteralRange(f"`{node_text(n)}` does not fit 64 bits", n.span, help="integers end at 2^63 - 1")
                    )
                if type(value) is float and value in (float("inf"), float("-inf")) and n.span and n.span.text[-1:].isdigit():
                    raise self.fail(
                        LiteralRange(f"`{node_text(n)}` is too large even for f64", n.span, help="infinity is `inf`")
                    )
                return Literal(value, n.span)
            case syntax.Name():
                return self.name(n, scope)
            case syntax.Access():
                return self.access(n, scope)
            case syntax.Unary(op="-", operand=syntax.Num(value=value)) if value == LARGEST + 1:
                return Literal(-value, n.span)  # without its sign it fits no type
            case syntax.Unary(op=op, operand=operand):
                fn = "neg" if op == "-" else "not"
                return self.operation(fn, (operand,), n, scope)
            case syntax.Binary(op=op, left=left, right=right):
                return self.operation(op, (left, right), n, scope)
            case syntax.Call():
                return self.call(n, scope)
            case syntax.Reduce():
                return self.reduce(n, scope)

    def all(self, nodes: tuple[syntax.Expr, ...], scope: Scope) -> tuple[Bound, ...]:
        """Binds each, so that a mistake in one does not hide those in the next."""
        out = []
        failed = False
        for x in nodes:
            try:
                out.append(self.value(x, scope))
            except _Failed:
                failed = True
        if failed:
            raise _Failed()
        return tuple(out)

    def name(self, n: syntax.Name, scope: Scope) -> Bound:
        meaning = self.meanings(scope).get(n.id)
        if meaning is not None:
            return Number(meaning, n.span)
        if n.id in self.names.tensors or n.id in self.later or n.id == self.assign.target:
            return self.access(syntax.Access(tensor=n.id, subscripts=(), span=n.span), scope)
        known = [*self.meanings(scope), *self.names.tensors]
        raise self.fail(UnknownName(f"there is no `{n.id}` here", n.span, help=did_you_mean(n.id, known)))

    def meanings(self, scope: Scope) -> dict[str, Expr]:
        return self.names.sizes | {b.name: as_expr(b.var) for b in scope}

    def operation(self, fn: str, operands: tuple[syntax.Expr, ...], n: syntax.Expr, scope: Scope) -> Bound:
        args = self.all(operands, scope)
        if fn in ("+", "-", "*", "neg", "/", "%") and any(isinstance(a, Number) for a in args):
            whole = self.number(fn, args, n, scope)
            if whole is not None:
                return whole
        return Operation(fn, args, n.span)

    def number(self, fn: str, args: tuple[Bound, ...], n: syntax.Expr, scope: Scope) -> Number | None:
        """Integer arithmetic on indices and sizes stays one index expression, where it is affine."""
        if not all(isinstance(a, Number) or (isinstance(a, Literal) and type(a.value) is int) for a in args):
            return None
        try:
            expr = index_term(n, self.meanings(scope), self.names.is_constant)
        except UserError:
            return None
        if fn in ("/", "%"):
            divisor = args[1]
            require_positive(divisor.expr if isinstance(divisor, Number) else as_expr(divisor.value), self.names)  # type: ignore
        return Number(expr, n.span)

    def call(self, n: syntax.Call, scope: Scope) -> Bound:
        f = n.function
        args = self.all(n.args, scope)
        if f in TYPES:
            if len(args) != 1:
                raise self.fail(WrongArity(f"the cast `{f}(x)` takes one value, not {len(args)}", n.span))
            return Convert(args[0], TYPES[f], n.span)
        if f not in FUNCTIONS:
            help = did_you_mean(f, [*FUNCTIONS, *TYPES])
            if f in REDUCTIONS:
                help = f"a reduction names its indices first: `{f}(k) ...`"
            raise self.fail(UnknownFunction(f"there is no function `{f}`", word_span(n.span, f), help=help))
        function = FUNCTIONS[f]
        if len(args) < function.least or (function.most is not None and len(args) > function.most):
            wanted = str(function.least) if function.least == function.most else f"{function.least} or more"
            help = f"a reduction names its indices first: `{f}(k) ...`" if f in REDUCTIONS else None
            plural = "" if wanted == "1" else "s"
            raise self.fail(WrongArity(f"`{f}` takes {wanted} argument{plural}, not {len(args)}", n.span, help=help))
        return Operation(f, args, n.span)

    def reduce(self, n: syntax.Reduce, scope: Scope) -> Bound:
        if n.kind not in REDUCTIONS:
            error = UnknownReduction(f"there is no reduction `{n.kind}`", n.span, help=did_you_mean(n.kind, REDUCTIONS))
            raise self.fail(error)
        own: list[BoundIndex] = []
        for i, name in enumerate(n.indices):
            where = word_span(n.span, name)
            outer = next((b for b in scope if b.name == name), None)
            if any(b.name == name for b in own):
                raise self.fail(DuplicateIndex(f"index `{name}` stands twice in one reduction", where, help="name it once"))
            if outer is not None:
                labels = [Label(outer.span, "bound here")] if outer.span is not None else []
                if outer.reduced:
                    raise self.fail(
                        ShadowedName(
                            f"index `{name}` is already reduced around here", where, labels=labels, help="rename one of them"
                        )
                    )
                message = f"index `{name}` of `{self.assign.target}` is also reduced"
                raise self.fail(ReducedAndFree(message, where, labels=labels, help="give the reduction an index of its own"))
            self._check_name(name, where)
            b = BoundIndex(name, where, reduced=True)
            extent = n.extents[i] if i < len(n.extents) else None
            if extent is not None:
                beside = (*(x.name for x in scope), *n.indices)
                try:
                    size = stated_extent(extent, name, "the extent of a reduction", beside, self.names)
                except UserError as e:
                    raise self.fail(e) from None
                b.firm.append((size, "the extent written here", extent.span))
                b.declared = True
            own.append(b)
        body = self.value(n.body, (*scope, *own))
        if not all([infer_range(b, self.names, self.diagnostics, node_text(n)) for b in own]):
            raise _Failed()
        if n.where and n.kind in ("argmax", "argmin"):
            raise self.fail(no_terms(n.kind, n.where[0].span))
        return Reduced(n.kind, tuple(own), body, scope, n.span, self.conditions(n.where, (*scope, *own)))

    def conditions(self, where: tuple[syntax.DomainCondition, ...], scope: Scope) -> tuple[Expr, ...]:
        """Of a domain."""
        try:
            found = conditions_of(where, self.meanings(scope), self.names)
            check_some_elements(found, where, scope, self.names)
        except UserError as e:
            raise self.fail(e) from None
        return found

    def access(self, n: syntax.Access, scope: Scope) -> Bound:
        otherwise = self.value(n.otherwise, scope) if n.otherwise is not None else None
        tensor = self.tensor(n)
        if tensor is not None and len(n.subscripts) != len(tensor.shape):
            axes = f"[{', '.join(map(str, tensor.shape))}]"
            message = f"`{n.tensor}` has {len(tensor.shape)} axes, {axes}; {len(n.subscripts)} subscripts are given"
            each = ", ".join("ijklmnpqrstuvw"[: len(tensor.shape)])
            help = f"give a subscript for each axis: `{n.tensor}[{each}]`, say" if each else f"write `{n.tensor}` alone"
            raise self.fail(WrongRank(message, n.span, help=help))
        subscripts = []
        for axis, s in enumerate(n.subscripts):
            plain = next((b for b in scope if isinstance(s, syntax.Name) and b.name == s.id), None)
            if plain is not None:
                uses = plain.firm if n.otherwise is None else plain.loose
                size = tensor.shape[axis] if tensor is not None else None
                uses.append((size, f"axis {axis} of `{n.tensor}`", s.span or n.span))
            subscripts.append(self.subscript(s, scope, n))
        if tensor is None:
            raise _Failed()
        return Read(n.tensor, tuple(subscripts), otherwise, n.span)

    def subscript(self, s: syntax.Expr, scope: Scope, n: syntax.Access) -> Expr:
        meanings = self.meanings(scope)

        def unknown(name: syntax.Name) -> UserError:
            if name.id in self.names.tensors:
                return UnboundIndex(f"`{name.id}` is a tensor; a subscript is built from indices", name.span)
            help = did_you_mean(name.id, [b.name for b in scope])
            if any(name.id in r for r in _reduced(self.assign.value)):
                help = "a reduction reaches over the product to its right; put a sum in parentheses: `sum(k) (a + b)`"
            elif not (help or "").startswith("did you mean"):
                reduced = f"an index that the left side lacks is reduced, as in `sum({name.id}) ...`"
                help = f"{reduced}; {help}" if help else reduced
            return UnboundIndex(f"no index `{name.id}` is bound here", name.span or n.span, help=help)

        try:
            e = index_term(s, meanings, self.names.is_constant, unknown)
        except UserError as error:
            raise self.fail(error) from None
        for divisor in _divisors(s):
            require_positive(index_term(divisor, meanings), self.names)
        return e

    def tensor(self, n: syntax.Access) -> Tensor | None:
        """The tensor read; None when a mistake in its definition has been reported."""
        if n.tensor == self.assign.target:
            way = "there are no recurrences; a running sum is written `sum(j where j <= i) X[j]`"
            raise self.fail(SelfReference(f"`{n.tensor}` is read by the statement that defines it", n.span, help=way))
        if n.tensor in self.later:
            raise self.fail(
                UsedBeforeDefinition(
                    f"`{n.tensor}` is read before the statement that defines it",
                    n.span,
                    help="write that statement above this one",
                )
            )
        if n.tensor not in self.names.tensors:
            if n.tensor in self.names.sizes:
                raise self.fail(
                    UnknownTensor(f"`{n.tensor}` is a number, it has no elements", n.span, help=f"write `{n.tensor}` alone")
                )
            help = did_you_mean(n.tensor, self.names.tensors)
            raise self.fail(UnknownTensor(f"there is no tensor `{n.tensor}`", word_span(n.span, n.tensor), help=help))
        return self.names.tensors[n.tensor]


def _reduced(n: syntax.Expr) -> list[tuple[str, ...]]:
    """The indices of every reduction in `n`."""
    match n:
        case syntax.Reduce(indices=indices, body=body):
            return [indices, *_reduced(body)]
        case syntax.Unary(operand=operand):
            return _reduced(operand)
        case syntax.Binary(left=left, right=right):
            return _reduced(left) + _reduced(right)
        case syntax.Call(args=args):
            return [r for a in args for r in _reduced(a)]
    return []


def _divisors(n: syntax.Expr) -> list[syntax.Expr]:
    match n:
        case syntax.Binary(op=op, left=left, right=right):
            return _divisors(left) + _divisors(right) + ([right] if op in ("/", "%") else [])
        case syntax.Unary(operand=operand):
            return _divisors(operand)
        case syntax.Call(args=args):
            return [d for a in args for d in _divisors(a)]
    return []


def _target_spot(a: syntax.Assign, name: str):
    if a.span is None:
        return None
    end = a.value.span.start if a.value.span is not None else a.span.end

    brackets = Span(a.span.source, a.span.start + len(a.target), max(end, a.span.start + len(a.target)))
    found = word_span(brackets, name)
    return found if found != brackets else a.span
