"""From the syntax of an op to its meaning: `resolve_op(decl) -> Op`.

    declare            the head: sizes, parameters, tensors, `where`
    bind_names         each statement's names, and with them the range of every index
    extract_reductions   one reduction a statement
    Typing             types, and typed values
    unify_axes         one name for one axis, across statements
    check_accesses     every access stays inside, or has an `else`

All errors are collected before any is raised.
"""

from __future__ import annotations

from .. import syntax
from ..errors import Diagnostics, Label, UserError
from ..errors.op import (
    AccumulateInOp,
    AssignedInput,
    AssignedTwice,
    BadDomain,
    BoolArithmetic,
    DuplicateName,
    NeverAssigned,
    ReservedName,
    WrongOperand,
    WrongRank,
)
from ..op import Op, Reduction, Statement, Tensor
from ..support.fast_replace import replace
from ..types import TYPES, DType
from ..values import Value, loads
from .bind_names import bind_names
from .check_accesses import check_accesses
from .declare_op import RESERVED, OpNames, declare
from .domains import Conditions, conditions_of_statement, no_terms, restricted
from .extract_reductions import SplitStatement, extract_reductions
from .index_syntax import word_span
from .typecheck import BOOL, INT, SIZE, Typing, check_store
from .unify_axes import unify_axes


def resolve_op(decl: syntax.OpDecl, *, instruction: bool = False) -> Op:
    """The resolved op. `instruction` allows `+=`, whose old value is then left to the caller.

    Raises a UserError of `dsl.errors.op`, or UserErrors for several.
    """
    diagnostics = Diagnostics()
    names = declare(decl, diagnostics)
    pieces = _statements(decl, names, instruction, diagnostics)
    diagnostics.raise_if_any()
    statements = [_statement(p, names) for p in _needed(pieces, {t.name for t in decl.outputs})]
    op = Op(
        name=decl.name,
        dims=tuple(names.dims.values()),
        derived=tuple(names.derived.values()),
        params=tuple((n, default) for n, (_, default) in names.params.items()),
        conditions=tuple(names.conditions),
        tensors=_tensors(decl, names, {s.target for s in statements}),
        statements=tuple(unify_axes(statements, names.expand)),
        decl=decl,
    )
    check_accesses(op, diagnostics)
    diagnostics.raise_if_any()
    return op


def _statements(
    decl: syntax.OpDecl, names: OpNames, instruction: bool, diagnostics: Diagnostics
) -> list[tuple[SplitStatement, Value, DType]]:
    """The statements, split and typed, in an order in which each is defined before it is used."""
    outputs = {t.name for t in decl.outputs} - {t.name for t in decl.inputs}
    declared = {name: t for name, t in names.tensors.items() if name in outputs}
    for name in outputs:
        names.tensors.pop(name, None)  # nothing may be read above its definition
    defined: dict[str, syntax.Assign] = {}
    attempted: set[str] = set()
    typing = Typing({}, names.domains)
    out: list[tuple[SplitStatement, Value, DType]] = []
    types: dict[str, DType] = {n: t.dtype for n, t in names.tensors.items() if t is not None}
    typing.tensors = types
    for number, a in enumerate(decl.body):
        try:
            _check_target(a, names, declared, defined, outputs, instruction)
        except UserError as e:
            diagnostics.add(e)
            attempted.add(a.target)
            if a.target not in defined and a.target not in names.tensors:
                names.tensors[a.target] = None
            continue
        if a.target in outputs:  # its declared shape gives ranges
            names.tensors[a.target] = declared.get(a.target)
        before = len(diagnostics.errors)
        free, value, domain = bind_names(a, names, decl.body[number + 1 :], declared, diagnostics)
        tensor = None
        if value is not None and len(diagnostics.errors) == before:
            try:
                cut = extract_reductions(a.target, free, value, a.span)
                pieces = [_typed(_restricted(p, a, domain, names), typing, types, declared.get(p.target)) for p in cut]
                out += pieces
                tensor = _intermediates(pieces, names, declared.get(a.target))
            except UserError as e:
                diagnostics.add(e)
        names.tensors[a.target] = tensor
        names.spans.setdefault(a.target, a.span)
        defined[a.target] = a
    for t in decl.outputs:
        if t.name not in defined.keys() | attempted and t.name in declared:
            diagnostics.add(
                NeverAssigned(
                    f"output `{t.name}` is never assigned",
                    word_span(t.span, t.name),
                    help=f"add `{t.name}[...] = ...`, or leave the output out",
                )
            )
    return out


