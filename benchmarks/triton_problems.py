"""The problems of `beside_triton.py`: an op of the library with its sizes, and Triton's kernel with usual configurations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import e, log2, prod
from typing import Any

_POINTERS = {"f32": "*fp32", "f16": "*fp16", "bf16": "*bf16", "i8": "*i8", "i32": "*i32"}
_BYTES = {"f32": 4, "f16": 2, "bf16": 2, "i8": 1, "i32": 4}


@dataclass(frozen=True)
class Configuration:
    """Tile, warps and stages. `rows`, `columns`, `depth`: None where the kernel has none."""

    warps: int
    stages: int = 2
    rows: int | None = None
    columns: int | None = None
    depth: int | None = None
    programs: int = 0  # that deal rows out, 0 for a program each

    def __str__(self) -> str:
        tile = "x".join(str(x) for x in (self.rows, self.columns, self.depth) if x)
        dealt = f"{self.programs} programs" if self.programs else ""
        stages = f"{self.stages} stages" if self.depth or self.programs else ""
        return ", ".join(x for x in (tile, dealt, f"{self.warps} warps", stages) if x)


@dataclass(frozen=True)
class Problem:
    """One line of the table.

    types      of Triton's arguments that are no constants
    constants  the others, beside the configuration's
    matrix     rows and columns of the result
    per_mma    multiply-adds that instructions are counted for; 0: they are counted for each element
    bytes      of operands and result, once each
    """

    name: str
    module: str
    op: str
    sizes: Mapping[str, int]
    kernel: str
    types: Mapping[str, str]
    constants: Mapping[str, Any]
    matrix: tuple[int, int]
    per_mma: int
    bytes: int
    configurations: tuple[Configuration, ...]
    params: Mapping[str, int] = field(default_factory=dict)

    @property
    def elements(self) -> int:
        return prod(self.matrix)


def constants(problem: Problem, c: Configuration) -> dict[str, Any]:
    """Of Triton's kernel."""
    found = dict(problem.constants)
    if c.rows:
        found |= {"BM": c.rows, "BN": c.columns}
    if c.depth:
        found["BK"] = c.depth
    if problem.kernel == "softmax":
        found |= {"PROGRAMS": c.programs, "STAGES": c.stages}
    return found


