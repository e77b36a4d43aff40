"""Which op of the library computes which operator of ATen. To extend it, add a row.

A row names the operator without `aten.`, with its overload (`add.Tensor`; none for `default`), ops of the library that differ
in their types only, and for each input of the op the argument that it comes from, by the name in the operator's schema
(`torch.ops.aten.add.Tensor._schema` shows it). The sizes follow from the shapes. The first row that fits a call serves it.
"""

from __future__ import annotations

from math import isclose
from typing import Any

from .graph import Node
from .operands import (
    along_last,
    array,
    as_many,
    batch,
    before,
    channels_last,
    channelwise,
    flat,
    gate_biases,
    gates,
    grouped,
    heads,
    leading,
    parameter,
    planes,
    reduced,
    rows,
    sample,
    stored,
    transposed,
    transposed_beforehand,
    wide,
)
from .rule import rules
from .scalars import constant, number, ratio, reciprocal, same


def is_usual_scale(scale: Any, node: Node) -> bool:
    """Whether scores are divided by the square root of the number of features."""
    features = node.arguments["query"].shape[-1]
    return scale is None or isclose(scale, features**-0.5)


_LINEAR = (
    *rules("linear", "linear linear_f16", inputs={"X": rows("input"), "W": array("weight"), "b": parameter("bias")}),
    *rules("linear", "gemm_nt gemm_f16_nt", inputs={"A": rows("input"), "B": array("weight")}, when={"bias": None}),
    *rules("linear", "gemm_bf16", inputs={"A": rows("input"), "B": transposed_beforehand("weight")}, when={"bias": None}),
    *rules(
        "addmm", "linear linear_f16",
        inputs={"X": array("mat1"), "W": transposed("mat2"), "b": parameter("self")}, when={"alpha": 1, "beta": 1},
    ),
    *rules(
        "addmm", "gemm_axpby",
        inputs={"A": array("mat1"), "B": array("mat2"), "C0": array("self"), "alpha": number("alpha"), "beta": number("beta")},
    ),
)  # fmt: skip

_PRODUCTS = (
    *rules("mm", "gemm_nt gemm_f16_nt", inputs={"A": array("self"), "B": transposed("mat2")}),
    *rules("mm", "gemm_tn", inputs={"A": transposed("self"), "B": array("mat2")}),
    *rules("mm", "gemm gemm_f16 gemm_bf16 gemm_f64", inputs={"A": array("self"), "B": array("mat2")}),
    *rules("_int_mm", "gemm_i8", inputs={"A": array("self"), "B": array("mat2")}),
    *rules("bmm", "batched_gemm_nt", inputs={"X": array("self"), "Y": transposed("mat2")}),
    *rules("bmm", "batched_gemm batched_gemm_f16", inputs={"X": array("self"), "Y": array("mat2")}),
    *rules("matmul", "dot", inputs={"x": array("self"), "y": array("other")}),
    *rules("matmul", "gemv gemv_f16", inputs={"A": rows("self"), "x": array("other")}),
    *rules("matmul", "gemv_t", inputs={"A": array("other"), "x": array("self")}),
    *rules("matmul", "gemm_nt gemm_f16_nt", inputs={"A": rows("self"), "B": transposed("other")}),
    *rules("matmul", "gemm gemm_f16 gemm_bf16 gemm_f64", inputs={"A": rows("self"), "B": array("other")}),
    *rules("matmul", "batched_gemm_nt", inputs={"X": batch("self"), "Y": transposed("other")}),
    *rules("matmul", "batched_gemm batched_gemm_f16", inputs={"X": batch("self"), "Y": batch("other")}),
    *rules("mv", "gemv gemv_f16", inputs={"A": array("self"), "x": array("vec")}),
    *rules("dot", "dot", inputs={"x": array("self"), "y": array("tensor")}),
    *rules("outer", "outer", inputs={"x": array("self"), "y": array("vec2")}),
)

