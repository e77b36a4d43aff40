"""The head of an op: sizes, parameters, tensors, `where`.

`declare(decl, diagnostics) -> Names`. Everything named here shares one space of names.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .. import syntax
from ..errors import Diagnostics, Label, UserError, did_you_mean
from ..errors.op import (
    BadDefault,
    BadWhere,
    DuplicateName,
    NoOutputs,
    ReservedName,
    SizeNotInferable,
    SparseFormat,
    UnknownName,
    UnknownType,
)
from ..index.expr import Expr, Var, as_expr
from ..op import Tensor
from ..source import Span
from ..types import TYPES, DType
from .builtins import FUNCTIONS, REDUCTIONS
from .index_syntax import index_term, node_text, word_span

RESERVED = {
    *FUNCTIONS,
    *REDUCTIONS,
    *TYPES,
    "inf",
    "nan",
    "true",
    "false",
    "auto",
    "and",
    "or",
    "not",
    "else",
    "int",
    "contraction",
}


# The indices of a tensor, and what is at least 0 where it has an element.
Domain = tuple[tuple[str, ...], tuple[Expr, ...]]


@dataclass
class OpNames:
    """What the names of an op mean. `tensors` and `domains` grow as statements are resolved; a tensor is None after a mistake
    in it, and one without a domain has all its elements."""

    dims: dict[str, Var] = field(default_factory=dict)
    params: dict[str, tuple[Var, int | None]] = field(default_factory=dict)
    derived: dict[str, tuple[Var, Expr]] = field(default_factory=dict)
    tensors: dict[str, Tensor | None] = field(default_factory=dict)
    domains: dict[str, Domain] = field(default_factory=dict)
    conditions: list[tuple[Expr, str]] = field(default_factory=list)
    spans: dict[str, Span | None] = field(default_factory=dict)

    @property
    def sizes(self) -> dict[str, Expr]:
        """The meaning of every name that may stand in a size."""
        out = {n: as_expr(v) for n, v in self.dims.items()}
        out |= {n: as_expr(v) for n, (v, _) in self.params.items()}
        return out | {n: as_expr(v) for n, (v, _) in self.derived.items()}

    def is_constant(self, e: Expr) -> bool:
        """Whether `e` has only parameters, which become numbers before anything is compiled."""
        return all(v.name in self.params for v in e.variables())

    def expand(self, e: Expr) -> Expr:
        """`e` with the derived sizes written out."""
        for var, definition in reversed(self.derived.values()):
            e = e.subs({var: definition})
        return e

    def take(self, name: str, span: Span | None, what: str, diagnostics: Diagnostics) -> bool:
        """Notes a new name; False, with a diagnostic, where it is taken or reserved."""
        if name in RESERVED:
            diagnostics.add(
                ReservedName(f"`{name}` cannot name a {what}: it is a word of the language", span, help="take another name")
            )
            return False
        if name in self.spans:
            first = self.spans[name]
            labels = [Label(first, "first here")] if first is not None and first != span else []
            diagnostics.add(DuplicateName(f"`{name}` is declared twice", span, labels=labels, help="rename one of them"))
            return False
        self.spans[name] = span
        return True


def declare(decl: syntax.OpDecl, diagnostics: Diagnostics) -> OpNames:
    """Resolves the head of an op, adding every mistake to `diagnostics`."""
    names = OpNames()
    head = _head(decl)
    for dim in decl.dims:
        if names.take(dim, word_span(head, dim, last=dim in names.dims), "size", diagnostics):
            names.dims[dim] = Var(dim, 0, None)
    for p in decl.inputs:
        if isinstance(p, syntax.IntParam) and names.take(p.name, word_span(p.span, p.name), "parameter", diagnostics):
            names.params[p.name] = (Var(p.name, None, None), _default(p, diagnostics))
    for w in decl.where:
        try:
            _where(w, names, diagnostics)
        except UserError as e:
            diagnostics.add(e)
            if w.op == "=" and isinstance(w.left, syntax.Name):  # so that its uses are not reported as well
                names.derived.setdefault(w.left.id, (Var(w.left.id, 0, None), as_expr(0)))
    for role, declared in (("input", decl.inputs), ("output", decl.outputs)):
        for t in declared:
            if isinstance(t, syntax.TensorDecl) and names.take(t.name, word_span(t.span, t.name), "tensor", diagnostics):
                names.tensors[t.name] = _tensor(t, role, names, diagnostics)
    if not decl.outputs:
        diagnostics.add(
            NoOutputs(
                f"op `{decl.name}` has no outputs", word_span(head, decl.name), help="name them below `->`: `-> (Y: f32[N])`"
            )
        )
    _check_inferable(decl, names, diagnostics)
    for var, definition in names.derived.values():
        require_natural(definition, f"{var} = {definition} >= 0", names)
    for t in names.tensors.values():
        for axis, e in enumerate(t.shape if t is not None else ()):
            require_natural(e, f"{e} >= 0, axis {axis} of `{t.name}`" if t is not None else "", names)
    return names


def _head(decl: syntax.OpDecl) -> Span | None:
    """`op name[M, N](` -- where the sizes stand."""
    if decl.span is None:
        return None
    first = next((t.span for t in (*decl.inputs, *decl.outputs) if t.span is not None), None)
    return Span(decl.span.source, decl.span.start, first.start) if first is not None else decl.span


def dtype_of(name: str, span: Span | None) -> DType:
    """The element type of that name; raises UnknownType."""
    if name not in TYPES:
        raise UnknownType(f"there is no type `{name}`", word_span(span, name, last=True), help=did_you_mean(name, TYPES))
    return TYPES[name]


def _default(p: syntax.IntParam, diagnostics: Diagnostics) -> int | None:
    if p.default is None:
        return None
    try:
        value = index_term(p.default, {}).constant
    except UserError:
        value = None
    if value is None:
        diagnostics.add(
            BadDefault(
                f"the default of `{p.name}` is not a constant integer",
                p.default.span or p.span,
                help=f"write a number: `{p.name}: int = 3`, say",
            )
        )
        return 0
    return value


def _where(w: syntax.SizeCondition, names: OpNames, diagnostics: Diagnostics) -> None:
    if w.op == "=":
        if not isinstance(w.left, syntax.Name):
            raise BadWhere(
                f"`{node_text(w.left)}` is no name: a definition is `P = ...`, a condition `a == b`", w.left.span or w.span
            )
        value = index_term(w.right, names.sizes, unknown=lambda n: unknown_size(n, names))
        require_positive_divisors(w.right, names)
        if names.take(w.left.id, w.left.span, "size", diagnostics):
            names.derived[w.left.id] = (Var(w.left.id, 0, None), value)
        return
    left, right = (index_term(x, names.sizes, unknown=lambda n: unknown_size(n, names)) for x in (w.left, w.right))
    for x in (w.left, w.right):
        require_positive_divisors(x, names)
    text = f"{node_text(w.left)} {w.op} {node_text(w.right)}"
    conditions = comparison_conditions(w.op, left, right)
    if conditions is None:
        raise BadWhere(f"`{w.op}` cannot stand in `where`", w.span, help="conditions are < <= > >= ==")
    names.conditions += [(names.expand(c), text) for c in conditions]


def comparison_conditions(op: str, left: Expr, right: Expr) -> tuple[Expr, ...] | None:
    """What is at least 0 exactly where the comparison holds; None where that is no conjunction."""
    return {
        "<=": (right - left,),
        "<": (right - left - 1,),
        ">=": (left - right,),
        ">": (left - right - 1,),
        "==": (left - right, right - left),
    }.get(op)


def require_positive_divisors(node: syntax.Expr, names: OpNames) -> None:
    """What is divided by is positive: for a size or a parameter that becomes a condition."""
    match node:
        case syntax.Binary(op=op, left=left, right=right):
            require_positive_divisors(left, names)
            require_positive_divisors(right, names)
            if op in ("/", "%"):
                require_positive(index_term(right, names.sizes), names)
        case syntax.Unary(operand=operand):
            require_positive_divisors(operand, names)
        case syntax.Call(args=args):
            for a in args:
                require_positive_divisors(a, names)


def require_positive(divisor: Expr, names: OpNames) -> None:
    """Adds the condition `divisor >= 1`, unless it is known."""
    low = divisor.interval[0]
    condition = (names.expand(divisor) - 1, f"{divisor} >= 1")
    if (low is None or low < 1) and condition not in names.conditions:
        names.conditions.append(condition)


def require_natural(extent: Expr, text: str, names: OpNames) -> None:
    """Adds the condition `extent >= 0`, shown as `text`, unless it is known."""
    low = extent.interval[0]
    condition = (names.expand(extent), text)
    if (low is None or low < 0) and condition not in names.conditions:
        names.conditions.append(condition)


def unknown_size(n: syntax.Name, names: OpNames) -> UserError:
    """What is wrong with a name that stands in a size."""
    near = did_you_mean(n.id, names.sizes) or f"sizes are named behind the op's name: `op f[{n.id}](...)`"
    return UnknownName(f"there is no size or parameter `{n.id}`", n.span, help=near)


def _tensor(t: syntax.TensorDecl, role: str, names: OpNames, diagnostics: Diagnostics) -> Tensor | None:
    ok = True
    if t.format is not None:
        diagnostics.add(SparseFormat(f"`{t.name}` is declared `as {t.format}`: sparse formats are not compiled yet", t.span))
    shape = []
    for s in t.shape:
        try:
            shape.append(index_term(s, names.sizes, unknown=lambda n: unknown_size(n, names)))
            require_positive_divisors(s, names)
        except UserError as e:
            diagnostics.add(e)
            ok = False
    try:
        dtype = dtype_of(t.dtype, t.span)
    except UserError as e:
        diagnostics.add(e)
        return None
    return Tensor(t.name, dtype, tuple(shape), role, t.span) if ok else None


def _check_inferable(decl: syntax.OpDecl, names: OpNames, diagnostics: Diagnostics) -> None:
    """DIMS_BIND: every size of the brackets is a whole axis of some input, so that a call can read it off."""
    inputs = {t.name for t in decl.inputs if isinstance(t, syntax.TensorDecl)}
    if any(names.tensors.get(n, None) is None for n in inputs):
        return  # a mistake in an input's shape has been reported, and may be the reason
    shapes = {e for n in inputs if (t := names.tensors[n]) for e in t.shape}
    for name, var in names.dims.items():
        if as_expr(var) not in shapes:
            diagnostics.add(
                SizeNotInferable(
                    f"size `{name}` cannot be inferred: it is no axis of an input",
                    word_span(_head(decl), name),
                    help=f"make it a parameter, `{name}: int`, or define it by `where {name} = ...`",
                )
            )
