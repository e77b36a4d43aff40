"""From a call of an operator to an op of the library with its sizes, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any

from ...dsl.errors import UserError
from ...dsl.module import std_module
from ...dsl.op import Op
from ...dsl.ops.specialise import bind_params
from ...runtime.arrays.bind_sizes import bind_sizes, output_shapes
from ...runtime.tuning.cluster.task_file import library_ops
from .arguments import NotServed, argument
from .graph import Node
from .memory_order import is_view
from .operands import Operand, View
from .rule import Rule
from .scalars import Number
from .table import DROPOUTS, PERHAPS_VIEWS, RULES, VIEWS


@dataclass(frozen=True)
class Match:
    """An op of the library for a call.

    op      its name
    sizes   the sizes of its inputs, and its parameters
    inputs  what it reads, by the names of the op's inputs
    rule    the row of the table
    """

    op: str
    sizes: Mapping[str, int]
    inputs: Mapping[str, View | float]
    rule: Rule


def match(node: Node) -> Match:
    """The first row of the table that serves the call. Raises NotServed with the reason of the row that came nearest."""
    rows = [rule for rule in RULES if rule.target == node.operator]
    if not rows:
        raise NotServed("the library has no op for it", 9)
    if node.symbols:
        names = ", ".join(f"`{s}`" for s in node.symbols)
        raise NotServed(f"its sizes depend on {names}: export the model for fixed sizes", 0)
    reasons = []
    for rule in rows:
        try:
            return _match(rule, node)
        except NotServed as reason:
            reasons.append(reason)
    raise min(reasons, key=lambda reason: reason.distance)


def moves_nothing(node: Node) -> bool:
    """Whether the call is free: a view, or numbers that are part of the graph."""
    name = node.operator
    if name in VIEWS or (name in DROPOUTS and not node.arguments.get("train")):
        return True
    if name not in PERHAPS_VIEWS or node.symbols or not node.arrays or not node.results:
        return False
    x, y = node.arrays[0], node.results[0]
    if x.dtype != y.dtype:
        return False
    same_order = x.shape != y.shape or all(n == 1 or s == t for n, s, t in zip(x.shape, x.strides, y.strides, strict=True))
    return same_order and (x.shape == y.shape or is_view(x, y.shape))


@cache
def library_op(name: str) -> Op:
    return std_module(library_ops()[name]).ops[name]


def _match(rule: Rule, node: Node) -> Match:
    views = {name: o.view(node) for name, o in rule.inputs.items() if isinstance(o, Operand)}
    _check_conditions(rule, node)
    params = {name: int(n.value(node)) for name, n in rule.params.items()}
    numbers = {name: n.value(node) for name, n in rule.inputs.items() if isinstance(n, Number)}
    op = next((op for op in map(library_op, rule.ops) if _types_agree(op, views, node)), None)
    if op is None:
        raise NotServed(_types_text(rule, node), 0.3)
    try:
        bound = bind_params(op, params)
        sizes = bind_sizes(bound, [views[t.name].shape if t.shape else () for t in op.inputs], {})
        shapes = output_shapes(bound, sizes)
    except UserError as error:
        raise NotServed(f"`{op.name}` does not fit: {error.message}", 0.7) from None
    for shape, result in zip(shapes, node.results, strict=False):
        if prod(shape) != result.elements:
            raise NotServed(f"`{op.name}` does not fit: its result has the shape {shape}, not that of {result}", 0.7)
        if not result.elements:
            raise NotServed("its result is empty", 0.7)
    dims = {d.name: sizes[d.name] for d in op.dims}
    return Match(op.name, dims | params, views | numbers, rule)


def _check_conditions(rule: Rule, node: Node) -> None:
    failed = []
    for name, wanted in rule.when.items():
        if name not in node.arguments:
            continue  # of an operator that shares the row, and has no such argument
        value = argument(node, name)
        if not _holds(wanted, value, node):
            failed.append(f"`{name}` is {value}" if value is not None else f"it has no `{name}`")
    if failed:
        raise NotServed(f"`{rule.ops[0]}` does not fit: {', '.join(failed)}", 0.5 + len(failed))


def _holds(wanted: Any, value: Any, node: Node) -> bool:
    if wanted is ...:
        return True
    if callable(wanted):
        return bool(wanted(value, node))
    if isinstance(wanted, bool) or wanted is None or isinstance(wanted, str):
        return value is wanted or value == wanted
    return all(v == wanted for v in value) if isinstance(value, list | tuple) else value == wanted


def _types_agree(op: Op, views: Mapping[str, View], node: Node) -> bool:
    """Whether the op has the types of the call, as far as they are not converted: of its inputs, and of its first result."""
    inputs = all(t.dtype.name in views[t.name].dtypes for t in op.inputs if t.shape)
    return inputs and op.outputs[0].dtype.name == node.results[0].dtype


def _types_text(rule: Rule, node: Node) -> str:
    ops = [library_op(name) for name in rule.ops]
    known = ", ".join(f"`{op.name}` is for {'/'.join(dict.fromkeys(t.dtype.name for t in op.inputs if t.shape))}" for op in ops)
    return f"{known}; this is {'/'.join(dict.fromkeys(a.dtype for a in (*node.arrays, *node.results)))}"
