"""The rows of the table compute what PyTorch computes: each op of the library, on the inputs of a node of a graph."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import andiron
import numpy as np
import pytest
from andiron.dsl.module import std_module
from andiron.runtime.tuning.cluster.task_file import library_ops
from andiron.tools.from_torch.arguments import argument
from andiron.tools.from_torch.match import library_op, match, moves_nothing
from andiron.tools.from_torch.operands import Operand
from andiron.tools.from_torch.read_graph import node_of


@pytest.fixture(autouse=True)
def torch():
    return pytest.importorskip("torch", reason="PyTorch is not installed")


def calls_of(torch, model, inputs):
    """The calls of a graph, each with the values of its arguments and its result, as the graph runs."""
    with torch.no_grad():
        program = torch.export.export(model.eval(), inputs).module()
    found = []

    def copied(x):
        return x.clone() if isinstance(x, torch.Tensor) else x  # some operators work in place

    class Recorder(torch.fx.Interpreter):
        def run_node(self, n):
            args, kwargs = torch.utils._pytree.tree_map(copied, self.fetch_args_kwargs_from_env(n))
            result = super().run_node(n)
            if n.op == "call_function" and hasattr(n.target, "_schema"):
                values = dict(zip((a.name for a in n.target._schema.arguments), args, strict=False)) | kwargs
                found.append((node_of(n), values, torch.utils._pytree.tree_map(copied, result)))
            return result

    with torch.no_grad():
        Recorder(program).run(*inputs)
    return [(node, values, result) for node, values, result in found if node.results and not moves_nothing(node)]


def arrays_of(torch, m, values):
    """What the op reads, from the values of the call's arguments."""
    call = SimpleNamespace(arguments=values)
    arrays = []
    for tensor in library_op(m.op).inputs:
        source, view = m.rule.inputs[tensor.name], m.inputs[tensor.name]
        if isinstance(source, Operand):
            x = sum(argument(call, name) for name in source.names)
            x = x.permute(view.axes) if view.axes else x
            x = x.detach().reshape(view.shape)
            arrays.append((x.float() if x.dtype == torch.bfloat16 else x).numpy().astype(tensor.dtype.numpy))
        elif view == view:
            arrays.append(np.asarray(view, tensor.dtype.numpy))
        else:  # the number is a tensor
            arrays.append(argument(call, "other").numpy())
    return arrays


def check(torch, function, *inputs, op=None, kernel=False):
    """Each call in the graph of a function is served, and has PyTorch's results. The ops of the library, in order.

    op      what they must be, with spaces between them
    kernel  whether they are compiled; otherwise NumPy computes their meaning
    """

    class Model(torch.nn.Module):
        def forward(self, *tensors):
            return function(*tensors)

    model = function if isinstance(function, torch.nn.Module) else Model()
    ops = []
    for node, values, result in calls_of(torch, model, inputs):
        m = match(node)
        ops.append(m.op)
        computed = library_op(m.op)
        params = {name: m.sizes[name] for name, _ in computed.params}
        arrays = arrays_of(torch, m, values)
        if kernel:
            found = andiron.compile(std_module(library_ops()[m.op]), m.op, sizes=params)(*arrays)
        else:
            found = andiron.reference(computed)(*arrays, **params)
        found = np.asarray(found[0] if isinstance(found, tuple) else found)
        found = found.astype(np.float32) if computed.outputs[0].dtype.name == "bf16" else found
        wanted = result[0] if isinstance(result, tuple | list) else result
        tolerance = {"f16": 4e-3, "bf16": 3e-2}.get(str(computed.outputs[0].dtype), 2e-5)
        order = m.rule.order
        found = torch.as_tensor(np.ascontiguousarray(np.transpose(found, order) if order else found))
        torch.testing.assert_close(found.reshape(wanted.shape).to(wanted.dtype), wanted, rtol=tolerance, atol=tolerance)
    if op is not None:
        assert ops == op.split(), ops
    return ops


