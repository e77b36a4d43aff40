"""The cases of `peers.py` in Halide, scheduled by its autoschedulers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

SCHEDULERS = ("Adams2019", "Mullapudi2016", "Li2018")


def halide_peers(threads: int) -> dict[str, Any]:
    """By name: makes a call from an op's name, its sizes and inputs. Empty, and said, where there is no Halide."""
    try:
        import halide as hl
    except ImportError:
        print("no Halide: left out (pip install halide)")
        return {}
    folder = Path(hl.__file__).parent
    for name in SCHEDULERS:
        hl.load_plugin(str(next(folder.rglob(f"libautoschedule_{name.lower()}.*"))))

    def maker(name: str) -> Any:
        def make(op: str, sizes: dict[str, int], inputs: list[Any]) -> Any:
            return _made(hl, name, threads, op, sizes, inputs)

        return make

    return {f"Halide {name}": maker(name) for name in SCHEDULERS}


def _made(hl: Any, scheduler: str, threads: int, op: str, sizes: dict[str, int], inputs: list[Any]) -> Any:
    given = [hl.ImageParam(hl.Float(32), max(1, x.ndim), f"in{n}") for n, x in enumerate(inputs)]
    func, shape = _func(hl, op, sizes, given)
    for p, x in zip(given, inputs, strict=True):
        for n, extent in enumerate(x.shape[::-1] or (1,)):
            p.dim(n).set_bounds(0, extent)
            p.dim(n).set_stride(int(np.prod(x.shape[x.ndim - n :], dtype=int)))
            p.dim(n).set_estimate(0, extent)
    func.set_estimates([(0, n) for n in shape[::-1] or (1,)])
    pipeline, target = hl.Pipeline(func), hl.get_jit_target_from_environment()
    pipeline.apply_autoscheduler(target, hl.AutoschedulerParams(scheduler, {"parallelism": str(threads)}))
    for p, x in zip(given, inputs, strict=True):
        p.set(hl.Buffer(np.atleast_1d(x)))
    pipeline.compile_jit(target)
    out = np.empty(shape or (1,), np.float32)
    result = hl.Buffer(out)

    def call() -> Any:
        pipeline.realize(result)
        return out

    return call


def _func(hl: Any, op: str, s: dict[str, int], given: list[Any]) -> tuple[Any, tuple[int, ...]]:
    """The op as a function over the axes of its result, the last one first; and the shape of the result."""
    i, j, c, n = (hl.Var(x) for x in "ijcn")
    out = hl.Func("out")
    if op == "gemm":
        a, b = given
        k = hl.RDom([(0, s["K"])])
        total = hl.Func("total")
        total[j, i] = 0.0
        total[j, i] += a[k.x, i] * b[j, k.x]
        out[j, i] = total[j, i]
        return out, (s["M"], s["N"])
    if op in ("conv2d", "depthwise_conv2d"):
        x, f = given
        stride, pad = s["stride"], s["pad"]
        p, q = ((s[e] + 2 * pad - s["R"]) // stride + 1 for e in "HW")
        padded = hl.BoundaryConditions.constant_exterior(x, 0.0, [(0, s["W"]), (0, s["H"]), (0, s["C"]), (0, s["N"])])
        total = hl.Func("total")
        total[j, i, c, n] = 0.0
        if op == "conv2d":
            r = hl.RDom([(0, s["S"]), (0, s["R"]), (0, s["C"])])
            total[j, i, c, n] += padded[j * stride + r.x - pad, i * stride + r.y - pad, r.z, n] * f[r.x, r.y, r.z, c]
        else:
            r = hl.RDom([(0, s["S"]), (0, s["R"])])
            total[j, i, c, n] += padded[j * stride + r.x - pad, i * stride + r.y - pad, c, n] * f[r.x, r.y, c]
        out[j, i, c, n] = total[j, i, c, n]
        return out, (s["N"], s["O"] if op == "conv2d" else s["C"], p, q)
    if op == "batched_gemm":
        a, b = given
        k = hl.RDom([(0, s["K"])])
        total = hl.Func("total")
        total[j, i, n] = 0.0
        total[j, i, n] += a[k.x, i, n] * b[j, k.x, n]
        out[j, i, n] = total[j, i, n]
        return out, (s["B"], s["M"], s["N"])
    x = given[0]
    if op == "transpose":
        out[j, i] = x[i, j]
        return out, (s["N"], s["M"])
    k, rows = hl.RDom([(0, s["N"])]), hl.RDom([(0, s["M"])])
    total = hl.Func("total")
    if op == "softmax":
        top, e = hl.Func("top"), hl.Func("e")
        top[i] = hl.f32(float(np.finfo(np.float32).min))
        top[i] = hl.max(top[i], x[k.x, i])
        e[j, i] = hl.exp(x[j, i] - top[i])
        total[i] = 0.0
        total[i] += e[k.x, i]
        out[j, i] = e[j, i] / total[i]
        return out, (s["M"], s["N"])
    if op == "layernorm":
        _, gain, bias, eps = given
        square = hl.Func("square")
        total[i] = 0.0
        total[i] += x[k.x, i]
        mean = hl.Func("mean")
        mean[i] = total[i] / float(s["N"])
        square[i] = 0.0
        square[i] += (x[k.x, i] - mean[i]) * (x[k.x, i] - mean[i])
        scale = hl.Func("scale")
        scale[i] = 1.0 / hl.sqrt(square[i] / float(s["N"]) + eps[0])
        out[j, i] = (x[j, i] - mean[i]) * scale[i] * gain[j] + bias[j]
        return out, (s["M"], s["N"])
    if op == "rmsnorm":
        _, gain, eps = given
        total[i] = 0.0
        total[i] += x[k.x, i] * x[k.x, i]
        scale = hl.Func("scale")
        scale[i] = 1.0 / hl.sqrt(total[i] / float(s["N"]) + eps[0])
        out[j, i] = x[j, i] * scale[i] * gain[j]
        return out, (s["M"], s["N"])
    if op == "row_sum":
        total[i] = 0.0
        total[i] += x[k.x, i]
        out[i] = total[i]
        return out, (s["M"],)
    if op == "col_sum":
        total[j] = 0.0
        total[j] += x[j, rows.x]
        out[j] = total[j]
        return out, (s["N"],)
    assert op == "full_sum", op
    total[i] = 0.0
    total[i] += x[k.x, i]
    out[j] = 0.0
    out[j] += total[rows.x]
    return out, ()
