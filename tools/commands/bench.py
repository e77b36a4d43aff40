"""Time the schedules of an op alternately. With `--vs numpy`, compare with NumPy."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ...dsl.support.amounts import seconds_text
from ..options import add_choice, add_file, add_json, fixed_values, load_module, not_negative, positive, target_name
from ..terminal import complain, say_json

if TYPE_CHECKING:
    from ...dsl.op import Op
    from ...runtime.kernel import Kernel

NAME = "bench"
HELP = "time an op's schedules side by side"
EXAMPLES = ("andiron bench examples/gemm.sched --all --vs numpy --size M=256,N=256,K=256",)
THREAD_COUNTS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_file(parser)
    add_choice(parser)
    parser.add_argument("--vs", choices=["numpy"], help="compare with NumPy's matrix product, or with the reference")
    parser.add_argument("--all", action="store_true", help="time all schedules of the file for the op")
    parser.add_argument("--sweep", type=_sweep, metavar="N,N,...", help="time each of these values for all open sizes")
    parser.add_argument("--repeat", type=positive, default=15, metavar="N", help="samples of each schedule (15)")
    parser.add_argument("--threads", type=positive, metavar="N", help="the number of threads; default: all cores")
    parser.add_argument("--seed", type=not_negative, default=0, help="the seed of the random inputs")
    add_json(parser)


def _sweep(text: str) -> list[int]:
    try:
        return [positive(n) for n in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text}: expected whole numbers from 1 on, separated by commas") from None


def run(args: argparse.Namespace) -> int:
    if args.threads:  # NumPy's libraries ask once, when they are loaded
        for name in THREAD_COUNTS:
            os.environ.setdefault(name, str(args.threads))
    from ...runtime.compile import compile
    from ...runtime.devices import is_for_device, schedules_for

    module, fixed = load_module(args.file), fixed_values(args)
    target = target_name(args, module)
    first = compile(module, args.op, args.schedule, target, threads=args.threads, sizes=fixed)
    kernels = {args.schedule or "default": first}
    if args.all:
        for decl in schedules_for(module, first.op.name):
            if not is_for_device(decl, first.program.device, module):
                complain(f"note: `{decl.name}` is for {decl.device}, and left out")
                continue
            kernels[decl.name] = compile(module, first.op.name, decl.name, target, threads=args.threads, sizes=fixed)
    answers = [_compare(args, kernels, dims) for dims in _sizes(args, first.op, first.sizes)]
    for answer in answers if not args.json else ():
        _show(answer)
    if args.json:
        say_json(answers[0] if args.sweep is None else answers)
    return 0


def _sizes(args: argparse.Namespace, op: Op, given: Mapping[str, int]) -> list[dict[str, int]]:
    """The dims of each comparison."""
    from ...runtime.random_inputs import default_sizes

    if args.sweep is None:
        return [default_sizes(op, given)]
    return [{d.name: given.get(d.name, n) for d in op.dims} for n in args.sweep]


def _compare(args: argparse.Namespace, kernels: Mapping[str, Kernel], dims: dict[str, int]) -> dict[str, Any]:
    """All kernels, and the peer, at one choice of sizes."""
    from statistics import median

    from ...runtime.op_counts import argument_bytes, flops
    from ...runtime.random_inputs import random_inputs
    from ...runtime.timing import interleaved, ratio

    first = next(iter(kernels.values()))
    op = first.op
    sizes, inputs = op.all_sizes(dims), random_inputs(op, dims, args.seed)
    calls: dict[str, Callable[[], Any]] = {}
    placed = first.place(inputs)
    for name, kernel in kernels.items():
        results = kernel(*placed)
        calls[name] = lambda kernel=kernel, results=results: kernel(*placed, out=results)
    if args.vs:
        name, call = peer(op, inputs)
        calls[name] = call
    samples = dict(zip(calls, interleaved(list(calls.values()), args.repeat, first.wait), strict=True))
    mine = next(iter(samples))
    rows = []
    for name, taken in samples.items():
        time_s = median(taken)
        rows.append(
            {
                "name": name,
                "seconds": time_s,
                "gflops": flops(op, sizes) / time_s / 1e9,
                "gbytes": argument_bytes(op, sizes) / time_s / 1e9,
                "ratio": ratio(samples[mine], taken),
            }
        )
    report = first.report
    answer = {"op": op.name, "sizes": sizes, "target": first.target, "threads": report.threads, "compiler": report.compiler}
    return {**answer, "results": rows}


def peer(op: Any, inputs: list[Any]) -> tuple[str, Callable[[], Any]]:
    """What NumPy has for it: `numpy.einsum` for a plain product of tensors (through its BLAS), else the reference."""
    import numpy as np

    from ...dsl.semantics.reference import reference
    from ..einsum import einsum_of

    product = einsum_of(op)
    if product:
        subscripts, order = product
        wide = op.statements[0].value.dtype.numpy  # narrow types would be slow, and summed narrow, in NumPy
        operands = [inputs[i].astype(wide, copy=False) for i in order]
        matrices = _matrices(subscripts, operands)
        if matrices:
            out = np.empty((matrices[0].shape[0], matrices[1].shape[1]), wide)
            return "numpy.matmul", lambda: np.matmul(*matrices, out=out)
        return f"numpy.einsum {subscripts}", lambda: np.einsum(subscripts, *operands, optimize=True)
    return "reference", lambda: reference(op)(*inputs)


def _matrices(subscripts: str, operands: list[Any]) -> list[Any] | None:
    """Views of two operands whose product of matrices it is, if so: `einsum` costs more than a small product."""
    read, out = subscripts.split("->")
    parts = read.split(",")
    if len(parts) != 2 or len(out) != 2 or any(len(set(p)) != 2 or len(p) != 2 for p in parts):
        return None
    (x, a), (y, b) = sorted(zip(parts, operands, strict=True), key=lambda part: out[0] not in part[0])
    if set(x) & set(y) & set(out) or out[0] not in x or out[1] not in y:
        return None
    return [a if x[0] == out[0] else a.T, b if y[1] == out[1] else b.T]


def _show(answer: dict[str, Any]) -> None:
    rows = answer["results"]
    sizes = ", ".join(f"{n}={v}" for n, v in answer["sizes"].items())
    threads = f", threads {answer['threads']}" if answer["threads"] else ""
    print(f"{answer['op']}: {sizes}; {answer['target']}{threads}; {answer['compiler']}")
    width = max(len(r["name"]) for r in rows)
    for r in rows:
        said = "" if r is rows[0] else f"  {rows[0]['name']} is {r['ratio']:.2f}x as fast"
        rates = f"{r['gflops']:8.2f} GFLOP/s  {r['gbytes']:7.2f} GB/s"
        print(f"  {r['name']:<{width}}  {seconds_text(r['seconds']):>9}  {rates}{said}")