def test_products(torch):
    a, b, v = torch.randn(5, 7), torch.randn(7, 3), torch.randn(7)
    x, y = torch.randn(2, 3, 4, 5), torch.randn(2, 3, 5, 6)
    check(torch, lambda a, b: a @ b, a, b, op="gemm")
    check(torch, lambda a, b: a @ b.T, a, b.T.contiguous(), op="gemm_nt")
    check(torch, lambda a, b: torch.mm(a.T, b), a.T.contiguous(), b, op="gemm_tn")
    check(torch, lambda a, b: a @ b, a.half(), b.half(), op="gemm_f16")
    check(torch, lambda a, b: a @ b, a.bfloat16(), b.bfloat16(), op="gemm_bf16")
    check(torch, lambda a, b: a @ b, a.double(), b.double(), op="gemm_f64")
    check(torch, lambda a, b: torch._int_mm(a, b), (a * 9).char(), (b * 9).char(), op="gemm_i8")
    check(torch, lambda x, y: x @ y, x, y, op="batched_gemm")
    check(torch, lambda x, y: x @ y.transpose(-1, -2), x, y.transpose(-1, -2).contiguous(), op="batched_gemm_nt")
    check(torch, lambda x, y: torch.bmm(x, y), x[0], y[0], op="batched_gemm")
    check(torch, lambda x, b: x @ b, torch.randn(2, 5, 7), b, op="gemm")
    check(torch, lambda a, v: a @ v, a, v, op="gemv")
    check(torch, lambda v, b: v @ b, v, b, op="gemv_t")
    check(torch, lambda v, w: v @ w, v, v + 1, op="dot")
    check(torch, lambda v, w: torch.outer(v, w), v, torch.randn(3), op="outer")
    check(torch, lambda c, a, b: torch.addmm(c, a, b, alpha=2.0, beta=0.5), torch.randn(5, 3), a, b, op="gemm_axpby")
    check(torch, lambda c, a, b: torch.addmm(c, a, b.T), torch.randn(3), a, b.T.contiguous(), op="linear")


def test_linear(torch):
    x = torch.randn(2, 5, 7)
    check(torch, torch.nn.Linear(7, 3), x, op="linear")
    check(torch, torch.nn.Linear(7, 3, bias=False), x, op="gemm_nt")
    check(torch, torch.nn.Linear(7, 3).half(), x.half(), op="linear_f16")
    check(torch, torch.nn.Linear(7, 3, bias=False).bfloat16(), x.bfloat16(), op="gemm_bf16")


def test_convolutions(torch):
    x, conv = torch.randn(2, 6, 9, 8), torch.nn.Conv2d
    check(torch, conv(6, 4, 3, 2, 1, bias=False), x, op="conv2d")
    check(torch, conv(6, 4, 3, 2, 1, bias=False), x[0], op="conv2d")
    check(torch, conv(6, 4, (3, 1), padding=0, bias=False).half(), x.half(), op="conv2d_f16")
    check(torch, conv(6, 6, 3, 2, 1, groups=6, bias=False), x, op="depthwise_conv2d")
    check(torch, conv(6, 9, 3, 1, 1, groups=3, bias=False), x, op="grouped_conv2d")
    check(torch, conv(6, 12, 3, 1, 1, groups=6, bias=False), x, op="grouped_conv2d")
    check(torch, torch.nn.Conv1d(6, 4, 3, 2, 2, dilation=2, bias=False), x[:, :, 0], op="conv1d")
    check(torch, torch.nn.Conv3d(2, 4, 3, 2, 1, bias=False), torch.randn(1, 2, 5, 6, 7), op="conv3d")
    last = {"memory_format": torch.channels_last}
    check(torch, conv(6, 4, 3, 2, 1, bias=False).to(**last), x.to(**last), op="conv2d_nhwc")


