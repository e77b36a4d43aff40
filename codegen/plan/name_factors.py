"""Names for the computed factors of contractions, so that a schedule's lines can name them.

    C[m, n] = sum(k) f32(A[m, k]) * f32(f16(B[k, n]) * s[k])    -->    C.right[k, n] = f16(B[k, n]) * s[k]
                                                                       C[m, n] = sum(k) f32(A[m, k]) * f32(C.right[k, n])

They are inlined unless a line with `move` or `keep` names them; then they are materialised there. So a schedule for a product
serves products of any factors, and instructions take operands that are not in memory. A line may also name a factor with its
conversion, by its type: `C.right_f32`. Windows overlap, so the tensor that they are cut out of is converted:

    Y[p] = sum(c, r) f32(I[c, p + r - 1 else 0]) * F[c, r]     -->    Y.I_f32[c, i1] = f32(I[c, i1])
                                                                      Y[p] = sum(c, r) Y.I_f32[c, p + r - 1 else 0] * F[c, r]

    C[i, j] = sum(k) A[i, k] * A[j, k]    -->    C.left[i, k] = A[i, k]; C.right[j, k] = A[j, k]

IN_STEPS      an integer may be widened in steps: `C.left_i16` of `i32(A[m, k])`, where A is i8, is `i16(A[m, k])`, and the
              product converts that. A type between holds each value of the narrower one, so nothing is lost.
SECOND_NAME   if a tensor is multiplied with itself, its name is ambiguous, so both factors have names. Nothing is computed for
              them: they are the tensor under another name (`second_names`), and a line may stage one without the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...dsl.index.expr import Expr, Var, as_expr
from ...dsl.op import Op, Statement, Tensor
from ...dsl.support.fast_replace import replace
from ...dsl.types import TYPES, DType
from ...dsl.values import Apply, Cast, Const, Load, Value, loads, transform
from .computations import Computation, indices_of, plain_index, substitute
from .restricted_terms import restricted_term

SIDES = ("left", "right")


def name_factors(op: Op, names: frozenset[str] | None = None) -> Op:
    """The op with an intermediate for each computed factor of a sum of two; only for those of `names`, where given."""
    statements: list[Statement] = []
    tensors = list(op.tensors)
    shapes = {t.name: t.shape for t in op.tensors}
    for s in op.statements:
        value = _term(s)
        for name, (n, x) in _all_windows(s).items() if names is not None else ():
            if name in (names or ()):
                made, read = _converted_tensor(s, name, x, shapes)
                statements.append(made)
                tensors.append(Tensor(name, x.dtype, tuple(e for _, e in made.ranges), "intermediate", s.span))
                value = _with_factor(value, n, read)
        plain, typed = named_factor(s), _all_converted(s) if names is not None else {}
        for name, (n, x) in (plain | typed).items():
            if names is not None and name not in names:
                continue
            indices = ordered_indices(s, x)
            extents = tuple((i, s.extent(i)) for i in indices)
            statements.append(Statement(name, indices, x, None, extents, s.span))
            tensors.append(Tensor(name, x.dtype, tuple(e for _, e in extents), "intermediate", s.span))
            load = Load(name, tuple(as_expr(Var(i)) for i in indices), x.dtype)
            value = _with_factor(value, n, load)
        statements.append(replace(s, value=_with_term(s, value)))
    return replace(op, statements=tuple(statements), tensors=tuple(tensors))


def squared_factor_names(op: Op, spoken: frozenset[str] = frozenset()) -> frozenset[str]:
    """Names of the factors of products that multiply a tensor with itself; not of tensors `spoken` of."""
    squares = (s for s in op.statements if is_square(s) and spoken.isdisjoint(ld.tensor for ld in loads(s.value)))
    return frozenset(name for s in squares for name in named_factor(s))


def without_second_names(op: Op) -> Op:
    """The op without the statements that only give a tensor another name: nothing is computed for them."""
    again = second_names(op)
    return replace(op, statements=tuple(s for s in op.statements if s.target not in again)) if again else op


def inline_copies(op: Op, spoken: frozenset[str]) -> Op:
    """The op whose products read a tensor itself instead of an intermediate that is a copy of it; not of those `spoken` of."""
    copies = {
        s.target: s
        for s in op.statements
        if s.reduction is None and isinstance(s.value, Load) and s.value.otherwise is None and s.target not in spoken
    }
    copies = {t: s for t, s in copies.items() if op.tensor(t).role == "intermediate"}

    def step(v: Value) -> Value | None:
        if not isinstance(v, Load) or v.tensor not in copies or v.otherwise is not None:
            return None
        s = copies[v.tensor]
        return transform(substitute(s.value, {Var(i): e for i, e in zip(s.indices, v.indices, strict=True)}), step)

    if not copies:
        return op
    return replace(op, statements=tuple(replace(s, value=transform(s.value, step)) if factors(s) else s for s in op.statements))


def second_names(op: Op) -> dict[str, str]:
    """SECOND_NAME: what is an input, or a tensor of an earlier launch, under the name of a factor, and which."""
    found: dict[str, str] = {}
    for s in op.statements:
        sides = tuple(f".{side}" for side in SIDES)
        own = tuple(as_expr(Var(i)) for i in s.indices)
        plain = isinstance(s.value, Load) and s.value.otherwise is None and s.value.indices == own
        if plain and any(side in s.target for side in sides):
            assert isinstance(s.value, Load)
            found[s.target] = s.value.tensor
    inner = {s.target for s in op.statements if op.tensor(s.target).role == "intermediate" and s.reduction is None}
    return {name: tensor for name, tensor in found.items() if tensor not in inner}


def is_square(s: Statement | Computation) -> bool:
    """Whether it sums products of a tensor with itself, whose factors have names (SECOND_NAME)."""
    left, right = factors(s) or (None, None)
    return isinstance(left, Load) and isinstance(right, Load) and left.tensor == right.tensor


def computed_factors(s: Statement) -> tuple[Value | None, Value | None]:
    """Left and right factor, without the conversion around them, where they are more than an access of a tensor, or each an
    access of the same one: the tensor's name tells neither."""
    left, right = factors(s) or (None, None)
    if is_square(s):
        return left, right
    left, right = (None if isinstance(x, Load) else x for x in (left, right))
    return left, right


