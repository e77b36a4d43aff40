"""Every op of the library means what an independent NumPy formula says, at odd sizes, at 1 and at 0."""

import math
import warnings

import numpy as np
import pytest
from andiron.dsl.ops.specialise import bind_params
from andiron.dsl.semantics.reference import reference
from andiron.dsl.types import TYPES

from ..support.library.ops import OPS, POSITIVE, shapes, values

erf = np.vectorize(math.erf, otypes=[float])
f64 = np.float64


def F(x):
    """The values in float64 (integers in int64)."""
    x = np.asarray(x)
    return x.astype(np.int64) if x.dtype.kind in "iu" else x if x.dtype.kind == "b" else x.astype(f64)


def sigmoid(x):
    return 0.5 * (np.tanh(x / 2) + 1)


def gelu(x):
    return 0.5 * x * (1 + erf(x / math.sqrt(2)))


def ein(spec):
    return lambda *xs: np.einsum(spec, *xs)


def tf32(x):
    bits = np.asarray(x, np.float32).view(np.uint32).astype(np.int64)
    return ((bits + 0xFFF + ((bits >> 13) & 1)) >> 13 << 13).astype(np.uint32).view(np.float32).astype(f64)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True, initial=-np.inf))
    return e / e.sum(-1, keepdims=True)


def scores(q, k):
    return np.einsum("...id,...td->...it", q, k) / math.sqrt(q.shape[-1])


def attend(q, k, v, mask=None, rounded=np.asarray):
    s = scores(q, k) if mask is None else np.where(mask, scores(q, k), -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True, initial=-np.inf))
    return np.einsum("...it,...td->...id", rounded(p), v) / p.sum(-1, keepdims=True)


def log_sum_exp(q, k):
    s = scores(q, k)
    m = s.max(-1, initial=-np.inf)
    return m + np.log(np.exp(s - m[..., None]).sum(-1))


def attention_backward(q, k, v, o, lse, grad):
    """By the chain rule, with the whole matrix of the softmax."""
    p = np.exp(scores(q, k) - lse[..., None])
    ds = p * (grad @ v.transpose(0, 2, 1) - (grad * o).sum(-1, keepdims=True)) / math.sqrt(q.shape[-1])
    return ds @ k, ds.transpose(0, 2, 1) @ q, p.transpose(0, 2, 1) @ grad


def causal(q, k, v):
    n, t = q.shape[1], k.shape[1]
    return attend(q, k, v, np.tri(n, t, t - n, dtype=bool))


def latent(attention):
    """Features that all heads share are some more of each: one product over both."""

    def of(q, k, qr, kr, v):
        shared = np.broadcast_to(kr, (len(k), *kr.shape))
        return attention(np.concatenate([q, qr], -1), np.concatenate([k, shared], -1), v)

    return of


def layernorm(x, gain, bias, eps):
    return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + eps) * gain + bias


def rmsnorm(x, gain, eps):
    return x / np.sqrt((x * x).mean(1, keepdims=True) + eps) * gain


def grouped(a, b, scale, group=32):
    rows = np.concatenate([np.repeat(scale, group, 0), np.zeros((len(b), b.shape[1]))])[: len(b)]
    return a @ (b * rows).astype(np.float16).astype(f64)


def gru(x, h, w, u, b, d):
    a, r = x @ w.transpose(0, 2, 1) + b[:, None], h @ u.transpose(0, 2, 1) + d[:, None]
    z = sigmoid(a[1] + r[1])
    return (1 - z) * np.tanh(a[2] + sigmoid(a[0] + r[0]) * r[2]) + z * h


def lstm(x, h, c, w, u, b):
    i, f, g, o = x @ w.transpose(0, 2, 1) + h @ u.transpose(0, 2, 1) + b[:, None]
    cell = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(cell), cell


def windows(x, size, stride, pad, fill=0, dilation=1):
    """[..., windows along each of the last len(size) axes, ..., offsets in each]."""
    n = len(size)
    x = np.pad(x, [(0, 0)] * (x.ndim - n) + [(pad, pad)] * n, constant_values=fill)
    reach = [dilation * (s - 1) + 1 for s in size]
    view = np.lib.stride_tricks.sliding_window_view(x, reach, tuple(range(x.ndim - n, x.ndim)))
    lead = x.ndim - n
    return view[(slice(None),) * lead + (slice(None, None, stride),) * n + (slice(None, None, dilation),) * n]


