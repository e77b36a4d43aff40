"""Explain a schedule without running it: each line with the spec it leaves, footprints, bytes moved, predicted time. For a GPU
with an installed compiler, also its registers, spills and occupancy. With `--sass` also its machine code: the
instructions of the main loop, and for GPUs of NVIDIA what a model of one SM says of their cycles."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ...dsl.errors import UserError
from ...dsl.errors.target import CompilerFailed, NoCompiler
from ...runtime.storage.files import write_text
from ..options import add_choice, add_file, add_json, kernel_of, positive
from ..terminal import say_json

if TYPE_CHECKING:
    from ...runtime.gpu.resource_usage import ResourceUsage
    from ...runtime.kernel import Kernel
    from ...runtime.machine_code.main_loop_report import MainLoopReport
    from ..tuning.learned_times import LearnedTimes

NAME = "explain"
HELP = "show the effect of each line of a schedule, without running it"
EXAMPLES = (
    "andiron explain examples/gemm.sched --size M=512,N=512,K=512",
    "andiron explain examples/gemm.sched --schedule auto --target cuda:sm_80 --size M=512,N=512,K=512 --candidates -o why.svg",
    "andiron explain examples/gemm.sched --schedule auto --target cuda:sm_80 --size M=512,N=512,K=512 --sass",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_file(parser)
    add_choice(parser)
    add_json(parser)
    parser.add_argument(
        "--candidates",
        nargs="?",
        type=positive,
        const=8,
        metavar="N",
        help="list the best N candidates of each launch, with their costs, and with the times of a model that learned",
    )
    parser.add_argument("--mappings", action="store_true", help="list the mappings of the indices of instructions")
    parser.add_argument("--sass", action="store_true", help="count instructions of the machine code, for NVIDIA cycles too")
    parser.add_argument("-o", "--output", metavar="SVG", help="also write a picture: roofline, tiles, candidates")


def run(args: argparse.Namespace) -> int:
    kernel = kernel_of(args)
    if args.output:
        from ..pictures.choice_picture import choice_picture

        write_text(args.output, choice_picture(kernel))
        print(f"wrote {args.output}", file=sys.stderr if args.json else sys.stdout)
    if args.mappings:
        return _mappings(kernel, args.json)
    sass = _sass(kernel) if args.sass else []
    compiled = _compiled(kernel)
    facts = kernel.variants[0].facts
    choices, alternatives = (facts.get(x, ()) for x in ("choices", "alternatives"))
    checks = [(x, facts[x]) for x in ("coverage", "contributions") if facts.get(x)]
    if args.json:
        said = {"compiled": _as_json(compiled)} if compiled else {}
        said |= dict(checks)
        said |= {"sass": [k.as_dict() for k in sass]} if sass else {}
        why: dict[str, Any] = {"schedule_from": _source(kernel)}
        why |= {"choices": [asdict(c) for c in choices]} if choices else {}
        why |= {"alternatives": [asdict(c) for c in alternatives]} if alternatives else {}
        if args.candidates and (learned := _learned(kernel, args.candidates)):
            why |= {"learned": learned.as_dict()}
        say_json({**kernel.report.as_dict(), **said, **why, "schedule": kernel.schedule})
        return 0
    from ...codegen.lower.schedule_trace import show_trace
    from ...runtime.report import report_table

    print(show_trace(kernel.trace))
    print(report_table([*kernel.report.rows(), *checks, *_rows(compiled)]))
    for k in sass:
        print("\n" + report_table(k.rows()))
    if args.candidates:
        from ...codegen.autoschedule.report import show_launch_report

        for c in (*alternatives, *choices):
            print("\n" + show_launch_report(c, args.candidates))
        if not choices:
            print("\nno candidates: the author wrote all lines, or they come from the default nests")
        if learned := _learned(kernel, args.candidates):
            print(f"\n{learned}")
    return 0


def _learned(kernel: Kernel, count: int) -> LearnedTimes | None:
    """What a trained model says of the candidates, where tuning uses one."""
    from ..tuning.learned_times import learned_times

    return learned_times(kernel, count)


def _source(kernel: Kernel) -> dict[str, Any]:
    """Where the schedule of the first variant is from: `file`, `model`, `tuning` or `database`."""
    if kernel.tuned is not None:
        return {**kernel.tuned.as_dict(), "note": str(kernel.tuned)}
    request = kernel.request
    return {"source": "file" if request is not None and request.is_authored(request.schedules[0]) else "model"}


def _mappings(kernel: Kernel, json: bool) -> int:
    """`--mappings`: what instructions could stand for, with the model's verdicts."""
    from ...codegen.autoschedule.mapping_verdicts import mapping_verdicts, show_verdicts
    from ...dsl.ops.specialise import specialise

    found = mapping_verdicts(specialise(kernel.op, kernel.sizes), kernel.variants[0].program.device)
    if json:
        say_json({name: [asdict(v) for v in verdicts] for name, verdicts in found})
    else:
        print(show_verdicts(found))
    return 0


def _sass(kernel: Kernel) -> list[MainLoopReport]:
    """`--sass`: the machine code of the first variant. Raises NoDisassembler, NoCompiler, CompilerFailed."""
    from ...runtime.machine_code.main_loop_report import main_loop_reports

    return main_loop_reports(kernel.variants[0], kernel.report.sizes)


def _compiled(kernel: Kernel) -> list[ResourceUsage] | UserError | None:
    """What a compiler for the GPU says of the first variant; why there is none; None for a kernel of the CPU."""
    first = kernel.variants[0]
    if first.target.family.launcher != "driver":
        return None
    from ...runtime.gpu.resource_usage import resource_usage

    try:
        return resource_usage(first)
    except (NoCompiler, CompilerFailed) as error:
        return error


def _as_json(compiled: list[ResourceUsage] | UserError) -> Any:
    return [k.as_dict() for k in compiled] if isinstance(compiled, list) else {"note": compiled.message}


def _rows(compiled: list[ResourceUsage] | UserError | None) -> list[tuple[str, object]]:
    if compiled is None:
        return []
    if not isinstance(compiled, list):
        return [("note", f"not compiled: {compiled.message}" + (f"; {compiled.help}" if compiled.help else ""))]
    return [row for kernel in compiled for row in kernel.rows()]