def test_pooling(torch):
    nn, x = torch.nn, torch.randn(2, 3, 9, 8)
    check(torch, nn.MaxPool2d(3, 2, 1), x, op="max_pool2d")
    check(torch, nn.MaxPool1d(2), x[0], op="max_pool1d")
    check(torch, nn.MaxPool3d(2), torch.randn(1, 2, 4, 5, 6), op="max_pool3d")
    check(torch, nn.AvgPool2d(3, 2, 1), x, op="avg_pool2d")
    check(torch, nn.AvgPool2d(2, count_include_pad=False), x, op="avg_pool2d")
    check(torch, nn.AdaptiveAvgPool2d(1), x, op="global_avg_pool2d")
    check(torch, nn.Upsample(scale_factor=2), x, op="upsample2d")


def test_norms(torch):
    nn, x = torch.nn, torch.randn(2, 5, 8)
    check(torch, lambda x: torch.softmax(x, -1), x, op="softmax")
    check(torch, lambda x: torch.softmax(x, 2), x.half(), op="softmax_f16")
    check(torch, lambda x: torch.log_softmax(x, -1), x, op="log_softmax")
    check(torch, nn.LayerNorm(8), x, op="layernorm")
    check(torch, nn.LayerNorm((5, 8)), x, op="layernorm")
    check(torch, nn.LayerNorm(8).half(), x.half(), op="layernorm_f16")
    check(torch, nn.RMSNorm(8), x, op="rmsnorm")
    check(torch, nn.RMSNorm(8, eps=1e-3).half(), x.half(), op="rmsnorm_f16")
    norm = nn.BatchNorm2d(5)
    norm.running_mean += torch.randn(5)
    norm.weight.data += torch.randn(5)
    check(torch, norm, torch.randn(2, 5, 3, 4), op="batchnorm")
    check(torch, nn.BatchNorm1d(5), x, op="batchnorm")
    check(torch, nn.BatchNorm1d(5), torch.randn(6, 5), op="batchnorm")


def test_attention(torch):
    attention = torch.nn.functional.scaled_dot_product_attention
    q, k, v = torch.randn(2, 4, 6, 8), torch.randn(2, 4, 7, 8), torch.randn(2, 4, 7, 8)
    check(torch, attention, q, k, v, op="attention_f32")
    check(torch, attention, q.half(), k.half(), v.half(), op="attention")
    check(torch, lambda q, k, v: attention(q, k, v, is_causal=True), k, k + 1, v, op="causal_attention")
    few = lambda q, k, v: attention(q, k, v, enable_gqa=True, scale=8**-0.5)  # noqa: E731
    check(torch, few, q, k[:, :2].contiguous(), v[:, :2].contiguous(), op="grouped_attention")


def test_elementwise(torch):
    x, y, row, column = torch.rand(3, 4) + 0.5, torch.rand(3, 4) + 1, torch.rand(4), torch.rand(3, 1)
    maps = ("relu", "sigmoid", "tanh", "exp", "log", "sqrt", "rsqrt", "abs", "sin", "cos", "erf")
    for name in maps:
        check(torch, getattr(torch, name), x, op=f"{name}_map")
    for name in ("gelu", "silu"):
        check(torch, getattr(torch.nn.functional, name), x, op=f"{name}_map")
    check(torch, lambda x: -x, x, op="negate")
    check(torch, lambda x, y: (x + y) - y, x, y, op="add sub")
    check(torch, lambda x, y: torch.add(x, y, alpha=3), x, y, op="axpy")
    check(torch, lambda x, y: x * y / x, x, y, op="mul div")
    check(torch, lambda x: x * 3 / 4, x, op="scale scale")
    check(torch, lambda x, y: torch.maximum(x, torch.minimum(x, y)), x, y, op="minimum maximum")
    check(torch, lambda x: (x**2).clamp(0.6, 0.8), x, op="mul clamp")
    check(torch, lambda x: torch.nn.functional.relu6(x * 9), x, op="scale clamp")
    check(torch, lambda x: torch.nn.functional.leaky_relu(x, 0.1), x - 1, op="leaky_relu")
    check(torch, lambda c, x, y: torch.where(c, x, y), x > y, x, y, op="select")
    check(torch, lambda x, r: x + r + x, x, row, op="add_row add")
    check(torch, lambda x, r: r + x, x, row, op="add_row")
    check(torch, lambda x, c: x + c, x, column, op="add_column")
    check(torch, lambda x, c: c + x, x[None], column[None], op="add_column")
    check(torch, lambda x: x.half().float(), x, op="cast_f32_f16 cast_f16_f32")
    check(torch, lambda x, y: x + y, x.bfloat16(), y.bfloat16(), op="add_bf16")