# Of a bias see `expand`.
_STRIDES = {"stride": same("stride"), "pad": same("padding")}
_ONE_GROUP = {"bias": None, "dilation": 1, "groups": 1, "transposed": False}
_CONVOLUTIONS = (
    *rules(
        "conv2d convolution", "conv2d_nhwc conv2d_nhwc_f16", _STRIDES,
        inputs={"I": channels_last("input"), "F": channels_last("weight")}, when=_ONE_GROUP, order=(0, 3, 1, 2),
    ),
    *rules(
        "conv2d convolution", "conv2d conv2d_f16", _STRIDES,
        inputs={"I": sample("input", 4), "F": array("weight")}, when=_ONE_GROUP,
    ),
    *rules(
        "conv2d convolution", "depthwise_conv2d", _STRIDES,
        inputs={"I": sample("input", 4), "F": channelwise("weight")}, when={**_ONE_GROUP, "groups": ...},
    ),
    *rules(
        "conv2d convolution", "grouped_conv2d", _STRIDES,
        inputs={"I": grouped("input", 1), "F": grouped("weight", 0)}, when={**_ONE_GROUP, "groups": ...},
    ),
    *rules(
        "conv1d convolution", "conv1d", {**_STRIDES, "dilation": same("dilation")},
        inputs={"I": sample("input", 3), "F": array("weight")}, when={**_ONE_GROUP, "dilation": ...},
    ),
    *rules(
        "conv3d convolution", "conv3d", _STRIDES,
        inputs={"I": sample("input", 5), "F": array("weight")}, when=_ONE_GROUP,
    ),
)  # fmt: skip

_POOL = {"size": same("kernel_size"), "stride": same("stride", "kernel_size"), "pad": same("padding")}
_POOLING = (
    *rules("max_pool1d", "max_pool1d", _POOL, inputs={"X": sample("self", 3)}, when={"dilation": 1}),
    *rules("max_pool2d max_pool2d_with_indices", "max_pool2d", _POOL, inputs={"X": sample("self", 4)}, when={"dilation": 1}),
    *rules("max_pool3d max_pool3d_with_indices", "max_pool3d", _POOL, inputs={"X": sample("self", 5)}, when={"dilation": 1}),
    *rules(
        "avg_pool2d", "avg_pool2d", _POOL,
        inputs={"X": sample("self", 4)}, when={"count_include_pad": True, "divisor_override": None},
    ),
    *rules("avg_pool2d", "avg_pool2d", _POOL, inputs={"X": sample("self", 4)}, when={"padding": 0, "divisor_override": None}),
    *rules(
        "adaptive_avg_pool2d _adaptive_avg_pool2d", "global_avg_pool2d",
        inputs={"X": sample("self", 4)}, when={"output_size": 1},
    ),
    *rules("upsample_nearest2d upsample_nearest2d.vec", "upsample2d", {"factor": ratio("input")}, inputs={"X": array("input")}),
)  # fmt: skip

_BATCHNORM = {
    "X": planes("input"), "mean": parameter("running_mean"), "variance": parameter("running_var"), "gain": parameter("weight"),
    "bias": parameter("bias"), "eps": number("eps"),
}  # fmt: skip
_NORMS = (
    *rules("softmax.int", "softmax softmax_f16", inputs={"X": along_last("self")}),
    *rules("_softmax", "softmax softmax_f16", inputs={"X": along_last("self")}, when={"half_to_float": False}),
    *rules("log_softmax.int", "log_softmax", inputs={"X": along_last("self")}),
    *rules("_log_softmax", "log_softmax", inputs={"X": along_last("self")}, when={"half_to_float": False}),
    *rules(
        "layer_norm native_layer_norm", "layernorm layernorm_f16",
        inputs={
            "X": leading("input", "weight"), "gain": parameter("weight"), "bias": parameter("bias"), "eps": number("eps"),
        },
    ),
    *rules(
        "rms_norm", "rmsnorm rmsnorm_f16",
        inputs={"X": leading("input", "weight"), "gain": parameter("weight"), "eps": number("eps", 2.0**-23)},
    ),
    *rules("batch_norm", "batchnorm", inputs=_BATCHNORM, when={"training": False}),
    *rules("_native_batch_norm_legit_no_training", "batchnorm", inputs=_BATCHNORM),
)  # fmt: skip

