"""The sizes of DeepBench and of common networks, as cases, and the same by NumPy or PyTorch.

Sizes: DeepBench (github.com/baidu-research/DeepBench, `code/kernels`), ResNet-50 and MobileNet, transformers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import inf, prod
from typing import Any

_ROWS = ((1024, 1024), (4096, 4096), (65536, 128), (16, 131072))

SHAPES: dict[str, tuple[tuple[int, ...], ...]] = {  # (M, N, K), where nothing else is said
    "server": (
        *product((5124, 35), (700, 1500), (2048, 2560)),
        *((m, n, k) for m, k in ((7680, 2560), (3072, 1024)) for n in (1, 2, 4)),
        *product((512, 1024), (1, 2, 4), (500_000,)),
        (1024, 700, 512),
        *((3 * h, n, h) for h in (2560, 2048, 1536, 2816, 1024) for n in (1500, 3000, 6000)),
        *((3 * h, n, h) for h in (2048, 1536, 2816) for n in (1, 2, 4)),
        *product((512, 1024), (1500, 3000, 6000), (1536, 2048, 2560, 2816)),
        *product((512, 1024), (1, 2, 4), (512,)),
    ),
    "device": (
        (5124, 700, 2048), (35, 700, 2048), (3072, 1, 1024), (64, 1, 1216), (3072, 1500, 1024), (128, 1500, 1280),
        (3072, 1500, 128), (128, 1, 1024), (3072, 1, 128), (176, 1500, 1408), (4224, 1500, 176), (128, 1, 1408), (4224, 1, 128),
    ),
    "training": tuple((h, n, h) for h in (1760, 2048, 2560, 4096) for n in (16, 32, 64, 128, 7000)),
    "batched": (  # (B, M, N, K)
        (1, 128, 128, 128), (12, 512, 512, 64), (12, 512, 64, 512), (16, 1024, 1024, 64), (1, 512, 512, 512),
        (1, 1024, 1024, 1024),
    ),
    "conv": (  # (N, H, W, C, O, R, stride, pad)
        (1, 224, 224, 3, 64, 7, 2, 3), (1, 56, 56, 64, 64, 1, 1, 0), (1, 56, 56, 64, 64, 3, 1, 1),
        (1, 56, 56, 256, 128, 1, 2, 0), (1, 28, 28, 128, 128, 3, 1, 1), (1, 28, 28, 128, 512, 1, 1, 0),
        (1, 14, 14, 256, 256, 3, 1, 1), (1, 14, 14, 256, 1024, 1, 1, 0), (1, 7, 7, 512, 512, 3, 1, 1),
        (1, 7, 7, 512, 2048, 1, 1, 0),
    ),
    # (N, H, W, C, R, stride, pad)
    "depthwise": ((1, 112, 112, 32, 3, 1, 1), (1, 56, 56, 128, 3, 2, 1), (1, 14, 14, 512, 3, 1, 1)),
    "attention": ((12, 128, 64), (12, 512, 64), (16, 1024, 64), (1, 1024, 128)),  # (heads, queries and keys, depth)
    "gru": tuple(product((512, 1024, 1536, 2048, 2560, 2816), (1, 2, 4))),  # (hidden, batch)
    "lstm": tuple(product((256, 512, 1024, 1536, 2048), (1, 2, 4))),
    "norm": _ROWS,  # (rows, length)
    "reduce": _ROWS,
    "transpose": _ROWS,
    "elementwise": ((1 << 26,),),
}  # fmt: skip

# Ops of a group that has several.
_OPS = {
    "norm": ("softmax", "layernorm", "rmsnorm"),
    "reduce": ("row_sum", "col_sum", "full_sum"),
    "transpose": ("transpose",),
    "elementwise": ("relu_map", "exp_map", "gelu_map", "add"),
}
_MODULES = {"conv": "conv", "depthwise": "conv", "gru": "recurrent", "lstm": "recurrent", "transpose": "tensor"}


@dataclass(frozen=True)
class Case:
    """An op of the library at sizes: `params` are constants of the op, `shapes` those of its inputs, `flops` of one call.

    bytes  of all arguments, where those and not `flops` tell how much is to be done
    """

    group: str
    op: str
    module: str
    sizes: dict[str, int]
    params: dict[str, int]
    shapes: tuple[tuple[int, ...], ...]
    flops: int
    bytes: int = 0

    @property
    def name(self) -> str:
        return f"{self.op} " + " ".join(f"{k.lower()}={v}" for k, v in (self.sizes | self.params).items())


def cases(groups: list[str], max_flops: float = inf, match: str = "") -> Iterator[Case]:
    """Those of the groups that take at most so many operations, and in whose names all words of `match` are."""
    words = set(match.split())
    return (c for c in _all(groups) if c.flops <= max_flops and words <= set(c.name.split()))


def _all(groups: list[str]) -> Iterator[Case]:
    for group in groups:
        for shape in dict.fromkeys(SHAPES[group]):
            if group in ("conv", "depthwise"):
                yield _conv(group, shape)
            elif group in ("gru", "lstm"):
                yield _cell(group, *shape)
            elif group == "attention":
                yield from (_attention(group, op, *shape) for op in ("attention_f32", "causal_attention"))
            elif group in _OPS:
                yield from (_rows(group, op, shape) for op in _OPS[group])
            else:
                yield from _products(group, shape)


def _products(group: str, shape: tuple[int, ...]) -> Iterator[Case]:
    *batch, m, n, k = shape
    sizes = dict(zip("BMNK" if batch else "MNK", shape, strict=True))
    flops = 2 * prod(shape)
    op = "batched_gemm" if batch else "gemm"
    yield Case(group, op, "gemm", sizes, {}, ((*batch, m, k), (*batch, k, n)), flops)
    if group == "training":
        yield Case(group, "gemm_tn", "gemm", sizes, {}, ((k, m), (k, n)), flops)


def _conv(group: str, shape: tuple[int, ...]) -> Case:
    n, h, w, c, *rest = shape
    depthwise = group == "depthwise"
    o, (r, stride, pad) = (1, rest) if depthwise else (rest[0], rest[1:])
    p, q = (h + 2 * pad - r) // stride + 1, (w + 2 * pad - r) // stride + 1
    sizes = {"N": n, "C": c, "H": h, "W": w, **({} if depthwise else {"O": o}), "R": r, "S": r}
    weights = (c, r, r) if depthwise else (o, c, r, r)
    op = "depthwise_conv2d" if depthwise else "conv2d"
    flops = 2 * n * c * o * p * q * r * r
    return Case(group, op, "conv", sizes, {"stride": stride, "pad": pad}, ((n, c, h, w), weights), flops)


def _cell(group: str, hidden: int, batch: int) -> Case:
    """One step; inputs are as long as what is hidden, as in DeepBench."""
    gates = 3 if group == "gru" else 4
    state = ((batch, hidden),) * (2 if group == "gru" else 3)
    weights = ((gates, hidden, hidden),) * 2
    biases = ((gates, hidden),) * (2 if group == "gru" else 1)
    sizes = {"B": batch, "I": hidden, "H": hidden}
    return Case(group, f"{group}_cell", "recurrent", sizes, {}, (*state, *weights, *biases), 4 * gates * batch * hidden**2)


def _attention(group: str, op: str, heads: int, length: int, depth: int) -> Case:
    sizes = {"H": heads, "Q": length, "T": length, "D": depth}
    return Case(group, op, "attention", sizes, {}, ((heads, length, depth),) * 3, 4 * heads * length**2 * depth)


def _rows(group: str, op: str, shape: tuple[int, ...]) -> Case:
    sizes = dict(zip("MN" if len(shape) > 1 else "N", shape, strict=True))
    inputs: tuple[tuple[int, ...], ...] = {
        "layernorm": (shape, shape[-1:], shape[-1:], ()),
        "rmsnorm": (shape, shape[-1:], ()),
        "add": (shape, shape),
    }.get(op, (shape,))
    results = {"row_sum": shape[0], "col_sum": shape[-1], "full_sum": 1}.get(op, prod(shape))
    moved = 4 * (sum(map(prod, inputs)) + results)
    return Case(group, op, _MODULES.get(group, group), sizes, {}, inputs, prod(shape), moved)


def inputs(case: Case, before: Sequence[Any] = ()) -> list[Any]:
    """Random numbers; an array of the case `before` is taken again where it has the shape, as making a large one takes long."""
    import numpy as np

    rng = np.random.default_rng(0)
    spare = list(before)
    out = []
    for shape in case.shapes:
        found = next((i for i, a in enumerate(spare) if a.shape == shape), None) if shape else None
        if found is not None:
            out.append(spare.pop(found))
        elif not shape:
            out.append(np.array(1e-5, np.float32))  # the only scalars are those that keep a root from zero
        else:
            values = rng.random(shape, np.float32)
            values -= np.float32(0.5)
            # What is added up in a cell stays of the size of one.
            out.append(values * np.float32(4 / shape[-1] ** 0.5) if len(shape) == 3 and case.module == "recurrent" else values)
    return out


@dataclass(frozen=True)
class Peer:
    """`call` gives what the op gives; `fresh`: in new memory at each call, so that the same is asked of ours."""

    call: Callable[[], Any]
    fresh: bool
    library: str


def peer(case: Case, arrays: list[Any], out: Any, threads: int) -> Peer:
    """The same by NumPy for plain products, else by PyTorch, or where that is missing by NumPy, if it is a product or a
    convolution. `out`: arrays like the results."""
    import numpy as np

    if case.op in ("gemm", "gemm_tn"):
        a, b = arrays
        left, result = (a.T if case.op == "gemm_tn" else a), np.empty_like(out)
        return Peer(lambda: np.matmul(left, b, out=result), False, "NumPy")
    try:
        import torch
    except ImportError:
        if case.module not in ("gemm", "conv"):
            raise SystemExit(f"{case.group}: needs PyTorch") from None
        result = np.empty_like(out)
        return Peer(lambda: _by_numpy(case, *arrays, result), False, "NumPy")
    torch.set_num_threads(threads)
    call, fresh = _by_torch(case, [torch.from_numpy(a) for a in arrays], out)

    def quietly() -> Any:
        with torch.inference_mode():
            return call()

    return Peer(quietly, fresh, "PyTorch")


def _by_torch(case: Case, t: list[Any], out: Any) -> tuple[Callable[[], Any], bool]:
    import torch
    import torch.nn.functional as f

    group, op, x = case.group, case.op, t[0]
    if group in ("conv", "depthwise"):
        groups = case.sizes["C"] if group == "depthwise" else 1
        filters = t[1].unsqueeze(1) if group == "depthwise" else t[1]
        return lambda: torch.conv2d(x, filters, None, case.params["stride"], case.params["pad"], 1, groups), True
    if group == "gru":
        x, h, w, u, b, d = t
        flat = [w.flatten(0, 1), u.flatten(0, 1), b.flatten(), d.flatten()]
        return lambda: torch.gru_cell(x, h, *flat), True
    if group == "lstm":
        x, h, c, w, u, b = t
        flat = [w.flatten(0, 1), u.flatten(0, 1), b.flatten(), torch.zeros_like(b).flatten()]
        return lambda: torch.lstm_cell(x, (h, c), *flat), True
    if group == "attention":
        causal = op == "causal_attention"
        q, k, v = (each.unsqueeze(0) for each in t[:3])  # PyTorch takes its fused kernel for four axes alone
        return lambda: f.scaled_dot_product_attention(q, k, v, is_causal=causal)[0], True
    if op == "layernorm":
        return lambda: f.layer_norm(x, x.shape[1:], t[1], t[2], float(t[3])), True
    if op == "rmsnorm":
        return lambda: f.rms_norm(x, x.shape[1:], t[1], float(t[2])), True
    if op in ("full_sum", "gelu_map"):
        return (lambda: x.sum()) if op == "full_sum" else (lambda: f.gelu(x)), True
    z = torch.empty(out.shape)
    made: dict[str, Callable[[], Any]] = {
        "batched_gemm": lambda: torch.bmm(x, t[1], out=z),
        "softmax": lambda: torch.softmax(x, -1, out=z),
        "row_sum": lambda: torch.sum(x, 1, out=z),
        "col_sum": lambda: torch.sum(x, 0, out=z),
        "transpose": lambda: z.copy_(x.T),
        "relu_map": lambda: torch.clamp_min(x, 0, out=z),
        "exp_map": lambda: torch.exp(x, out=z),
        "add": lambda: torch.add(x, t[-1], out=z),
    }
    return made[op], False


def _by_numpy(case: Case, a: Any, b: Any, out: Any) -> Any:
    import numpy as np

    if case.op == "batched_gemm":
        return np.matmul(a, b, out=out)
    pad, stride = case.params["pad"], case.params["stride"]
    padded = np.pad(a, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, b.shape[-2:], axis=(2, 3))[:, :, ::stride, ::stride]
    return np.einsum("ncpqrs,crs->ncpq" if b.ndim == 3 else "ncpqrs,ocrs->nopq", windows, b, optimize=True, out=out)
