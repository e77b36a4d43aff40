"""From the shapes of the arguments to the sizes of an op, checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ...codegen.ir.tile_ir import Buffer
from ...dsl.errors.run import ArgumentShape, SizeRefused
from ...dsl.index.expr import Expr
from ...dsl.op import Op, Tensor
from ...dsl.semantics.empty_argmax import check_empty_argmax

MOST = (1 << 63) - 1  # sizes and byte counts are 64-bit integers in the emitted text
LARGEST = 1 << 62  # of one size: what is added to round up to whole tiles still fits 64 bits


def tensor_text(t: Tensor) -> str:
    """`A: f32[M, K]`."""
    return str(t)


def bind_sizes(op: Op, shapes: Sequence[tuple[int, ...]], fixed: Mapping[str, int]) -> dict[str, int]:
    """The value of every size of the op, the derived ones too, for inputs of these shapes.

    `fixed` are sizes given at compile time. Raises ArgumentShape naming the tensor, what was expected and from where, and
    SizeRefused for sizes that the op excludes, EmptyArgmax where it would choose from nothing.
    """
    sizes = dict(fixed)
    origin = dict.fromkeys(fixed, "compile time")
    for tensor, shape in zip(op.inputs, shapes, strict=True):
        if len(shape) != len(tensor.shape):
            raise ArgumentShape(
                f"{tensor.name} has shape {_shape(shape)}; expected {_axes(len(tensor.shape))}: {tensor_text(tensor)}"
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
                f"{tensor.name} has shape {_shape(shape)}; expected {tensor_text(tensor)}"
                + (f" with {known}" if known else ""),
            )
    for var, expr in op.derived:
        sizes[var.name] = value = expr.evaluate(sizes)
        if value < 0:
            raise SizeRefused(f"{var.name} = {expr} is {value}: a size cannot be negative", help=_sizes(expr, sizes))
    check_conditions(op.conditions, sizes)
    check_empty_argmax(op, sizes)
    check_countable(op, sizes)
    return sizes


def check_countable(op: Op, sizes: Mapping[str, int]) -> None:
    """Raises SizeRefused where a size, the bytes of a tensor or the points of a statement go beyond 64-bit integers.

    All numbers that the emitted text forms (addresses, numbers of tiles, fused indices) are at most those.
    """
    for name, value in sizes.items():
        if value > LARGEST:
            raise SizeRefused(f"{name} is {value}: sizes go up to 2**62")
    for tensor in op.tensors:
        shape = tuple(int(e.evaluate(sizes)) for e in tensor.shape)
        if _product(tensor.dtype.bytes, shape) > MOST:
            raise SizeRefused(f"{tensor_text(tensor)} would have the shape {_shape(shape)}: more than memory can address")
    for statement in op.statements:
        extents = {i: int(e.evaluate(sizes)) for i, e in statement.ranges}
        if _product(1, extents.values()) > MOST:
            shown = ", ".join(f"{n} of `{i}`" for i, n in extents.items())
            message = f"`{statement.target}` goes over 2**63 points or more: {shown}"
            raise SizeRefused(message, help="split the call: 64-bit integers cannot count them")


def check_workspaces(buffers: Iterable[Buffer], sizes: Mapping[str, int]) -> None:
    """Raises SizeRefused where a kernel's own buffers would be beyond what memory can address."""
    for b in buffers:
        if b.kind == "workspace" and b.size.evaluate(sizes) * b.dtype.bytes > MOST:
            raise SizeRefused(f"the kernel's own buffer `{b.name}` would be more than memory can address")


def _product(first: int, extents: Iterable[int]) -> int:
    """An empty extent is taken for one: addresses along the others are still formed."""
    total = first
    for extent in extents:
        total *= max(1, extent)
    return total


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
        if any(extent < 0 for extent in shape):
            raise SizeRefused(f"{tensor_text(tensor)} would have the shape {_shape(shape)}: a size cannot be negative")
        if _product(tensor.dtype.bytes, shape) > MOST:
            raise SizeRefused(f"{tensor_text(tensor)} would have the shape {_shape(shape)}: more than memory can address")
        shapes.append(shape)
    return shapes


def _axes(count: int) -> str:
    return f"{count} axis" if count == 1 else f"{count} axes"


def _shape(shape: Sequence[int]) -> str:
    return str(tuple(map(int, shape)))


def _sizes(expr: Expr, sizes: Mapping[str, int]) -> str | None:
    shown = ", ".join(f"{v.name} = {sizes[v.name]}" for v in sorted(expr.variables(), key=str) if v.name in sizes)
    return f"here {shown}" if shown else None