def conv(spec, n):
    def run(x, f, stride=1, pad=0, dilation=1):
        return np.einsum(spec, windows(x, f.shape[-n:], stride, pad, dilation=dilation), f)

    return run


def conv_nhwc(x, f, stride=1, pad=0):
    return conv("ncpqrs,ocrs->npqo", 2)(x.transpose(0, 3, 1, 2), f.transpose(0, 3, 1, 2), stride, pad)


def pool(n, reduce, fill=0):
    def run(x, size=2, stride=2, pad=0):
        return reduce(windows(x, (size,) * n, stride, pad, fill), axis=tuple(range(-n, 0)))

    return run


def stencil(*ranks):
    def run(x, a, b):
        p = np.pad(x, 1)
        core = tuple(slice(1, -1) for _ in x.shape)
        out = a * x
        for axis in range(x.ndim):
            for shift in (-1, 1):
                out = out + b * np.roll(p, shift, axis)[core]
        return out

    return run


def wrap8(x):
    return (x + 128) % 256 - 128


FORMULAS = {
    **dict.fromkeys([n for n in OPS if n.startswith("gemm")], np.matmul),  # those stored otherwise follow
    "gemm_tn": lambda a, b: a.T @ b,
    "gemm_nt": lambda a, b: a @ b.T,
    "gemm_tt": lambda a, b: a.T @ b.T,
    "gemm_f16_nt": lambda a, b: a @ b.T,
    "gemm_tf32": lambda a, b: tf32(a) @ tf32(b),
    "gemm_f16_i8": lambda a, b, s: a @ b * s,
    "gemm_f16_i4": grouped,
    "gemm_axpby": lambda a, b, c, alpha, beta: alpha * (a @ b) + beta * c,
    "gemv": lambda a, x: a @ x,
    "gemv_t": lambda a, x: x @ a,
    "gemv_f16": lambda a, x: a @ x,
    "dot": lambda x, y: x @ y,
    "outer": np.outer,
    "batched_gemm": lambda x, y: x @ y,
    "batched_gemm_f16": lambda x, y: x @ y,
    "batched_gemm_nt": lambda x, y: x @ y.transpose(0, 2, 1),
    "linear": lambda x, w, b: x @ w.T + b,
    "linear_f16": lambda x, w, b: x @ w.T + b,
    "linear_relu": lambda x, w, b: np.maximum(x @ w.T + b, 0),
    "linear_gelu": lambda x, w, b: gelu(x @ w.T + b),
    "linear_gelu_f16": lambda x, w, b: gelu(x @ w.T + b),
    "conv1d": conv("ncqs,ocs->noq", 1),
    "conv2d": conv("ncpqrs,ocrs->nopq", 2),
    "conv2d_f16": conv("ncpqrs,ocrs->nopq", 2),
    "conv2d_i8": conv("ncpqrs,ocrs->nopq", 2),
    "conv2d_nhwc": conv_nhwc,
    "conv2d_nhwc_f16": conv_nhwc,
    "conv2d_bias_relu": lambda x, f, b, **p: np.maximum(conv("ncpqrs,ocrs->nopq", 2)(x, f, **p) + b[:, None, None], 0),
    "depthwise_conv2d": conv("ncpqrs,crs->ncpq", 2),
    "grouped_conv2d": conv("ngcpqrs,gocrs->ngopq", 2),
    "separable_conv2d": lambda x, f, g, **p: np.einsum("ncpq,oc->nopq", conv("ncpqrs,crs->ncpq", 2)(x, f, **p), g),
    "separable_conv2d_nhwc_f16": lambda x, f, g, **p: (
        conv("ncpqrs,crs->npqc", 2)(x.transpose(0, 3, 1, 2), f.transpose(2, 0, 1), **p) @ g.T
    ),
    "gru_cell": gru,
    "gru_cell_f16": gru,
    "lstm_cell": lstm,
    "lstm_cell_f16": lstm,
    "conv3d": conv("nczpqtrs,octrs->nozpq", 3),
    "max_pool1d": pool(1, np.max, -np.inf),
    "max_pool2d": pool(2, np.max, -np.inf),
    "max_pool3d": pool(3, np.max, -np.inf),
    "avg_pool2d": pool(2, np.mean),
    "global_avg_pool2d": lambda x: x.mean((2, 3)),
    "upsample2d": lambda x, factor=2: x.repeat(factor, 2).repeat(factor, 3),
    "relu_map": lambda x: np.maximum(x, 0),
    "relu_f16": lambda x: np.maximum(x, 0),
    "gelu_map": gelu,
    "gelu_f16": gelu,
    "silu_map": lambda x: x * sigmoid(x),
    "sigmoid_map": sigmoid,
    "erf_map": erf,
    "rsqrt_map": lambda x: 1 / np.sqrt(x),
    **{f"{n}_map": getattr(np, n) for n in ["tanh", "exp", "log", "sqrt", "abs", "sin", "cos"]},
    "negate": np.negative,
    **dict.fromkeys(["add", "add_f64", "add_f16", "add_bf16", "add_i32"], np.add),
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "add_i8": lambda a, b: wrap8(a + b),
    "add_saturated_i8": lambda a, b: np.clip(a + b, -128, 127),
    "maximum": np.maximum,
    "minimum": np.minimum,
    "axpy": lambda alpha, x, y: alpha * x + y,
    "scale": lambda alpha, x: alpha * x,
    "clamp": lambda x, low, high: np.minimum(np.maximum(x, low), high),
    "select": np.where,
    "leaky_relu": lambda x, slope: np.where(x > 0, x, slope * x),
    "triad": lambda b, c, q: b + q * c,
    "swiglu": lambda g, u: g * sigmoid(g) * u,
    "add_row": lambda x, b: x + b,
    "add_column": lambda x, b: x + b[:, None],
    "cast_f32_f16": lambda x: x,
    "cast_f16_f32": lambda x: x,
    "quantise_i8": lambda x, scale: np.clip(np.rint(x / scale), -128, 127),
    "dequantise_i8": lambda x, scale: x * scale,
    **{f"row_{n}": (lambda x, n=n: getattr(np, n)(x, 1, **_START.get(n, {}))) for n in ("sum", "max", "min", "prod", "mean")},
    **{f"col_{n}": (lambda x, n=n: getattr(np, n)(x, 0, **_START.get(n, {}))) for n in ("sum", "max", "min", "mean")},
    **{f"full_{n}": (lambda x, n=n: getattr(np, n)(x, **_START.get(n, {}))) for n in ("sum", "max", "min", "mean")},
    "vector_sum": np.sum,
    "vector_sum_f64": np.sum,
    "row_sum_f16": lambda x: x.sum(1),
    "row_sum_i8": lambda x: x.sum(1),
    "row_max_i32": lambda x: x.max(1, initial=-(2**31)),
    "row_any": lambda x: x.any(1),
    "row_all": lambda x: x.all(1),
    "row_count_positive": lambda x: (x > 0).sum(1),
    "row_argmax": lambda x: x.argmax(1),
    "row_argmin": lambda x: x.argmin(1),
    "full_argmax": lambda x: x.argmax(),
    "row_norm": lambda x: np.sqrt((x * x).sum(1)),
    "row_logsumexp": lambda x: np.log(np.exp(x).sum(1)),
    "row_moments": lambda x: (x.mean(1), x.var(1)),
    "softmax": softmax,
    "softmax_f16": softmax,
    "log_softmax": lambda x: np.log(softmax(x)),
    "layernorm": layernorm,
    "layernorm_f16": layernorm,
    "rmsnorm": rmsnorm,
    "rmsnorm_f16": rmsnorm,
    "batchnorm": lambda x, m, v, g, b, eps: np.moveaxis((np.moveaxis(x, 1, -1) - m) / np.sqrt(v + eps) * g + b, -1, 1),
    "attention": attend,
    "attention_f32": attend,
    "causal_attention": causal,
    "causal_attention_f16": causal,
    **dict.fromkeys(["attention_exp2", "attention_bf16"], attend),
    **dict.fromkeys(["causal_attention_exp2", "causal_attention_bf16"], causal),
    "attention_f8": lambda q, k, v: attend(q, k, v, rounded=lambda p: F(p.astype(TYPES["f8e4m3"].numpy))),
    "attention_lse": lambda q, k, v: (attend(q, k, v), log_sum_exp(q, k)),
    "attention_backward": attention_backward,
    **dict.fromkeys(["grouped_attention", "grouped_attention_f16"], lambda q, k, v: attend(q, k[:, None], v[:, None])),
    "grouped_decode_f16": attend,
    **dict.fromkeys(["latent_attention", "latent_attention_f16"], latent(attend)),
    "causal_latent_attention_f16": latent(causal),
    "stencil3": stencil(),
    "stencil5": stencil(),
    "stencil7": stencil(),
    "jacobi2d": lambda u, f, h2: (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - h2 * f[1:-1, 1:-1]) / 4,
    "blur3x3": lambda x: sum(x[r : x.shape[0] - 2 + r, s : x.shape[1] - 2 + s] for r in range(3) for s in range(3)) / 9,
    "copy": lambda x: x,
    "transpose": np.transpose,
    "transpose_f16": np.transpose,
    **{
        f"permute_{a}{b}{c}": (lambda x, p=(a, b, c): x.transpose(p))
        for a, b, c in [(0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]
    },
    "nchw_to_nhwc": lambda x: x.transpose(0, 2, 3, 1),
    "reverse": lambda x: x[::-1],
    "pad2d": lambda x, before=1, after=1: np.pad(x, (before, after)),
    "tril": np.tril,
    "mttkrp": ein("ijk,jr,kr->ir"),
    "ttm": ein("ijk,kr->ijr"),
    "sddmm": lambda s, a, b: s * (a @ b.T),
    "bilinear": lambda x, a, y: x @ a @ y,
    "distances": lambda x, y: ((x[:, None] - y) ** 2).sum(-1),
    "contract_4d": ein("aebf,dfce->abcd"),
}
_START = {"max": {"initial": -np.inf}, "min": {"initial": np.inf}}
PARAMS = {
    **{n: [{}, {"stride": 2, "pad": 1}, {"stride": 3, "pad": 2}] for n in OPS if "conv" in n},
    "conv1d": [{}, {"stride": 2, "pad": 1}, {"pad": 2, "dilation": 2}],
    **{n: [{}, {"size": 3, "stride": 1, "pad": 1}] for n in OPS if "pool" in n and "global" not in n},
    "upsample2d": [{}, {"factor": 3}],
    "pad2d": [{}, {"before": 0, "after": 2}],
}


def test_every_op_has_a_formula():
    assert OPS.keys() == FORMULAS.keys()


@pytest.mark.parametrize("mode", ["odd", "1", "0"])
@pytest.mark.parametrize("name", OPS)
def test_meaning(name, mode):
    op = OPS[name]
    rng = np.random.default_rng(len(name))
    for params in PARAMS.get(name, [{}]):
        if mode != "odd" and "stride" in dict(op.params):
            params = {**params, "pad": 1} if mode == "1" else params
            if mode == "0" or params.get("size", 1) > 3:
                continue
        bound = bind_params(op, params)
        sizes = shapes(op, mode)
        arrays = [values(rng, t.dtype, tuple(e.evaluate(sizes) for e in t.shape), name in POSITIVE) for t in op.inputs]
        if mode == "0" and "arg" in name:
            continue  # refused, see tests/dsl/semantics/test_reference.py
        got = reference(op)(*arrays, **params)
        assert bound.params == ()
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            want = FORMULAS[name](*map(F, arrays), **params)
        got, want = (x if isinstance(x, tuple) else (x,) for x in (got, want))
        for t, g, w in zip(op.outputs, got, want, strict=True):
            compare(t, g, np.asarray(w), sizes)


def compare(t, got, want, sizes):
    assert got.dtype == t.dtype.numpy
    assert got.shape == want.shape
    if t.dtype.kind != "float":
        np.testing.assert_array_equal(F(got), want)
        return
    tolerance = {"f64": 1e-13, "f32": 3e-7, "f16": 2e-3, "bf16": 1e-2}[t.dtype.name]
    np.testing.assert_allclose(F(got), want, rtol=tolerance, atol=tolerance)


def test_zero_and_one_sized_convolutions():
    conv2d = reference(OPS["conv2d"])
    f = np.ones((4, 0, 3, 3), np.float32)
    assert not conv2d(np.ones((2, 0, 5, 5), np.float32), f).any()  # no channels: an empty sum
    assert conv2d(np.ones((0, 1, 5, 5), np.float32), np.ones((4, 1, 3, 3), np.float32)).shape == (0, 4, 3, 3)
    assert conv2d(np.ones((1, 1, 2, 2), np.float32), np.ones((1, 1, 3, 3), np.float32)).shape == (1, 1, 0, 0)