def factors(s: Statement | Computation) -> tuple[Value, ...]:
    """Left and right factor of a contraction, without the conversion around them; nothing where it is none."""
    term = _term(s)
    if s.reduction is None or s.reduction.kind != "sum" or not isinstance(term, Apply) or term.fn != "mul":
        return ()
    own = {*s.indices, *s.reduction.indices}
    found = tuple(_bare(x) for x in term.args)
    used = [indices_of(x, {}) & own for x in found]
    if any(not loads(x) or mine >= own for x, mine in zip(found, used, strict=True)) or used[0] | used[1] != own:
        return ()
    return found


def _term(s: Statement | Computation) -> Value:
    """The value, where a term of the reduction counts."""
    return restricted_term(s.reduction.kind, s.value)[1] if s.reduction is not None else s.value


def with_factors(s: Statement, left: Value, right: Value) -> Statement:
    """The statement with other factors, of the same type."""
    term = _term(s)
    assert isinstance(term, Apply)
    return replace(s, value=_with_term(s, replace(term, args=(left, right))))


def _with_term(s: Statement, term: Value) -> Value:
    """The value of the statement with another term."""
    old = _term(s)
    return transform(s.value, lambda v: term if v is old else None)


def _bare(x: Value) -> Value:
    return x.arg if isinstance(x, Cast) else x


def converted_factors(s: Statement) -> tuple[Cast | None, Cast | None]:
    """Left and right factor with the conversion around them, where there is one."""
    term = _term(s)
    found = term.args if isinstance(term, Apply) and factors(s) else (None, None)
    left, right = (x if isinstance(x, Cast) else None for x in found)
    return left, right


def has_steps(s: Statement) -> Iterator[tuple[Cast | None, Cast | None]]:
    """IN_STEPS: the same, converted to a type between, where both factors can be; the narrowest type first."""
    left, right = converted_factors(s)
    if left is None or right is None:
        return
    for dtype in sorted(TYPES.values(), key=lambda t: t.bits):
        if all(holds_between(x.arg.dtype, dtype, x.dtype) for x in (left, right)):
            yield replace(left, dtype=dtype), replace(right, dtype=dtype)


