"""From a program that PyTorch exported to nodes as plain data, and from a node to its parts in core ATen."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import reduce
from typing import Any

from ...runtime.gpu.arrays import TORCH
from .graph import Array, Node

_NAMES = {torch_name: ours for ours, torch_name in TORCH.items() if ours not in ("tf32", "i4")}


def read_nodes(program: Any) -> list[Node]:
    """The calls of operators, in order, those inside of control flow too. What works on sizes alone is left out."""
    nodes = []
    for module in program.graph_module.modules():
        for n in getattr(getattr(module, "graph", None), "nodes", ()):
            if n.op == "call_function" and hasattr(n.target, "_schema"):
                node = node_of(n)
                if node.results:
                    nodes.append(node)
    return nodes


def node_of(n: Any) -> Node:
    """A call of an operator in a graph of PyTorch's, as plain data."""
    schema = n.target._schema
    arguments = {a.name: _plain(a.default_value) for a in schema.arguments if a.has_default_value()}
    positional = [a.name for a in schema.arguments if not a.kwarg_only]
    arguments |= {name: _plain(value) for name, value in zip(positional, n.args, strict=False)}
    arguments |= {name: _plain(value) for name, value in n.kwargs.items()}
    arguments = {("self" if name == "self_" else name): v for name, v in arguments.items()}
    value = n.meta.get("val")
    results = _plain(list(value) if isinstance(value, list | tuple) else [value])
    return Node(_name(n.target), arguments, tuple(r for r in results if isinstance(r, Array)))


def decompose(node: Node) -> Sequence[Node]:
    """The node's parts in core ATen; none where it is of core ATen, or its sizes do not allow it."""
    import torch  # type: ignore[import-not-found]

    target = _operator(torch, node.target)
    table = _core_decompositions(torch)
    if target is None or target not in table:
        return []

    class Call(torch.nn.Module):
        def forward(self, *tensors: Any) -> Any:
            given = iter(tensors)
            return target(**{name: _filled(v, given) for name, v in node.arguments.items()})

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of PyTorch about itself
            tensors = tuple(_meta(torch, a) for a in node.arrays)
            return read_nodes(torch.export.export(Call(), tensors).run_decompositions(table))
    except Exception:  # any mistake of PyTorch's: the node stays as it is
        return []


def _name(target: Any) -> str:
    """`aten.add.Tensor`; an operator that works in place is the one that does not, as far as its time goes."""
    space, _, name = target._schema.name.partition("::")
    plain = name[:-1] if name.endswith("_") and not name.endswith("__") else name
    overload = target._schema.overload_name
    return ".".join(x for x in (space, plain, overload) if x)


def _operator(torch: Any, name: str) -> Any:
    space, operator, *overload = name.split(".")
    try:
        return reduce(getattr, [space, operator, overload[0] if overload else "default"], torch.ops)
    except (AttributeError, RuntimeError):
        return None


def _core_decompositions(torch: Any) -> Any:
    if hasattr(torch.export, "default_decompositions"):
        return torch.export.default_decompositions()
    from torch._decomp import core_aten_decompositions  # type: ignore[import-not-found]  # before 2.6

    return core_aten_decompositions()


def _plain(value: Any) -> Any:
    """Tensors as `Array`, sizes as numbers or the text of their symbols, the rest as it is."""
    if hasattr(value, "meta") and hasattr(value, "op") and "val" in value.meta:
        return _plain(value.meta["val"])
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if hasattr(value, "dtype") and hasattr(value, "stride"):
        name = str(value.dtype).removeprefix("torch.")
        shape = tuple(_extent(n) for n in value.shape)
        return Array(_NAMES.get(name, name), shape, tuple(_extent(n) for n in value.stride()))
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return _extent(value) if hasattr(value, "node") else value


def _extent(n: Any) -> int | str:
    return n if isinstance(n, int) else str(n)


def _filled(value: Any, tensors: Any) -> Any:
    if isinstance(value, Array):
        return next(tensors)
    return [_filled(v, tensors) for v in value] if isinstance(value, list) else value


def _meta(torch: Any, a: Array) -> Any:
    dtype = getattr(torch, TORCH.get(a.dtype, a.dtype))
    return torch.empty_strided(a.shape, a.strides, dtype=dtype, device="meta")