_SCORES = {"q": batch("query"), "k": batch("key"), "v": batch("value")}
_NO_MASK = {"attn_mask": None, "dropout_p": 0, "is_causal": False, "scale": is_usual_scale}
_ATTENTION = (
    *rules("scaled_dot_product_attention", "attention_f32 attention", inputs=_SCORES, when={**_NO_MASK, "enable_gqa": False}),
    *rules(
        "scaled_dot_product_attention", "causal_attention",
        inputs={**_SCORES, "k": as_many("key", "query")}, when={**_NO_MASK, "is_causal": True, "enable_gqa": False},
    ),
    *rules(
        "scaled_dot_product_attention", "grouped_attention",
        inputs={**_SCORES, "q": heads("query", "key")}, when={**_NO_MASK, "enable_gqa": True},
    ),
)  # fmt: skip

_MAPS = {
    "relu": "relu_map relu_f16", "gelu": "gelu_map gelu_f16", "silu": "silu_map", "sigmoid": "sigmoid_map", "tanh": "tanh_map",
    "exp": "exp_map", "log": "log_map", "sqrt": "sqrt_map", "rsqrt": "rsqrt_map", "abs": "abs_map", "sin": "sin_map",
    "cos": "cos_map", "erf": "erf_map", "neg": "negate",
}  # fmt: skip
_PAIR = {"A": flat("self"), "B": flat("other")}
_ELEMENTWISE = (
    *(row for name, ops in _MAPS.items() if name != "gelu" for row in rules(name, ops, inputs={"X": flat("self")})),
    *rules("gelu", _MAPS["gelu"], inputs={"X": flat("self")}, when={"approximate": "none"}),
    *rules("add.Tensor", "add add_f16 add_bf16 add_f64 add_i32 add_i8", inputs=_PAIR, when={"alpha": 1}),
    *rules("add.Tensor", "add_row", inputs={"X": leading("self", "other"), "b": flat("other")}, when={"alpha": 1}),
    *rules("add.Tensor", "add_row", inputs={"X": leading("other", "self"), "b": flat("self")}, when={"alpha": 1}),
    *rules("add.Tensor", "add_column", inputs={"X": before("self", "other"), "b": flat("other")}, when={"alpha": 1}),
    *rules("add.Tensor", "add_column", inputs={"X": before("other", "self"), "b": flat("self")}, when={"alpha": 1}),
    *rules("add.Tensor", "axpy", inputs={"alpha": number("alpha"), "X": flat("other"), "Y": flat("self")}),
    *rules("sub.Tensor", "sub", inputs=_PAIR, when={"alpha": 1}),
    *rules("mul.Tensor", "mul", inputs=_PAIR),
    *rules("mul.Tensor mul.Scalar", "scale", inputs={"alpha": number("other"), "X": flat("self")}),
    *rules("div.Tensor", "div", inputs=_PAIR),
    *rules("div.Tensor div.Scalar", "scale", inputs={"alpha": reciprocal("other"), "X": flat("self")}),
    *rules("maximum max.other", "maximum", inputs=_PAIR),
    *rules("minimum min.other", "minimum", inputs=_PAIR),
    *rules("pow.Tensor_Scalar", "mul", inputs={"A": flat("self"), "B": flat("self")}, when={"exponent": 2}),
    *rules("clamp", "clamp", inputs={"X": flat("self"), "low": number("min"), "high": number("max")}),
    *rules("hardtanh", "clamp", inputs={"X": flat("self"), "low": number("min_val"), "high": number("max_val")}),
    *rules("relu6", "clamp", inputs={"X": flat("self"), "low": constant(0), "high": constant(6)}),
    *rules("leaky_relu", "leaky_relu", inputs={"X": flat("self"), "slope": number("negative_slope")}),
    *rules("where.self", "select", inputs={"c": flat("condition"), "A": flat("self"), "B": flat("other")}),
    *rules("to.dtype _to_copy", "cast_f32_f16 cast_f16_f32", inputs={"X": flat("self")}),
)

