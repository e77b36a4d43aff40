"""Compile an op, run it on random inputs, compare with the reference, and time it."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from ...dsl.errors.emulate import NotEmulated
from ...dsl.errors.target import NoDevice
from ...dsl.support.amounts import seconds_text
from ..options import add_choice, add_file, add_json, add_old_spellings, kernel_of, not_negative, positive
from ..terminal import say_json

if TYPE_CHECKING:
    from ...runtime.compile import CompileRequest
    from ...runtime.kernel import Kernel

NAME = "run"
HELP = "compile, run, check and time an op"
EXAMPLES = (
    "andiron run examples/gemm.sched --size M=500,N=300,K=700",
    "andiron run examples/gemm.sched --target emulate:sm_80 --size M=100,N=90,K=80 --count",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_file(parser)
    add_choice(parser)
    parser.add_argument(
        "--compare", action=argparse.BooleanOptionalAction, default=True, help="compare the results with the reference"
    )
    parser.add_argument(
        "--repeat", type=positive, metavar="N", help="timed samples; the median is printed (7, under the emulator 1)"
    )
    parser.add_argument("--threads", type=positive, metavar="N", help="the number of threads; default: all cores")
    parser.add_argument("--seed", type=not_negative, default=0, help="the seed of the random inputs")
    parser.add_argument("--count", action="store_true", help="count bytes, transactions, bank conflicts (under the emulator)")
    parser.add_argument(
        "--sanitize",
        action=argparse.BooleanOptionalAction,
        help="check for races and wrong accesses (the emulator's default)",
    )
    add_old_spellings(parser, {"--check": "--compare", "--checks": "--sanitize", "--report": "--count"})
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    if (args.target or "").startswith("emulate"):
        from ...runtime.emulator.build import build_runtime_early

        build_runtime_early()
    kernel = kernel_of(args, args.threads, args.sanitize is not False)
    if args.sanitize and kernel.variants[0].target.family.launcher != "emulator":
        message = f"`--sanitize`: {kernel.target} runs without checks of its accesses"
        raise NotEmulated(message, help="run under the emulator: `--target emulate:DEVICE`")
    kernel.counting = args.count
    try:
        answer = measure(kernel, args.repeat, args.compare, args.seed)
    except NoDevice as error:
        help = (error.help or "").replace("the target `emulate:DEVICE`", f"`--target emulate:{kernel.program.device.name}`")
        raise NoDevice(error.message, help=help) from None
    counts = kernel.report.counts
    if not answer.get("ok", True):
        answer["reproduce"] = _again(args, kernel, answer)
    if args.json:
        say_json(answer | ({"counts": counts.as_dict()} if counts else {}))
    else:
        print(table(answer) + (f"\n\n{counts}" if counts else ""))
    return 0 if answer.get("ok", True) else 1


def _again(args: argparse.Namespace, kernel: Kernel, answer: dict[str, Any]) -> str:
    """The command that does the same again, with all that was chosen written down."""
    sizes = {d.name: answer["sizes"][d.name] for d in kernel.op.dims}
    words = ["andiron", "run", args.file, "--op", answer["op"], "--schedule", answer["schedule"], "--target", answer["target"]]
    words += ["--size", ",".join(f"{n}={v}" for n, v in sizes.items())] if sizes else []
    words += [x for p in args.param for x in ("--param", p)] + ["--seed", str(args.seed)]
    words += ["--threads", str(args.threads)] if args.threads else []
    return shlex.join(words)


def scheduled_sizes(kernel: Kernel) -> dict[str, int]:
    """Sizes to try a kernel with: the fixed ones, and for the others such that the schedule tried first takes them."""
    from ...codegen.schedule.size_bounds import with_bounds
    from ...runtime.random_inputs import default_sizes

    first = kernel.request.schedules[0] if kernel.request is not None else None
    where = first.where if first is not None else ()
    op = kernel.op
    if kernel.request is not None and where:
        bounded = {v.name: v for v in with_bounds(kernel.request.special, where).dims}
        op = replace(op, dims=tuple(bounded.get(v.name, v) for v in op.dims))
    return default_sizes(op, kernel.sizes, lambda sizes: kernel.variants[0].refusal(sizes) is None)


def schedule_for(kernel: Kernel, sizes: Mapping[str, int]) -> str:
    """The name of the schedule that a call with these sizes runs by; `auto` is the compiler's own."""
    at = next(i for i, v in enumerate(kernel.variants) if v.refusal(sizes) is None or i == len(kernel.variants) - 1)
    request = kernel.request
    decl = request.schedules[at] if request is not None and at < len(request.schedules) else None
    own = decl is None or (request is not None and decl.name not in (*request.module.schedules, *_asked_for(request)))
    return "auto" if own or decl is None else decl.name


