"""The ranges that are written: `D[i, p: H + 2] = ...`, `max(r: 2) X[2*i + r]`.

A written range is made of sizes and parameters. Sizes for which it would be negative are refused at the call.
"""

from __future__ import annotations

from collections.abc import Sequence

from .. import syntax
from ..errors import Label, UserError
from ..errors.op import BadSize, InconsistentRange, UnknownName
from ..index.expr import Expr
from ..op import Tensor
from .declare_op import OpNames, require_natural, require_positive_divisors, unknown_size
from .index_syntax import index_term
from .untyped_body import BoundIndex


def stated_extent(written: syntax.Expr, index: str, what: str, indices: Sequence[str], names: OpNames) -> Expr:
    """The extent that is written for `index`. `what` it is, for messages; it cannot depend on `indices`. Raises a UserError."""

    def unknown(name: syntax.Name) -> UserError:
        if name.id not in indices:
            return unknown_size(name, names)
        way = f"write the extent of `{index}`: a size or a number"
        if name.id != index:
            way = f"conditions between indices are a domain, as in `where {index} < {name.id}`"
        return UnknownName(f"`{name.id}` is an index; a range depends on sizes alone", name.span, help=way)

    extent = index_term(written, names.sizes, unknown=unknown)
    require_positive_divisors(written, names)
    most = extent.interval[1]
    if most is not None and most < 0:
        raise BadSize(f"{what} is negative: {extent}", written.span, help="a range is 0 or more")
    require_natural(extent, f"{extent} >= 0, {what}", names)
    return extent


def state_range(b: BoundIndex, written: syntax.Expr, assign: syntax.Assign, output: Tensor | None, names: OpNames) -> None:
    """Notes the range that is written for an index of the left side. For an `output` it must be the declared axis.

    Raises a UserError.
    """
    extent = stated_extent(written, b.name, f"the range of `{b.name}` in `{assign.target}`", assign.indices, names)
    if not b.declared:
        b.firm.append((extent, "the range written here", written.span))
        b.declared = True
        return
    axis, what, _ = b.firm[0]
    if axis is None or names.expand(axis) == names.expand(extent):
        return
    labels = [Label(output.span, f"{axis} here")] if output is not None and output.span is not None else []
    raise InconsistentRange(
        f"index `{b.name}` runs over {extent} (the range written here) and over {axis} ({what})",
        written.span,
        labels=labels,
        help=f"leave the range out: the declaration of `{assign.target}` has it",
    )
