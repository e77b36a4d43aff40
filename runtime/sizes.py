"""From the shapes of the arguments to the sizes of an op, checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..dsl.errors.run import ArgumentShape, SizeRefused
from ..dsl.index import Expr
from ..dsl.op import Op, Tensor

MOST = (1 << 63) - 1  # sizes and byte counts are 64-bit integers in the emitted text


def describe(t: Tensor) -> str:
    """`A: f32[M, K]`."""
    return f"{t.name}: {t.dtype}[{', '.join(map(str, t.shape))}]"


def bind_sizes(op: Op, shapes: Sequence[tuple[int, ...]], fixed: Mapping[str, int]) -> dict[str, int]:
    """The value of every size of the op, the derived ones too, for inputs of these shapes.

    `fixed` are sizes given at compile time. Raises ArgumentShape naming the tensor, what was expected and from where, and
    SizeRefused for sizes that the op excludes.
    """
    sizes = dict(fixed)
    origin = dict.fromkeys(fixed, "compile time")
    for tensor, shape in zip(op.inputs, shapes, strict=True):
        if len(shape) != len(tensor.shape):
            raise ArgumentShape(
                f"{tensor.name} has shape {_shape(shape)}; expected {len(tensor.shape)} axes: {describe(tensor)}"
            )
    for tensor, shape in zip(op.inputs, shapes, strict=True):
        for expr, extent in zip(tensor.shape, shape, strict=True):
            name = str(expr)  # every size is an axis of some input by itself: `resolve_op` sees to that
            if name not in sizes and name.isidentifier():
                sizes[name], origin[name] = int(extent), tensor.name
    for tensor, shape in zip(op.inputs, shapes, strict=True):
        want = tuple(e.evaluate(sizes) for e in tensor.shape)
        if want != tuple(shape):
            names = sorted({v.name for e in tensor.shape for v in e.variables()})
            known = ", ".join(f"{n}={sizes[n]} from {origin[n]}" for n in names if origin[n] != tensor.name)
            raise ArgumentShape(
                f"{tensor.name} has shape {_shape(shape)}; expected {describe(tensor)}" + (f" with {known}" if known else ""),
            )
    for var, expr in op.derived:
        sizes[var.name] = value = expr.evaluate(sizes)
        if value < 0:
            raise SizeRefused(f"{var.name} = {expr} is {value}: a size cannot be negative", help=_sizes(expr, sizes))
    check_conditions(op.conditions, sizes)
    return sizes


def check_conditions(conditions: Iterable[tuple[Expr, str]], sizes: Mapping[str, int]) -> None:
    """Raises SizeRefused for the first condition that does not hold."""
    for expr, text in conditions:
        if expr.evaluate(sizes) < 0:
            raise SizeRefused(f"`{text}` does not hold", help=_sizes(expr, sizes))


def output_shapes(op: Op, sizes: Mapping[str, int]) -> list[tuple[int, ...]]:
    """The shapes of the outputs. Raises SizeRefused where an array would be beyond what memory can address."""
    shapes = []
    for tensor in op.outputs:
        shape = tuple(int(e.evaluate(sizes)) for e in tensor.shape)
        total = tensor.dtype.bytes
        for extent in shape:
            if extent < 0:
                raise SizeRefused(f"{describe(tensor)} would have the shape {_shape(shape)}: a size cannot be negative")
            total *= max(1, extent)
        if total > MOST:
            raise SizeRefused(f"{describe(tensor)} would have the shape {_shape(shape)}: more than memory can address")
        shapes.append(shape)
    return shapes


def _shape(shape: Sequence[int]) -> str:
    return f"({', '.join(map(str, shape))})"


def _sizes(expr: Expr, sizes: Mapping[str, int]) -> str | None:
    shown = ", ".join(f"{v.name} = {sizes[v.name]}" for v in sorted(expr.variables(), key=str) if v.name in sizes)
    return f"here {shown}" if shown else None