def test_reductions(torch):
    x = torch.randn(3, 4, 5)
    for name in ("sum", "mean", "amax", "amin"):
        kind = name.removeprefix("a")
        check(torch, partial(getattr(torch, name), dim=(-1, -2)), x, op=f"row_{kind}")
        check(torch, partial(getattr(torch, name), dim=(0,), keepdim=True), x, op=f"col_{kind}")
        check(torch, partial(getattr(torch, name), dim=(0, 1, 2)), x, op=f"full_{kind}")
    check(torch, lambda x: torch.mean(x[:1], 1), x, op="col_mean")
    check(torch, lambda x: x.sum() + x.mean(), x, op="vector_sum full_mean add")
    check(torch, lambda x: x.max() + x.min(), x, op="full_max full_min add")
    check(torch, lambda x: torch.argmax(x, -1), x, op="row_argmax")
    check(torch, lambda x: torch.argmax(x), x, op="full_argmax")
    check(torch, lambda x: torch.argmin(x, -1), x, op="row_argmin")
    check(torch, lambda x: torch.prod(x, -1), x, op="row_prod")
    check(torch, lambda x: torch.any(x, -1), x > 1, op="row_any")
    check(torch, lambda x: torch.all(x, -1), x > -1, op="row_all")
    check(torch, lambda x: torch.logsumexp(x, -1), x, op="row_logsumexp")
    check(torch, lambda x: torch.linalg.vector_norm(x, dim=-1), x, op="row_norm")


def test_copies(torch):
    x = torch.randn(3, 4, 5)
    assert check(torch, lambda x: x.reshape(12, 5).contiguous().view(60), x) == []
    check(torch, lambda x: x.clone(), x, op="copy")
    check(torch, lambda x: x.permute(2, 0, 1).contiguous(), x, op="transpose")
    check(torch, lambda x: x.permute(1, 2, 0).reshape(60), x.half(), op="transpose_f16")
    check(torch, lambda x: x.transpose(1, 2).contiguous(), x, op="permute_021")
    check(torch, lambda x: x.transpose(0, 1).flatten(1), x, op="permute_102")
    check(torch, lambda x: x.permute(2, 1, 0).reshape(-1), x, op="permute_210")
    check(torch, lambda x: x[None].permute(0, 2, 1, 3).reshape(4, 15), x, op="permute_102")
    check(torch, lambda x: torch.tril(x), x[0], op="tril")
    check(torch, lambda x: torch.flip(x, [0]), x[0, 0], op="reverse")


def test_cells(torch):
    x = torch.randn(2, 4)
    check(torch, torch.nn.LSTMCell(4, 3), x, (torch.randn(2, 3), torch.randn(2, 3)), op="lstm_cell")
    check(torch, torch.nn.GRUCell(4, 3), x, torch.randn(2, 3), op="gru_cell")


def test_a_model_with_kernels(torch):
    """A layer of a transformer and a part of a network of convolutions, run by compiled kernels."""
    nn = torch.nn
    torch.backends.mha.set_fastpath_enabled(False)
    layer = nn.TransformerEncoderLayer(32, 4, 48, batch_first=True, activation="gelu")
    ops = check(torch, layer, torch.randn(2, 5, 32), kernel=True)
    assert {*ops} >= {"linear", "attention_f32", "layernorm", "gelu_map", "add"}
    block = nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1),
        nn.Conv2d(8, 8, 3, 1, 1, groups=8, bias=False), nn.Hardtanh(), nn.Conv2d(8, 4, 1, bias=False), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(4, 5), nn.Softmax(-1),
    )  # fmt: skip
    ops = check(torch, block, torch.randn(2, 3, 17, 16), kernel=True)
    assert len({*ops}) == 9
