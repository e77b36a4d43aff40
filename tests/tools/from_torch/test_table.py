"""The table: its ops are those of the library, and its rows serve calls that are described without PyTorch."""

from __future__ import annotations

import pytest
from andiron.runtime.tuning.cluster.task_file import library_ops
from andiron.tools.from_torch.arguments import NotServed
from andiron.tools.from_torch.graph import Array, Node, dense
from andiron.tools.from_torch.match import library_op, match, moves_nothing
from andiron.tools.from_torch.operands import Operand
from andiron.tools.from_torch.table import RULES


def f32(*shape):
    return dense("f32", *shape)


def turned(x, *order):
    """The array with its axes in another order, in the same memory."""
    return Array(x.dtype, tuple(x.shape[a] for a in order), tuple(x.strides[a] for a in order))


def linear(x, weight, bias=None, result=None):
    arguments = {"input": x, "weight": weight, "bias": bias}
    return Node("aten.linear", arguments, (result or dense(x.dtype, *x.shape[:-1], weight.shape[0]),))


def conv2d(x, weight, result, groups=1, stride=(1, 1), padding=(0, 0), dilation=(1, 1)):
    arguments = {"input": x, "weight": weight, "bias": None, "groups": groups}
    return Node("aten.conv2d", {**arguments, "stride": stride, "padding": padding, "dilation": dilation}, (result,))


def pair(name, x, y, result=None, **more):
    return Node(f"aten.{name}", {"self": x, "other": y, **more}, (result or x,))


def test_rows_name_ops_of_the_library():
    """All inputs of each op, with a tensor for each tensor and a number for each scalar, and all its parameters."""
    for rule in RULES:
        assert rule.ops
        for name in rule.ops:
            assert name in library_ops(), rule.target
            op = library_op(name)
            inputs = {t.name: bool(t.shape) for t in op.inputs}
            assert {n: isinstance(o, Operand) for n, o in rule.inputs.items()} == inputs, (rule.target, name)
            assert rule.params.keys() == dict(op.params).keys(), (rule.target, name)


@pytest.mark.parametrize(
    ("node", "op", "sizes"),
    [
        (linear(f32(2, 5, 7), f32(3, 7), f32(3)), "linear", {"M": 10, "N": 3, "K": 7}),
        (linear(dense("f16", 5, 7), dense("f16", 3, 7), dense("f16", 3)), "linear_f16", {"M": 5, "N": 3, "K": 7}),
        (linear(dense("bf16", 5, 7), dense("bf16", 3, 7)), "gemm_bf16", {"M": 5, "N": 3, "K": 7}),
        (pair("matmul", f32(5, 7), turned(f32(3, 7), 1, 0), f32(5, 3)), "gemm_nt", {"M": 5, "N": 3, "K": 7}),
        (
            conv2d(f32(1, 6, 9, 9), f32(6, 1, 3, 3), f32(1, 6, 5, 5), groups=6, stride=(2, 2), padding=(1, 1)),
            "depthwise_conv2d",
            {"N": 1, "C": 6, "H": 9, "W": 9, "R": 3, "S": 3, "stride": 2, "pad": 1},
        ),
        (pair("add.Tensor", f32(2, 3, 4), f32(3, 4), f32(2, 3, 4), alpha=1), "add_row", {"M": 2, "N": 12}),
        (pair("add.Tensor", f32(1, 8, 4, 4), f32(8, 1, 1), alpha=1), "add_column", {"M": 8, "N": 16}),
        (pair("add.Tensor", f32(3, 4), f32(3, 4), alpha=2), "axpy", {"N": 12}),
        (Node("aten.sum.dim_IntList", {"self": f32(2, 3, 1), "dim": [-2]}, (f32(2, 1),)), "row_sum", {"M": 2, "N": 3}),
        (
            Node("aten.clone", {"self": turned(f32(2, 3, 4), 0, 2, 1), "memory_format": None}, (f32(2, 4, 3),)),
            "permute_021",
            {"A": 2, "B": 3, "C": 4},
        ),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_served(node, op, sizes):
    found = match(node)
    assert (found.op, found.sizes) == (op, sizes)


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        (
            Node("aten.embedding", {"weight": f32(9, 4), "indices": dense("i64", 3)}, (f32(3, 4),)),
            "the library has no op for it",
        ),
        (pair("mul.Tensor", dense("f64", 4), dense("f64", 4)), "`mul` is for f32; this is f64"),
        (pair("mul.Tensor", f32(3, 4), f32(3, 1)), "other has|expected"),
        (
            conv2d(f32(1, 3, 9, 9), f32(4, 3, 3, 3), f32(1, 4, 5, 5), dilation=(2, 2)),
            r"`conv2d` does not fit: `dilation` is \(2, 2\)",
        ),
        (
            conv2d(f32(1, 3, 9, 9), f32(4, 3, 3, 3), f32(1, 4, 4, 7), stride=(2, 1)),
            r"`stride` is \(2, 1\), not the same along all axes",
        ),
        (
            linear(Array("f32", ("s0", 7), (7, 1)), f32(3, 7), f32(3)),
            "its sizes depend on `s0`: export the model for fixed sizes",
        ),
        (Node("aten.softmax.int", {"self": f32(2, 3, 4), "dim": 1}, (f32(2, 3, 4),)), "goes along axis 1 of 3"),
        (Node("aten.amax", {"self": f32(2, 3, 4), "dim": [1]}, (f32(2, 4),)), r"reduces the axes \[1\] of f32\[2, 3, 4\]"),
        (
            Node("aten.reshape", {"self": turned(f32(2, 3, 4, 5), 0, 2, 1, 3), "shape": [-1]}, (f32(120),)),
            "permutes axes to 0, 2, 1, 3",
        ),
    ],
    ids=lambda x: "" if isinstance(x, Node) else x[:20],
)
def test_not_served(node, reason):
    with pytest.raises(NotServed, match=reason):
        match(node)


def test_what_moves_nothing():
    x = f32(2, 3, 4)
    swapped = turned(x, 1, 0, 2)
    assert moves_nothing(Node("aten.permute", {"self": x, "dims": [1, 0, 2]}, (swapped,)))
    assert moves_nothing(Node("aten.reshape", {"self": x, "shape": [6, 4]}, (f32(6, 4),)))
    assert moves_nothing(Node("aten.contiguous", {"self": x}, (x,)))
    assert not moves_nothing(Node("aten.contiguous", {"self": swapped}, (f32(3, 2, 4),)))
    assert not moves_nothing(Node("aten.reshape", {"self": swapped, "shape": [6, 4]}, (f32(6, 4),)))
    assert moves_nothing(Node("aten.dropout", {"input": x, "p": 0.1, "train": False}, (x,)))
    assert not moves_nothing(Node("aten.dropout", {"input": x, "p": 0.1, "train": True}, (x,)))
