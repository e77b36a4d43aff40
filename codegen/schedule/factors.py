"""Names for the factors of contractions that are computed, so that a schedule's lines can speak of them.

    C[m, n] = sum(k) f32(A[m, k]) * f32(f16(B[k, n]) * s[k])    -->    C.right[k, n] = f16(B[k, n]) * s[k]
                                                                       C[m, n] = sum(k) f32(A[m, k]) * f32(C.right[k, n])

Pointwise, they are computed where they are read unless a line says `move` or `keep`; then they are made there. So a schedule
for a product serves products of anything, and instructions take operands that memory does not hold. With its conversion a
factor is called by its type, `C.right_f32`, where a line speaks of that.
"""

from __future__ import annotations

from ...dsl.frozen import replace
from ...dsl.index import Var, as_expr
from ...dsl.op import Op, Statement, Tensor
from ...dsl.values import Apply, Cast, Load, Value, loads
from ..lower.access import indices_of

SIDES = ("left", "right")


def factored(op: Op, names: frozenset[str] | None = None) -> Op:
    """The op with an intermediate for each computed factor of a sum of two; only for those of `names`, where given."""
    statements: list[Statement] = []
    tensors = list(op.tensors)
    for s in op.statements:
        value = s.value
        plain, typed = named(s), named(s, converted(s)) if names is not None else {}
        for name, (n, x) in (plain | typed).items():
            if names is not None and name not in names:
                continue
            indices = _order(s, x)
            extents = tuple((i, s.extent(i)) for i in indices)
            statements.append(Statement(name, indices, x, None, extents, s.span))
            tensors.append(Tensor(name, x.dtype, tuple(e for _, e in extents), "intermediate", s.span))
            load = Load(name, tuple(as_expr(Var(i)) for i in indices), x.dtype)
            value = _with_factor(value, n, load, x)
        statements.append(replace(s, value=value))
    return replace(op, statements=tuple(statements), tensors=tuple(tensors))


def computed(s: Statement) -> tuple[Value | None, Value | None]:
    """Left and right factor, without the conversion around them, where they are more than an access of a tensor."""
    left, right = (None if isinstance(x, Load) else x for x in factors(s) or (None, None))
    return left, right


def factors(s: Statement) -> tuple[Value, ...]:
    """Left and right factor of a contraction, without the conversion around them; nothing where it is none."""
    if s.reduction is None or s.reduction.kind != "sum" or not isinstance(s.value, Apply) or s.value.fn != "mul":
        return ()
    own = {*s.indices, *s.reduction.indices}
    found = tuple(_bare(x) for x in s.value.args)
    used = [indices_of(x, {}) & own for x in found]
    if any(not loads(x) or mine >= own for x, mine in zip(found, used, strict=True)) or used[0] | used[1] != own:
        return ()
    return found


def _bare(x: Value) -> Value:
    return x.arg if isinstance(x, Cast) else x


def converted(s: Statement) -> tuple[Cast | None, Cast | None]:
    """Left and right factor with the conversion around them, where there is one."""
    found = s.value.args if isinstance(s.value, Apply) and factors(s) else (None, None)
    left, right = (x if isinstance(x, Cast) else None for x in found)
    return left, right


def named(s: Statement, found: tuple[Value | None, Value | None] | None = None) -> dict[str, tuple[int, Value]]:
    """Factors by name, with the number of their side: those that are computed, or others that were found.

    `C.left` of the statement of C, `C.left1` of its first sum without a name; with their conversions, `C.left_f32`.
    """
    target, _, inner = s.target.partition(".")
    number = "".join(c for c in inner if c.isdigit())
    return {
        f"{target}.{side}{number}{f'_{x.dtype}' if found else ''}": (n, x)
        for n, (side, x) in enumerate(zip(SIDES, found or computed(s), strict=True))
        if x is not None
    }


def _order(s: Statement, x: Value) -> tuple[str, ...]:
    """Its indices as the largest tensor in it has them, then others as the statement does."""
    largest = max(loads(x), key=lambda ld: len(indices_of(ld, {})))
    named = [v.name for e in largest.indices for v in sorted(e.variables(), key=lambda v: v.name)]
    mine = indices_of(x, {})
    return tuple(dict.fromkeys(i for i in (*named, *(i for i, _ in s.ranges)) if i in mine and i in dict(s.ranges)))


def _with_factor(value: Value, n: int, load: Load, factor: Value) -> Value:
    """A product with a load in place of its factor, or of what its factor converts."""
    assert isinstance(value, Apply)
    old = value.args[n]
    new = load if old is factor or not isinstance(old, Cast) else replace(old, arg=load)
    return replace(value, args=(*value.args[:n], new, *value.args[n + 1 :]))
