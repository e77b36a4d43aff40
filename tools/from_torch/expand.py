"""Calls that stand for several others, where no op of the library does all of it at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .graph import Array, Node, dense

Parts = list[tuple[Node, int]]  # each with its number of calls


def expand(node: Node) -> Parts:
    """The parts of a call; none where it is not of these."""
    expansion = EXPANSIONS.get(node.operator)
    return expansion(node) if expansion and not node.symbols else []


def _apart_from_bias(inner: int) -> Callable[[Node], Parts]:
    """The call without its bias, and an addition. The bias goes along the axis before the `inner` last ones: -1 for all but
    the first two.
    """

    def parts(node: Node) -> Parts:
        bias, (result,) = node.arguments["bias"], node.results
        if bias is None:
            return []
        row = dense(bias.dtype, *bias.shape, *[1] * (len(result.shape) - 2 if inner < 0 else inner))
        add = Node("aten.add.Tensor", {"self": result, "other": row, "alpha": 1}, (result,))
        return [(Node(node.target, {**node.arguments, "bias": None}, (result,)), 1), (add, 1)]

    return parts


def _addmm(node: Node) -> Parts:
    """`mat1 @ mat2 + self`."""
    if node.arguments["alpha"] != 1 or node.arguments["beta"] != 1:
        return []
    (result,) = node.results
    product = Node("aten.mm", {"self": node.arguments["mat1"], "mat2": node.arguments["mat2"]}, (result,))
    add = Node("aten.add.Tensor", {"self": result, "other": node.arguments["self"], "alpha": 1}, (result,))
    return [(product, 1), (add, 1)]


def _layers(cell: str, states: int) -> Callable[[Node], Parts]:
    """One call of a cell for each step of each layer and direction."""

    def parts(node: Node) -> Parts:
        a = node.arguments
        per_layer = 4 if a["has_biases"] else 2
        params: list[Array] = list(a["params"])
        directions = 2 if a["bidirectional"] else 1
        if len(a["input"].shape) != 3 or len(params) != per_layer * a["num_layers"] * directions:
            return []  # a projection, or a packed sequence
        first, second, _ = a["input"].shape
        steps, count = (second, first) if a["batch_first"] else (first, second)
        made: Parts = []
        for k in range(0, len(params), per_layer):
            w_ih, w_hh, *biases = params[k : k + per_layer]
            hidden, inputs = w_hh.shape[1], w_ih.shape[1]
            state = dense(w_hh.dtype, count, hidden)
            arguments: dict[str, Any] = {
                "input": dense(w_ih.dtype, count, inputs),
                "hx": state if states == 1 else [state] * states,
            }
            arguments |= {
                "w_ih": w_ih,
                "w_hh": w_hh,
                "b_ih": biases[0] if biases else None,
                "b_hh": biases[1] if biases else None,
            }
            made.append((Node(f"aten.{cell}", arguments, (state,) * states), steps))
        return made

    return parts


EXPANSIONS: dict[str, Callable[[Node], Parts]] = {
    "linear": _apart_from_bias(0),
    "conv1d": _apart_from_bias(-1),
    "conv2d": _apart_from_bias(-1),
    "conv3d": _apart_from_bias(-1),
    "convolution": _apart_from_bias(-1),
    "addmm": _addmm,
    "lstm.input": _layers("lstm_cell", 2),
    "gru.input": _layers("gru_cell", 1),
}
