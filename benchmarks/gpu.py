"""Kernels on a GPU beside the vendor's libraries (through PyTorch, or CuPy where that is missing), in turns.

    python benchmarks/gpu.py                                    # everything
    python benchmarks/gpu.py --only hgemm,sgemm --sizes 4096 8192
    python benchmarks/gpu.py --target cuda:sm_80 --json > results.json

hgemm, bgemm, sgemm   products of matrices of f16, bf16, f32, beside cuBLAS or rocBLAS; f32 without tensor units
copy, add, row_sum,   bandwidth, beside the copy of as many bytes by the driver (the yardstick) and the library's own kernel
softmax, transpose
launch                microseconds of the calling thread, results given and not given, nothing waited for

Every schedule of `--file` for the op that fits the GPU is measured, and what the compiler chooses by itself. Figures are the
median of samples taken by turns, each as long as the clock needs, with the last call waited for.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from statistics import median
from typing import Any

# name -> the op, its module in the library, and how a product is asked of the other side
PRODUCTS = {"hgemm": "gemm_f16", "bgemm": "gemm_bf16", "sgemm": "gemm"}
# name -> the op, its module, how many arrays of the inputs' size cross the memory
MEMORY = {
    "copy": ("copy", "tensor", 2.0),
    "add": ("add", "elementwise", 3.0),
    "transpose": ("transpose", "tensor", 2.0),
    "row_sum": ("row_sum", "reduce", 1.0),
    "softmax": ("softmax", "norm", 2.0),
}


def main() -> None:
    args = _options()
    import andiron
    from andiron.dsl.errors import UserError
    from andiron.dsl.module import loads
    from andiron.runtime.devices import is_for_device, schedules_for
    from andiron.runtime.gpu.arrays import any_library
    from andiron.runtime.gpu.driver import find_driver
    from andiron.runtime.timing import interleaved, ratio

    family = args.target.partition(":")[0]
    try:
        gpu, arrays = find_driver(family).arch(0), any_library(family)
    except UserError as error:
        sys.exit(f"nothing to measure on: {error.message}")
    peer = _peer(arrays)
    rows: list[dict[str, Any]] = []
    about = {"gpu": peer.name(), "arch": gpu, "andiron": andiron.__version__, "beside": peer.version(), "target": args.target}
    print(", ".join(f"{k} {v}" for k, v in about.items()), file=sys.stderr)

    def forms(op: str, module: str) -> dict[str, Any]:
        """Kernels by the names of their schedules."""
        files = [f"import std.ops.{module}", *(f"import {x}" for x in args.file)]
        found = loads("\n".join(files) + "\n", base=".")
        made = {"chosen": andiron.compile(found, op, None, args.target)}
        device = made["chosen"].program.device
        for decl in schedules_for(found, op):
            if is_for_device(decl, device, found):
                made[decl.name] = andiron.compile(found, op, decl.name, args.target)
        return made

    def compare(name: str, size: str, mine: dict[str, Any], others: dict[str, Any], work: float, unit: str) -> None:
        """`work`: units of 1e9 a call; the last of `others` is the yardstick."""
        calls: dict[str, Callable[[], Any]] = {**mine, **others}
        samples = dict(zip(calls, interleaved(list(calls.values()), args.repeat, arrays.wait), strict=True))
        yard = samples[list(others)[-1]]
        for label, taken in samples.items():
            row = {"what": name, "size": size, "by": label, "seconds": median(taken), "unit": unit}
            row |= {"rate": work / median(taken), "share": ratio(taken, yard)}
            rows.append(row)
            print(f"{name:10} {size:>12}  {label:28} {row['rate']:10.1f} {unit}  {row['share']:6.1%} of {list(others)[-1]}")

    for name, op in PRODUCTS.items():
        if args.only and name not in args.only:
            continue
        kernels = forms(op, "gemm")
        for n in args.sizes:
            a, b = (peer.random((n, n), kernels["chosen"].op.inputs[0].dtype.name) for _ in range(2))
            want = peer.product(a, b)()
            mine = {}
            for label, kernel in kernels.items():
                out = kernel(a, b)
                error = peer.error(out, want)
                if error > 0.02:
                    sys.exit(f"{name} {label} at {n} is wrong: {error:.3g} of the largest element")
                mine[label] = lambda kernel=kernel, a=a, b=b, out=out: kernel(a, b, out=out)
            compare(name, f"{n}^3", mine, {peer.blas: peer.product(a, b)}, 2e-12 * n**3, "TFLOP/s")

    for name, (op, module, moved) in MEMORY.items():
        if args.only and name not in args.only:
            continue
        kernels = forms(op, module)
        n = args.rows
        inputs = [peer.random((n, n) if len(t.shape) == 2 else (n * n,), "f32") for t in kernels["chosen"].op.inputs]
        mine = {}
        for label, kernel in kernels.items():
            out = kernel(*inputs)
            mine[label] = lambda kernel=kernel, inputs=inputs, out=out: kernel(*inputs, out=out)
        others = {
            f"{peer.blas.partition(' ')[0]} {name}": peer.same(name, inputs),
            "copy by the driver": peer.copy(inputs[0], moved),
        }
        compare(name, f"{n}^2 f32", mine, others, 4e-9 * moved * n * n, "GB/s")

    if not args.only or "launch" in args.only:
        kernel = andiron.compile("import std.ops.elementwise\n", "add", None, args.target)
        x, y = peer.random((64,), "f32"), peer.random((64,), "f32")
        z = kernel(x, y)
        own = {"results given": lambda: kernel(x, y, out=z), "new results": lambda: kernel(x, y)}
        for label, call in {**own, "the library's own, given": peer.add_into(x, y, z)}.items():
            taken = [_each(call, arrays.wait) for _ in range(args.repeat)]
            rows.append({"what": "launch", "by": label, "seconds": median(taken), "unit": "us", "rate": median(taken) * 1e6})
            print(f"{'launch':10} {'64 f32':>12}  {label:28} {median(taken) * 1e6:10.2f} us a call")
    if args.json:
        print(json.dumps({**about, "rows": rows}, indent=1))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--sizes", type=int, nargs="+", default=[4096, 8192], help="of products")
    parser.add_argument("--rows", type=int, default=16384, help="of the square arrays for bandwidth")
    parser.add_argument("--repeat", type=int, default=15, help="samples of each side")
    parser.add_argument("--only", type=lambda text: text.split(","), default=[], help="names, separated by commas")
    parser.add_argument(
        "--file", action="append", default=[], help="modules with schedules to measure too, as `std.schedules.gemm`"
    )
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def _each(call: Callable[[], Any], wait: Callable[[], Any], count: int = 2000) -> float:
    """Seconds of the calling thread for one call. The queue of launches holds 1024: it is emptied before it is full."""
    from time import perf_counter

    total = 0.0
    for _ in range(count // 500):
        wait()
        start = perf_counter()
        for _ in range(500):
            call()
        total += perf_counter() - start
    wait()
    return total / count


class _Torch:
    blas = "torch.matmul"

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False

    def name(self) -> str:
        return self.torch.cuda.get_device_name(0)

    def version(self) -> str:
        return f"torch {self.torch.__version__}"

    def random(self, shape: tuple[int, ...], dtype: str) -> Any:
        kind = {"f16": "float16", "bf16": "bfloat16", "f32": "float32"}[dtype]
        return (self.torch.rand(shape, device="cuda") - 0.5).to(getattr(self.torch, kind))

    def product(self, a: Any, b: Any) -> Callable[[], Any]:
        out = self.torch.empty((a.shape[0], b.shape[1]), dtype=a.dtype, device="cuda")
        return lambda: self.torch.matmul(a, b, out=out)

    def error(self, x: Any, want: Any) -> float:
        return float((x.float() - want.float()).abs().max() / want.float().abs().max())

    def same(self, name: str, inputs: list[Any]) -> Callable[[], Any]:
        t, x = self.torch, inputs[0]
        out = t.empty_like(x)
        return {
            "copy": lambda: out.copy_(x),
            "add": lambda: t.add(x, inputs[-1], out=out),
            "transpose": lambda: out.copy_(x.t()),
            "row_sum": lambda: x.sum(1),
            "softmax": lambda: t.softmax(x, 1),
        }[name]

    def copy(self, x: Any, moved: float) -> Callable[[], Any]:
        part = (
            x.reshape(-1)[: int(x.numel() * moved / 2)]
            if moved <= 2
            else self.torch.empty(int(x.numel() * moved / 2), device="cuda")
        )
        out = self.torch.empty_like(part)
        return lambda: out.copy_(part)

    def add_into(self, x: Any, y: Any, z: Any) -> Callable[[], Any]:
        return lambda: self.torch.add(x, y, out=z)


class _Cupy:
    blas = "cupy.matmul"

    def __init__(self, cupy: Any) -> None:
        self.cupy = cupy

    def name(self) -> str:
        return self.cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()

    def version(self) -> str:
        return f"cupy {self.cupy.__version__}"

    def random(self, shape: tuple[int, ...], dtype: str) -> Any:
        if dtype == "bf16":
            sys.exit("CuPy's products of bf16 are not measured; use --only, or install PyTorch")
        return (self.cupy.random.random(shape, dtype="f4") - 0.5).astype({"f16": "f2", "f32": "f4"}[dtype])

    def product(self, a: Any, b: Any) -> Callable[[], Any]:
        out = self.cupy.empty((a.shape[0], b.shape[1]), a.dtype)
        return lambda: self.cupy.matmul(a, b, out=out)

    def error(self, x: Any, want: Any) -> float:
        wide = want.astype("f4")
        return float(abs(x.astype("f4") - wide).max() / abs(wide).max())

    def same(self, name: str, inputs: list[Any]) -> Callable[[], Any]:
        c, x = self.cupy, inputs[0]
        out = c.empty_like(x)

        def softmax() -> Any:
            e = c.exp(x - x.max(1, keepdims=True))
            return c.divide(e, e.sum(1, keepdims=True), out=out)

        return {
            "copy": lambda: c.copyto(out, x),
            "add": lambda: c.add(x, inputs[-1], out=out),
            "transpose": lambda: c.copyto(out, x.T),
            "row_sum": lambda: x.sum(1),
            "softmax": softmax,
        }[name]

    def copy(self, x: Any, moved: float) -> Callable[[], Any]:
        part = self.cupy.empty(int(x.size * moved / 2), "f4")
        out = self.cupy.empty_like(part)
        return lambda: out.data.copy_from_device_async(part.data, part.nbytes)

    def add_into(self, x: Any, y: Any, z: Any) -> Callable[[], Any]:
        return lambda: self.cupy.add(x, y, out=z)


def _peer(arrays: Any) -> Any:
    return _Torch(arrays.torch) if arrays.name == "torch" else _Cupy(arrays.cupy)


if __name__ == "__main__":
    main()