def _asked_for(request: CompileRequest) -> tuple[str, ...]:
    return (request.named.name,) if request.named is not None else ()


def measure(kernel: Kernel, repeat: int | None = None, check: bool = True, seed: int = 0) -> dict[str, Any]:
    """Runs a kernel on random inputs: what it took, and, with `check`, whether its results are right.

    repeat  timed samples; None: 7, and under the emulator, whose times say nothing of a GPU, the one call that is checked
    """
    from statistics import median

    from ...runtime import check_results
    from ...runtime.op_counts import argument_bytes, flops
    from ...runtime.random_inputs import random_inputs
    from ...runtime.timing import interleaved, seconds

    op = kernel.op
    dims = scheduled_sizes(kernel)
    sizes = op.all_sizes(dims)
    guessed = [n for n in dims if n not in kernel.sizes]
    inputs = random_inputs(op, dims, seed)
    placed = kernel.place(inputs)
    emulated = kernel.variants[0].target.family.launcher == "emulator"
    results: Any = ()

    def first() -> None:
        nonlocal results
        results = kernel(*placed)

    if emulated:
        kernel.prepare(sizes)
    samples = [seconds(first)]
    results = results if isinstance(results, tuple) else (results,)
    kernel.counting = False  # the first call has counted; others are timed
    found = check_results.check(op, inputs, kernel.fetch(results)) if check else None
    if repeat or not emulated:
        samples = interleaved([lambda: kernel(*placed, out=results)], repeat or 7, kernel.wait)[0]
    time_s = median(samples)
    report = kernel.report
    answer: dict[str, Any] = {
        "op": op.name,
        "sizes": sizes,
        "schedule": schedule_for(kernel, sizes),
        "target": kernel.target,
        "device": report.device,
        "emulated": emulated,
        "checks": emulated and kernel.variants[0].checks,
        "threads": report.threads,
        "compiler": report.compiler,
        "cached": report.cached,
        "seconds": time_s,
        "samples": samples,
        "gflops": flops(op, sizes) / time_s / 1e9,
        "gbytes": argument_bytes(op, sizes) / time_s / 1e9,
        "notes": [f"sizes chosen by default: {', '.join(guessed)}"] if guessed else [],
    }
    if found:
        answer |= {"ok": found.ok, "error": found.error, "allowed": found.allowed}
        if found.wrong:
            answer["wrong"] = [asdict(w) for w in found.wrong]
        answer["notes"] += [found.note] if found.note else []
    answer["notes"] += [str(kernel.tuned)] if kernel.tuned else []
    return answer


def table(answer: dict[str, Any]) -> str:
    """A measurement as people read it."""
    from ...runtime.check_results import WrongElements

    sizes = ", ".join(f"{n}={v}" for n, v in answer["sizes"].items())
    rates = f"{answer['gflops']:.2f} GFLOP/s, {answer['gbytes']:.2f} GB/s"
    if answer["emulated"]:
        rates = "in the emulator: no figure of a GPU"
    checks = ", without checks" if answer["emulated"] and not answer["checks"] else ""
    threads = f", threads {answer['threads']}" if answer["threads"] else ""
    median = f" (median of {n})" if (n := len(answer["samples"])) > 1 else ""
    own = "the compiler's own"
    lines = [
        f"{answer['op']}: {sizes}",
        f"  target    {answer['target']} ({answer['device']}){threads}{checks}",
        f"  schedule  {own if answer['schedule'] == 'auto' else answer['schedule']}",
        f"  compiler  {answer['compiler']}{' (from the cache)' if answer['cached'] else ''}",
        f"  time      {seconds_text(answer['seconds'])}, {rates}{median}",
        *(f"  note      {note}" for note in answer["notes"]),
    ]
    if "ok" in answer:
        said = "OK" if answer["ok"] else "FAIL"
        lines.append(f"  check     {said}: largest error {answer['error']:.3g}, allowed there {answer['allowed']:.3g}")
    lines += [f"            {WrongElements(**w)}" for w in answer.get("wrong", ())]
    if not answer.get("ok", True):
        lines += ["  help      a schedule never changes results: this is a fault of Andiron's, not of yours. Please report it,"]
        lines += ["            with the file" + (" and this command:" if "reproduce" in answer else "")]
        lines += [f"            {answer['reproduce']}"] if "reproduce" in answer else []
    return "\n".join(lines)