def grid(problem: Problem, c: Configuration) -> int:
    """Programs of Triton's kernel."""
    rows, columns = problem.matrix
    if c.rows and c.columns:
        return -(-rows // c.rows) * -(-columns // c.columns)
    return c.programs or rows


def _product(name: str, op: str, a: str, c: str, accumulator: str, per_mma: int, configurations: tuple[Configuration, ...], *,
             turned: bool = False, gelu: bool = False, precision: str = "tf32") -> Problem:  # fmt: skip
    n = 4096
    types = {"a": _POINTERS[a], "b": _POINTERS[a], "c": _POINTERS[c]} | ({"bias": "*fp32"} if gelu else {})
    fixed = {"M": n, "N": n, "K": n, "GROUP": 8, "TURNED": turned, "GELU": gelu, "PRECISION": precision, "SUM": accumulator}
    return Problem(
        name, "gemm", op, {"M": n, "N": n, "K": n}, "product", types, fixed | ({} if gelu else {"bias": None}), (n, n),
        per_mma, n * n * (2 * _BYTES[a] + _BYTES[c]) + (4 * n if gelu else 0), configurations,
    )  # fmt: skip


def _convolution(name: str, size: int, channels: int, configurations: tuple[Configuration, ...]) -> Problem:
    images = 32
    pixels = images * size * size
    fixed = {"H": size, "W": size, "C": channels, "O": channels, "R": 3, "S": 3, "PAD": 1}
    return Problem(
        name, "conv", "conv2d_nhwc_f16", {"N": images, "C": channels, "H": size, "W": size, "O": channels, "R": 3, "S": 3},
        "convolution", {"x": "*fp16", "f": "*fp16", "y": "*fp16"}, fixed, (pixels, channels), _F16,
        2 * (2 * pixels * channels + 9 * channels * channels), configurations, {"pad": 1},
    )  # fmt: skip


def _attention(op: str, features: int) -> Problem:
    heads, rows = 64, 2048
    sizes = {"H": heads, "Q": rows, "T": rows}
    tiles = ((128, 4, 32), (128, 4, 64), (128, 8, 64), (128, 8, 128), (64, 4, 32), (64, 4, 64))
    configurations = tuple(Configuration(w, stages, bm, features, bk) for bm, w, bk in tiles for stages in (2, 3, 4))
    return Problem(
        f"{op} {features}", "attention", op, sizes | {"D": features}, "attention", {x: "*fp16" for x in "qkvo"},
        sizes | {"SCALE": features**-0.5 * log2(e)}, (heads * rows, features), _F16,
        8 * heads * rows * features, configurations,
    )  # fmt: skip


def _rows(op: str, types: Mapping[str, str], fixed: Mapping[str, int], configurations: tuple[Configuration, ...]) -> Problem:
    n = 4096
    module = "tensor" if op == "transpose" else "norm"
    return Problem(op, module, op, {"M": n, "N": n}, op, types, fixed, (n, n), 0, 8 * n * n, configurations)


_C = Configuration
_F16, _TF32, _I8 = 16 * 8 * 16, 16 * 8 * 8, 16 * 8 * 32  # multiply-adds of the widest instruction of sm_80
_X_TO_Y = {"x": "*fp32", "y": "*fp32"}
# Those of tutorial 3 that are for large products.
_WIDE = (_C(8, 3, 128, 256, 64), _C(8, 3, 256, 128, 64), _C(4, 4, 128, 128, 32), _C(4, 4, 64, 256, 32), _C(4, 3, 128, 128, 64))
_BYTEWISE = (_C(8, 3, 128, 256, 128), _C(8, 3, 256, 128, 128), _C(4, 4, 128, 128, 128), _C(4, 4, 128, 128, 64))
_SINGLE = (_C(8, 3, 128, 256, 32), _C(4, 3, 128, 128, 32), _C(8, 3, 128, 128, 32), _C(4, 4, 128, 64, 32))
_SCALAR = (_C(8, 3, 128, 128, 16), _C(8, 2, 128, 128, 32), _C(4, 3, 128, 64, 16), _C(4, 3, 64, 64, 16))
_PIXELS = (_C(4, 3, 128, 64, 64), _C(8, 3, 128, 128, 64), _C(4, 4, 128, 128, 32), _C(4, 3, 64, 64, 64), _C(4, 4, 128, 64, 32))
_WARPS = (_C(4), _C(8), _C(16))
PROBLEMS = [
    _product("gemm_f16", "gemm_f16", "f16", "f16", "float32", _F16, _WIDE),
    _product("gemm_f16_nt", "gemm_f16_nt", "f16", "f16", "float32", _F16, _WIDE, turned=True),
    _product("gemm_bf16", "gemm_bf16", "bf16", "bf16", "float32", _F16, _WIDE),
    _product("linear_gelu_f16", "linear_gelu_f16", "f16", "f16", "float32", _F16, _WIDE, turned=True, gelu=True),
    _product("gemm_i8", "gemm_i8", "i8", "i32", "int32", _I8, _BYTEWISE),
    _product("gemm_tf32", "gemm_tf32", "f32", "f32", "float32", _TF32, _SINGLE),
    _product("gemm", "gemm", "f32", "f32", "float32", 32, _SCALAR, precision="ieee"),
    _convolution("conv 56x56x64", 56, 64, tuple(c for c in _PIXELS if c.columns == 64)),
    _convolution("conv 14x14x256", 14, 256, _PIXELS),
    _rows("softmax", _X_TO_Y, {"M": 4096, "N": 4096}, (*_WARPS, _C(8, 2, programs=864), _C(8, 4, programs=324))),
    _rows("layernorm", _X_TO_Y | {"gain": "*fp32", "bias": "*fp32", "eps": "fp32"}, {"N": 4096}, _WARPS),
    _rows("transpose", _X_TO_Y, {"M": 4096, "N": 4096}, tuple(
        _C(w, rows=m, columns=n) for w, m, n in ((4, 32, 32), (4, 64, 32), (4, 64, 64), (8, 64, 64)))),
]  # fmt: skip
# In rows of 64 heads; `exp2` is what the tutorial computes.
ATTENTIONS = [_attention(op, features) for features in (64, 128) for op in ("attention", "attention_exp2")]