def _check_target(
    a: syntax.Assign,
    names: OpNames,
    declared: dict[str, Tensor | None],
    defined: dict[str, syntax.Assign],
    outputs: set[str],
    instruction: bool,
) -> None:
    where = word_span(a.span, a.target)
    if a.where and instruction:
        raise BadDomain("an instruction computes all elements of its operands", a.where[0].span, help="leave `where` out")
    if a.where and a.target in outputs:
        raise BadDomain(
            f"`{a.target}` is an output, which has all its elements",
            a.where[0].span,
            help="name the statement otherwise, and read it with a value for the other elements: `s[i, t else 0]`",
        )
    if a.accumulate and not instruction:
        raise AccumulateInOp(
            f"`{a.target} += ...` accumulates; statements are single-assignment",
            a.span,
            help="write a reduction: `C[m, n] = sum(k) A[m, k] * B[k, n]`",
        )
    if a.target in defined:
        first = word_span(defined[a.target].span, a.target)
        labels = [Label(first, "first here")] if first is not None else []
        raise AssignedTwice(
            f"`{a.target}` is assigned twice", where, labels=labels, help="give one of the results another name"
        )
    if a.target in outputs:
        t = declared.get(a.target)
        if t is not None and len(t.shape) != len(a.indices):
            labels = [Label(t.span, "declared here")] if t.span is not None else []
            message = f"`{a.target}` has {len(t.shape)} axes; {len(a.indices)} indices are given"
            raise WrongRank(message, where, labels=labels, help="name each axis of the output by an index of its own")
        return
    if a.target in names.tensors:
        raise AssignedInput(
            f"`{a.target}` is an input; a statement cannot assign it", where, help="give the result a name of its own"
        )

    if a.target in RESERVED:
        raise ReservedName(f"`{a.target}` cannot name a tensor: it is a word of the language", where, help="take another name")
    if a.target in names.spans:
        first = names.spans[a.target]
        labels = [Label(first, "declared here")] if first is not None else []
        raise DuplicateName(f"`{a.target}` is a size or a parameter already", where, labels=labels, help="take another name")


def _restricted(p: SplitStatement, a: syntax.Assign, domain: Conditions, names: OpNames) -> SplitStatement:
    """The piece with the conditions of its terms; notes those of its target's elements for later readers."""
    own = domain if p.target == a.target else ()
    output = names.tensors.get(p.target)
    terms, elements = conditions_of_statement(p, own, names, output is not None and output.role == "output")
    if elements:
        names.domains[p.target] = tuple(b.name for b in p.free), elements
    if terms and p.kind in ("argmax", "argmin"):
        raise no_terms(p.kind, p.span)
    return replace(p, conds=terms)


def _typed(
    p: SplitStatement, typing: Typing, types: dict[str, DType], output: Tensor | None
) -> tuple[SplitStatement, Value, DType]:
    """The piece with its value, and the type of its target; notes that type for later readers."""
    kind = typing.kind(p.body)
    hint = output.dtype if output is not None else None
    if p.kind in ("any", "all"):
        if kind != BOOL:
            way = f"compare, in parentheses: `{p.kind}(j) (X[j] != 0)`"
            raise WrongOperand(f"`{p.kind}` reduces truth values, not {kind}", p.body.span, help=way)
        body = result = BOOL
    elif p.kind is not None:
        if kind == BOOL:
            help = "reduce truth values with `any` or `all`, or count them: `i32(...)`"
            raise BoolArithmetic(f"`{p.kind}` cannot reduce truth values", p.body.span, help=help)
        # What has no output to take its type from is an i64, as sizes and indices are: extents say how large it is.
        own = hint if output is not None else TYPES["i64"]
        body = typing.settled(kind, own if p.kind not in ("argmax", "argmin") else None).compute
        result = TYPES["i64"] if p.kind in ("argmax", "argmin") else body
    else:
        if output is not None:
            check_store(kind, output.dtype, p.target, p.body.span)
        literal = kind in (INT, SIZE) and hint is not None and hint.kind in ("int", "uint")
        body = result = hint if literal and kind == INT and hint is not None else typing.settled(kind, hint)
        if literal and kind == SIZE:
            body = result = TYPES["i64"]
    value = typing.value(p.body, body)
    if p.kind is not None:
        value = restricted(value, p.kind, p.conds)
    if p.kind is not None and output is not None:
        check_store(result, output.dtype, p.target, p.span)
    types[p.target] = output.dtype if output is not None else result
    return p, value, types[p.target]


def _intermediates(pieces: list[tuple[SplitStatement, Value, DType]], names: OpNames, output: Tensor | None) -> Tensor:
    """Notes the tensors that the pieces define; gives the last one, the target."""
    for p, _, dtype in pieces:
        if output is None or p.target != output.name:
            shape = tuple(b.extent for b in p.free if b.extent is not None)
            names.tensors[p.target] = Tensor(p.target, dtype, shape, "intermediate", p.span)
    tensor = output or names.tensors[pieces[-1][0].target]
    assert tensor is not None
    return tensor


def _needed(pieces: list[tuple[SplitStatement, Value, DType]], outputs: set[str]) -> list[tuple[SplitStatement, Value, DType]]:
    """Without the statements that no output depends on."""
    needed = set(outputs)
    kept = []
    for piece in reversed(pieces):
        if piece[0].target in needed:
            kept.append(piece)
            needed |= {load.tensor for load in loads(piece[1])}
    return kept[::-1]


def _statement(piece: tuple[SplitStatement, Value, DType], names: OpNames) -> Statement:
    p, value, _ = piece
    ranges = tuple((b.name, b.extent) for b in (*p.free, *p.reduced) if b.extent is not None)
    reduction = Reduction(p.kind, tuple(b.name for b in p.reduced)) if p.kind is not None else None
    return Statement(p.target, tuple(b.name for b in p.free), value, reduction, ranges, p.span)


def _tensors(decl: syntax.OpDecl, names: OpNames, defined: set[str]) -> tuple[Tensor, ...]:
    """Inputs and outputs as declared, then the intermediates that are used."""
    tensors = {n: t for n, t in names.tensors.items() if t is not None}
    declared = [t.name for t in (*decl.inputs, *decl.outputs) if isinstance(t, syntax.TensorDecl)]
    used = [n for n, t in tensors.items() if t.role == "intermediate" and n in defined]
    return tuple(tensors[n] for n in (*declared, *used))
