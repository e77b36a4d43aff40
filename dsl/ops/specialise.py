"""Numbers for an op's parameters and sizes: `bind_params`, `specialise`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from operator import index

from ..errors import Diagnostics, did_you_mean
from ..errors.op import BadSize, ConditionFailed, MissingParameter, SizeOverflow, UnknownSize
from ..index.expr import Expr, Var
from ..op import Op
from ..support.fast_replace import replace
from .check_accesses import check_accesses
from .unify_axes import map_exprs

WHOLE = "a size is a whole number from 0 to 2**63 - 1"


def bind_params(op: Op, values: Mapping[str, int] | None = None) -> Op:
    """`op` with numbers for all its parameters: `values`, else their defaults.

    What could not be proved while they were open is proved now. Raises UnknownSize, MissingParameter, BadSize,
    ConditionFailed, MayLeaveTensor (UserErrors for several).
    """
    values = dict(values or {})
    diagnostics = Diagnostics()
    names = [name for name, _ in op.params]
    for name in values:
        if name not in names:
            diagnostics.add(UnknownSize(f"op `{op.name}` has no parameter `{name}`", help=did_you_mean(name, names)))
    numbers: dict[str, int] = {}
    for name, default in op.params:
        value = values.get(name, default)
        if value is None:
            help = f"pass it by name: `{name}=...`"
            diagnostics.add(MissingParameter(f"op `{op.name}` needs a value for its parameter `{name}`", help=help))
        else:
            numbers[name] = whole_number(name, value)
    diagnostics.raise_if_any()
    if not numbers:
        return op
    bound = replace(_substitute(op, numbers), params=())
    check_accesses(bound, diagnostics)
    diagnostics.raise_if_any()
    return bound


def specialise(op: Op, sizes: Mapping[str, int]) -> Op:
    """`op` with numbers for some of its sizes; derived sizes become numbers where they are known then.

    Raises UnknownSize, BadSize, ConditionFailed, SizeOverflow.
    """
    dims = {v.name for v in op.dims}
    for name in sizes:
        if name not in dims:
            what = "a parameter" if any(name == p for p, _ in op.params) else "no size"
            raise UnknownSize(f"`{name}` is {what} of op `{op.name}`", help=did_you_mean(name, dims))
    numbers = {name: whole_number(name, value) for name, value in sizes.items()}
    for name, value in numbers.items():
        if value < 0:
            raise BadSize(f"size `{name}` of op `{op.name}` is negative: {value}", help=WHOLE)
    special = _substitute(op, numbers)
    for t in special.tensors:
        count = [e.constant for e in t.shape]
        if None not in count and prod(count) >= 2**63:  # type: ignore[arg-type]
            raise SizeOverflow(
                f"`{t.name}` of op `{op.name}` would have {' x '.join(map(str, count))} elements; 2^63 is too many",
                help="take smaller sizes",
            )
    return special


def whole_number(name: str, value: object) -> int:
    """The value of a size or a parameter. Raises BadSize for what is no integer of 64 bits."""
    if isinstance(value, bool):
        raise BadSize(f"`{name}` must be an integer, not {value!r}", help=WHOLE)
    try:
        number = index(value)  # type: ignore[arg-type]
    except TypeError:
        raise BadSize(f"`{name}` must be an integer, not {value!r}", help=WHOLE) from None
    if abs(number) >= 2**63:
        raise BadSize(f"`{name}` does not fit 64 bits: {number}", help=WHOLE)
    return number


def _substitute(op: Op, numbers: Mapping[str, int]) -> Op:
    mapping: dict[Var, int | Expr] = {Var(n, None, None): x for n, x in numbers.items()}  # parameters
    mapping |= {v: numbers[v.name] for v in op.dims if v.name in numbers}
    conditions = []
    for c, text in op.conditions:
        try:
            new = c.subs(mapping)
        except ZeroDivisionError:
            continue  # the condition that the divisor is positive fails as well
        if new.constant is not None and new.constant < 0:
            given = ", ".join(f"{n} = {x}" for n, x in numbers.items())
            at = next((x.span for x in op.statements if x.span is not None), None)
            if not given:
                help = "write an extent that is 0 or more for some sizes, and a `where` that some sizes satisfy"
                raise ConditionFailed(f"op `{op.name}` needs {text}, which no sizes satisfy", at, help=help)
            help = f"call it with others, or change the `where` or the extents of `{op.name}`"
            raise ConditionFailed(f"op `{op.name}` needs {text}, which does not hold for {given}", at, help=help)
        if new.constant is None:
            conditions.append((new, text))
    derived = []
    for var, definition in op.derived:
        new = definition.subs(mapping)
        if new.constant is None:
            derived.append((var, new))
        else:
            mapping[var] = new

    def number(e: Expr) -> Expr:
        return e.subs(mapping)

    return replace(
        op,
        dims=tuple(v for v in op.dims if v.name not in numbers),
        derived=tuple(derived),
        conditions=tuple(conditions),
        tensors=tuple(replace(t, shape=tuple(map(number, t.shape))) for t in op.tensors),
        statements=tuple(_statement(s, number) for s in op.statements),
    )


def _statement(s, number: Callable[[Expr], Expr]):
    return replace(s, value=map_exprs(s.value, number), ranges=tuple((i, number(e)) for i, e in s.ranges))