_REDUCTIONS = (
    *(
        row
        for target, dims, kind in (
            ("sum.dim_IntList", "dim", "sum"),
            ("mean.dim", "dim", "mean"),
            ("amax", "dim", "max"),
            ("amin", "dim", "min"),
        )
        for row in (
            *rules(
                target,
                f"row_{kind}" + (" row_sum_f16 row_sum_i8" if kind == "sum" else ""),
                inputs={"X": reduced("self", dims, "rows")},
            ),
            *rules(target, f"col_{kind}", inputs={"X": reduced("self", dims, "columns")}),
            *rules(target, f"full_{kind}", inputs={"X": reduced("self", dims, "all")}),
        )
    ),
    *rules("sum", "vector_sum vector_sum_f64", inputs={"X": flat("self")}),
    *rules("mean", "full_mean", inputs={"X": rows("self")}),
    *rules("max", "full_max", inputs={"X": rows("self")}),
    *rules("min", "full_min", inputs={"X": rows("self")}),
    *rules("argmax", "row_argmax", inputs={"X": reduced("self", "dim", "rows")}),
    *rules("argmax", "full_argmax", inputs={"X": reduced("self", "dim", "all")}),
    *rules("argmin", "row_argmin", inputs={"X": reduced("self", "dim", "rows")}),
    *rules("prod.dim_int", "row_prod", inputs={"X": reduced("self", "dim", "rows")}),
    *rules("any.dim any.dims", "row_any", inputs={"X": reduced("self", "dim", "rows")}),
    *rules("all.dim all.dims", "row_all", inputs={"X": reduced("self", "dim", "rows")}),
    *rules("logsumexp", "row_logsumexp", inputs={"X": reduced("self", "dim", "rows")}),
    *rules("linalg_vector_norm", "row_norm", inputs={"X": reduced("self", "dim", "rows")}, when={"ord": 2}),
)

_COPYING = "clone contiguous reshape flatten.using_ints _unsafe_view expand_copy"
_COPIES = (
    *rules(_COPYING, "copy", inputs={"X": stored("self", (0,))}),
    *rules(_COPYING, "transpose transpose_f16", inputs={"X": stored("self", (1, 0))}),
    *rules(_COPYING, "permute_021", inputs={"X": stored("self", (0, 2, 1))}),
    *rules(_COPYING, "permute_102", inputs={"X": stored("self", (1, 0, 2))}),
    *rules(_COPYING, "permute_210", inputs={"X": stored("self", (2, 1, 0))}),
    *rules("tril", "tril", inputs={"X": array("self")}, when={"diagonal": 0}),
    *rules("flip", "reverse", inputs={"X": array("self")}),
)

_CELLS = (
    *rules(
        "lstm_cell", "lstm_cell lstm_cell_f16",
        inputs={
            "x": array("input"), "h": array("hx.0"), "c": wide("hx.1"), "W": gates("w_ih", 4), "U": gates("w_hh", 4),
            "b": gate_biases(4, "b_ih", "b_hh"),
        },
    ),
    *rules(
        "gru_cell", "gru_cell gru_cell_f16",
        inputs={
            "x": array("input"), "h": array("hx"), "W": gates("w_ih", 3), "U": gates("w_hh", 3),
            "b": gate_biases(3, "b_ih"), "d": gate_biases(3, "b_hh"),
        },
    ),
)  # fmt: skip

RULES = (
    *_LINEAR, *_PRODUCTS, *_CONVOLUTIONS, *_POOLING, *_NORMS, *_ATTENTION, *_ELEMENTWISE, *_REDUCTIONS, *_COPIES, *_CELLS,
)  # fmt: skip

# They move nothing: views, the numbers of a graph, and what does nothing when a model is only evaluated.
_VIEWS = """
    view permute transpose.int t expand unsqueeze squeeze squeeze.dim squeeze.dims slice.Tensor select.int split.Tensor
    split.sizes split_with_sizes chunk unbind.int alias detach lift_fresh_copy unflatten.int movedim.int moveaxis.int narrow
    view_as expand_as diagonal unfold numpy_T mT adjoint as_strided swapaxes swapdims tensor_split.sections
"""
_NUMBERS = """
    zeros ones full empty.memory_format arange arange.start arange.start_step scalar_tensor zeros_like ones_like full_like
    empty_like new_zeros new_ones new_full new_empty
"""
VIEWS = frozenset(f"{_VIEWS} {_NUMBERS}".split())
# They move nothing where the result is as memory has the tensor, and so a view of it.
PERHAPS_VIEWS = frozenset({"contiguous", "reshape", "flatten.using_ints", "to.dtype", "to.device", "to.dtype_layout"})
# In training, that is no matter of views.
DROPOUTS = frozenset({"dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout"})