def holds_between(narrow: DType, dtype: DType, wide: DType) -> bool:
    """Is it an integer type that holds each value of the narrower one, and converts to the wider as that does?"""
    signed = dtype.kind == wide.kind == "int" and narrow.kind in ("int", "uint")
    return signed and narrow.bits < dtype.bits < wide.bits


def windows(s: Statement, found: tuple[Cast | None, Cast | None] | None = None) -> dict[str, tuple[int, Cast]]:
    """Factors that convert elements of windows, by the name of the tensor that is converted, with the number of their side.

    found   the conversions, where they are not those of the statement
    """
    target, _, inner = s.target.partition(".")
    number = "".join(c for c in inner if c.isdigit())
    return {
        f"{target}.{x.arg.tensor}{number}_{x.dtype}": (n, x)
        for n, x in enumerate(found or converted_factors(s))
        if x is not None and isinstance(x.arg, Load) and any(plain_index(e) is None for e in x.arg.indices)
    }


def _all_windows(s: Statement) -> dict[str, tuple[int, Cast]]:
    return windows(s) | {name: x for found in has_steps(s) for name, x in windows(s, found).items()}


def _all_converted(s: Statement) -> dict[str, tuple[int, Value]]:
    return named_factor(s, converted_factors(s)) | {
        name: x for found in has_steps(s) for name, x in named_factor(s, found).items()
    }


def factor_names(s: Statement) -> dict[str, Value]:
    """All names that factors of a product may have, but for windows, and what they are of."""
    return {name: x for name, (_, x) in (named_factor(s) | _all_converted(s)).items()}


def _converted_tensor(s: Statement, name: str, x: Cast, shapes: Mapping[str, tuple[Expr, ...]]) -> tuple[Statement, Load]:
    """The statement that converts the whole tensor, and the window of it."""
    window = x.arg
    assert isinstance(window, Load)
    taken = {i for i, _ in s.ranges}
    indices: list[str] = []
    for n, e in enumerate(window.indices):
        own = plain_index(e)
        index = own if own is not None and own not in indices else f"{window.tensor.lower()}{n}"
        while index != own and index in taken:
            index += "_"
        indices.append(index)
    ranges = tuple(zip(indices, shapes[window.tensor], strict=True))
    element = Load(window.tensor, tuple(as_expr(Var(i)) for i in indices), window.dtype)
    other = window.otherwise
    if isinstance(other, Const) and not other.value:
        other = Const(0.0 if x.dtype.kind == "float" else 0, x.dtype)
    elif other is not None:
        other = Cast(other, x.dtype)
    return Statement(name, tuple(indices), Cast(element, x.dtype), None, ranges, s.span), Load(
        name, window.indices, x.dtype, other
    )


def named_factor(s: Statement, found: tuple[Value | None, Value | None] | None = None) -> dict[str, tuple[int, Value]]:
    """Factors by name, with the number of their side: those that are computed, or others that were found.

    `C.left` of the statement of C, `C.left1` of its first sum without a name; with their conversions, `C.left_f32`.
    """
    return {
        f"{name}{f'_{x.dtype}' if found else ''}": (n, x)
        for n, (name, x) in enumerate(zip(side_names(s.target), found or computed_factors(s), strict=True))
        if x is not None
    }


def side_names(target: str) -> tuple[str, str]:
    """What the factors of a statement are called."""
    target, _, inner = target.partition(".")
    number = "".join(c for c in inner if c.isdigit())
    left, right = (f"{target}.{side}{number}" for side in SIDES)
    return left, right


def ordered_indices(s: Statement, x: Value) -> tuple[str, ...]:
    """Its indices as the largest tensor in it has them, then others as the statement does."""
    largest = max(loads(x), key=lambda ld: len(indices_of(ld, {})))
    named = [v.name for e in largest.indices for v in sorted(e.variables(), key=lambda v: v.name)]
    mine = indices_of(x, {})
    return tuple(dict.fromkeys(i for i in (*named, *(i for i, _ in s.ranges)) if i in mine and i in dict(s.ranges)))


def _with_factor(value: Value, n: int, load: Load) -> Value:
    """A product with a load in place of its factor, converted to the factor's type."""
    assert isinstance(value, Apply)
    dtype = value.args[n].dtype
    new = load if load.dtype == dtype else Cast(load, dtype)
    return replace(value, args=(*value.args[:n], new, *value.args[n + 1 :]))
