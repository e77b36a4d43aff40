"""The cases of `peers.py` in TVM's tensor expressions: by its rules for CPUs, and by MetaSchedule."""

from __future__ import annotations

import tempfile
from typing import Any


def tvm_peers(threads: int, trials: int) -> dict[str, Any]:
    """By name: makes a call from an op's name, its sizes and inputs. Empty, and said, where there is no TVM."""
    try:
        import tvm
    except ImportError:
        print("no TVM: left out (pip install apache-tvm)")
        return {}

    def rules(module: Any, target: Any) -> Any:
        from tvm.s_tir import dlight

        with target:
            return dlight.ApplyDefaultSchedule(dlight.cpu.GEMV(), dlight.cpu.Reduction())(module)

    def search(module: Any, target: Any) -> Any:
        from tvm.s_tir import meta_schedule as ms

        with tempfile.TemporaryDirectory() as folder:
            found = ms.tune_tir(
                module, target=target, work_dir=folder, max_trials_global=trials, num_trials_per_iter=min(trials, 16),
                cost_model="random", num_tuning_cores=max(2, threads),
            )  # fmt: skip
            schedule = ms.tir_integration.compile_tir(found, module, target)
        if schedule is None:
            raise RuntimeError("nothing was found")
        return schedule.mod

    def maker(scheduled: Any) -> Any:
        def make(op: str, sizes: dict[str, int], inputs: list[Any]) -> Any:
            return _made(tvm, scheduled, threads, op, sizes, inputs)

        return make

    return {"TVM rules": maker(rules), **({f"TVM {trials} trials": maker(search)} if trials else {})}


def _made(tvm: Any, scheduled: Any, threads: int, op: str, sizes: dict[str, int], inputs: list[Any]) -> Any:
    import numpy as np
    from tvm import te

    given, result = _expression(te, op, sizes)
    module = tvm.IRModule({"main": te.create_prim_func([*given, result])})
    cpu = tvm.target.codegen.llvm_get_system_cpu()
    target = tvm.target.Target({"kind": "llvm", "mcpu": cpu, "num-cores": threads})
    made = tvm.compile(scheduled(module, target), target=target)["main"]
    out = tvm.runtime.tensor(np.empty([int(n) for n in result.shape], np.float32))
    arrays = [tvm.runtime.tensor(np.atleast_1d(x)) for x in inputs]

    def call() -> Any:
        made(*arrays, out)
        return out

    return call


def _expression(te: Any, op: str, s: dict[str, int]) -> tuple[list[Any], Any]:
    """Placeholders and the result."""

    def given(name: str, *shape: int) -> Any:
        return te.placeholder(shape, name=name)

    def axis(extent: int, name: str) -> Any:
        return te.reduce_axis((0, extent), name=name)

    if op == "gemm":
        a, b, k = given("A", s["M"], s["K"]), given("B", s["K"], s["N"]), axis(s["K"], "k")
        return [a, b], te.compute((s["M"], s["N"]), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    if op == "batched_gemm":
        a, b, k = given("A", s["B"], s["M"], s["K"]), given("B", s["B"], s["K"], s["N"]), axis(s["K"], "k")
        return [a, b], te.compute((s["B"], s["M"], s["N"]), lambda n, i, j: te.sum(a[n, i, k] * b[n, k, j], axis=k), name="C")
    if op in ("conv2d", "depthwise_conv2d"):
        stride, pad = s["stride"], s["pad"]
        h, w = s["H"], s["W"]
        p, q = ((x + 2 * pad - s["R"]) // stride + 1 for x in (h, w))
        x = given("I", s["N"], s["C"], h, w)

        def inside(n: Any, c: Any, y: Any, z: Any) -> Any:
            return te.if_then_else(
                te.all(y >= pad, y < h + pad, z >= pad, z < w + pad), x[n, c, y - pad, z - pad], te.const(0.0, "float32")
            )

        padded = te.compute((s["N"], s["C"], h + 2 * pad, w + 2 * pad), inside, name="padded")
        r, t = axis(s["R"], "r"), axis(s["S"], "s")
        if op == "depthwise_conv2d":
            f = given("F", s["C"], s["R"], s["S"])
            shape = (s["N"], s["C"], p, q)
            body = lambda n, c, i, j: te.sum(padded[n, c, i * stride + r, j * stride + t] * f[c, r, t], axis=[r, t])  # noqa: E731
            return [x, f], te.compute(shape, body, name="Y")
        f, k = given("F", s["O"], s["C"], s["R"], s["S"]), axis(s["C"], "c")
        body = lambda n, o, i, j: te.sum(padded[n, k, i * stride + r, j * stride + t] * f[o, k, r, t], axis=[k, r, t])  # noqa: E731
        return [x, f], te.compute((s["N"], s["O"], p, q), body, name="Y")
    m, n = s["M"], s["N"]
    x, k = given("X", m, n), axis(n, "k")
    if op == "transpose":
        return [x], te.compute((n, m), lambda i, j: x[j, i], name="Y")
    if op == "softmax":
        top = te.compute((m,), lambda i: te.max(x[i, k], axis=k), name="top")
        e = te.compute((m, n), lambda i, j: te.exp(x[i, j] - top[i]), name="e")
        l = axis(n, "l")
        total = te.compute((m,), lambda i: te.sum(e[i, l], axis=l), name="total")
        return [x], te.compute((m, n), lambda i, j: e[i, j] / total[i], name="Y")
    if op == "layernorm":
        gain, bias, eps, l = given("gain", n), given("bias", n), given("eps", 1), axis(n, "l")
        total = te.compute((m,), lambda i: te.sum(x[i, k], axis=k), name="total")
        square = te.compute(
            (m,), lambda i: te.sum((x[i, l] - total[i] / float(n)) * (x[i, l] - total[i] / float(n)), axis=l), name="square"
        )
        scale = te.compute((m,), lambda i: 1.0 / te.sqrt(square[i] / float(n) + eps[0]), name="scale")
        return [x, gain, bias, eps], te.compute(
            (m, n), lambda i, j: (x[i, j] - total[i] / float(n)) * scale[i] * gain[j] + bias[j], name="Y"
        )
    if op == "rmsnorm":
        gain, eps = given("gain", n), given("eps", 1)
        total = te.compute((m,), lambda i: te.sum(x[i, k] * x[i, k], axis=k), name="total")
        scale = te.compute((m,), lambda i: 1.0 / te.sqrt(total[i] / float(n) + eps[0]), name="scale")
        return [x, gain, eps], te.compute((m, n), lambda i, j: x[i, j] * scale[i] * gain[j], name="Y")
    if op == "row_sum":
        return [x], te.compute((m,), lambda i: te.sum(x[i, k], axis=k), name="Y")
    rows = axis(m, "r")
    if op == "col_sum":
        return [x], te.compute((n,), lambda j: te.sum(x[rows, j], axis=rows), name="Y")
    assert op == "full_sum", op
    return [x], te.compute((1,), lambda z: te.sum(x[rows, k], axis=[rows, k]), name="Y")
