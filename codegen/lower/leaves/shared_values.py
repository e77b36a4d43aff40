"""Parts of an element's value that several readers share: each gets a register, filled before the value is computed.

The rule is SHARED in `plan.inlining`:

Y[i] = a * a + a  where a = <much>    -->    alloc a: a = <much>; Y[i] = a * a + a
"""

from __future__ import annotations

from collections.abc import Callable

from ....dsl.index.expr import Expr
from ....dsl.support.fast_replace import replace
from ....dsl.values import Const, Load, Masked, Part, Shared, Value, children, rebuild, transform
from ...ir.tile_ir import Buffer, Stmt, Store
from ...ir.tile_visitors import with_buffers
from ...plan.computations import Computation
from ...plan.derived_names import buffer_name, tensor_of
from ..addressing import translate
from ..lowering_context import LoweringContext
from ..spec import Focus

Around = Callable[[list[Stmt]], list[Stmt]]


def bind_shared_values(
    ctx: LoweringContext, focus: Focus, computation: Computation, masks: tuple[Expr, ...] = ()
) -> tuple[Value, Around]:
    """The value that is left of a computation's, at the focus's element, and what puts its parts around what is done with it.

    `masks`: where these do not hold nobody looks at the value, and it may not be computable.
    """
    parts: list[tuple[str, Value]] = []
    value = _taken_out(computation.value, parts, ())
    buffers: list[Buffer] = []
    fills: list[Stmt] = []
    names: dict[str, str] = {}
    for name, part in parts:
        part = translate(ctx, focus, _renamed(part, names))
        called, memory = ctx.fresh(buffer_name(tensor_of(name))), ctx.device.memories[-1].name
        made = Buffer.row_major(called, part.dtype, "local", memory, ctx.innermost, (), computation.span, passing=True)
        names[name] = made.name
        buffers.append(made)
        fills.append(Store(made.name, (), mask_value(part, masks), span=computation.span))

    def around(body: list[Stmt]) -> list[Stmt]:
        return [*with_buffers(buffers, (*fills, *body), computation.span)]

    return translate(ctx, focus, _renamed(value, names)), around


def mask_value(value: Value, conds: tuple[Expr, ...]) -> Value:
    """The value where conditions hold, and zero elsewhere."""
    zero = Const(False if value.dtype.kind == "bool" else 0, value.dtype)
    return Masked(conds, value, zero, value.dtype) if conds else value


def _taken_out(v: Value, parts: list[tuple[str, Value]], conds: tuple[Expr, ...]) -> Value:
    """The value without its parts, which are added to `parts`, under the conditions that they stood under."""
    match v:
        case Shared():
            for name, part in v.parts:
                parts.append((name, mask_value(part, conds)))
            return v.value
        case Masked():
            return replace(v, value=_taken_out(v.value, parts, (*conds, *v.conds)))
        case Load():
            return v
    kids = children(v)
    return rebuild(v, tuple([_taken_out(k, parts, conds) for k in kids])) if kids else v


def _renamed(v: Value, names: dict[str, str]) -> Value:
    def step(n: Value) -> Value | None:
        return replace(n, name=names[n.name]) if isinstance(n, Part) and n.name in names else None

    return transform(v, step) if names else v
