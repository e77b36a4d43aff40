"""The range of an index, from the axes it subscripts.

RANGE_FROM_AXES: an index subscripting an axis plainly (`X[i]`) runs over that axis, and all axes it subscripts must agree. The
axis of a declared output and a range that is written decide before them: a plain subscript may then stop short of its axis
where that is proven (`Y[i] = X[i] + X[i + 1]` with one element less in Y). Reads with `else` may be left, so they decide only
where nothing else does. An intermediate's index that subscripts nothing plainly has the range of the output axis that its
axis becomes in a later statement.
"""

from __future__ import annotations

from collections.abc import Sequence

from .. import syntax
from ..errors import Diagnostics, Label
from ..errors.op import AmbiguousRange, InconsistentRange
from ..index.expr import Expr
from ..index.prove import always
from ..op import Tensor
from .declare_op import OpNames
from .untyped_body import BoundIndex


def infer_range(b: BoundIndex, names: OpNames, diagnostics: Diagnostics, where: str) -> bool:
    """Sets `b.extent`; False, with a diagnostic, where there is no range or more than one. Extent unknown after a mistake."""
    uses = b.firm or b.loose
    known = [(e, what, span) for e, what, span in uses if e is not None]
    if not uses:
        kind = "reduced index" if b.reduced else "index"
        help = f"state it: `({b.name}: EXTENT)`" if b.reduced else f"state it: `[{b.name}: EXTENT]`"
        diagnostics.add(
            AmbiguousRange(
                f"the range of {kind} `{b.name}` is not known: it is no plain subscript of `{where}`", b.span, help=help
            )
        )
        return False
    if len(known) < len(uses) and not known:
        return False  # a mistake in the tensor's definition has been reported
    first, what, span = known[0]
    b.extent = first
    for other, what2, span2 in known[1:]:
        if other == first or names.expand(other) == names.expand(first):
            continue
        if b.declared and _at_most(first, other, names):
            continue
        labels = [Label(span, f"{first} here")] if span is not None and span != span2 else []
        diagnostics.add(
            InconsistentRange(
                f"index `{b.name}` runs over {first} ({what}) and over {other} ({what2})",
                span2,
                note=f"{other} here",
                labels=labels,
                help=f"write the same size in both declarations, or read with `else` where `{b.name}` may leave",
            )
        )
        return False
    return True


def _at_most(small: Expr, large: Expr, names: OpNames) -> bool:
    """Whether `small <= large` is proven, open parameters counting with their defaults (`bind_params` proves it again)."""
    defaults = {var: default for var, default in names.params.values() if default is not None}
    try:
        known = [names.expand(e).subs(defaults) for e in (large - small, *(c for c, _ in names.conditions))]
    except ZeroDivisionError:
        return False
    return always(known[0], known[1:])


def range_from_consumers(
    target: str, axis: int, later: Sequence[syntax.Assign], outputs: dict[str, Tensor | None]
) -> tuple[Expr, str] | None:
    """The extent, and where it is from, of the output axis that `target`'s axis is, plainly, in some later statement."""
    for position, a in enumerate(later):
        for access in _accesses(a.value, target):
            if access.otherwise is not None or len(access.subscripts) <= axis:
                continue
            s = access.subscripts[axis]
            if not isinstance(s, syntax.Name) or s.id not in a.indices:
                continue
            own = a.indices.index(s.id)
            if a.target not in outputs:
                found = range_from_consumers(a.target, own, later[position + 1 :], outputs)
                if found is not None:
                    return found
                continue
            tensor = outputs[a.target]
            if tensor is not None and own < len(tensor.shape):
                return tensor.shape[own], f"axis {own} of `{a.target}`"
    return None


def _accesses(n: syntax.Expr, tensor: str) -> list[syntax.Access]:
    match n:
        case syntax.Access():
            inner = [] if n.otherwise is None else _accesses(n.otherwise, tensor)
            return [n, *inner] if n.tensor == tensor else inner
        case syntax.Unary(operand=x) | syntax.Reduce(body=x):
            return _accesses(x, tensor)
        case syntax.Binary(left=left, right=right):
            return _accesses(left, tensor) + _accesses(right, tensor)
        case syntax.Call(args=args):
            return [x for a in args for x in _accesses(a, tensor)]
    return []
