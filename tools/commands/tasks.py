"""Write the tuning tasks of a PyTorch model: the operators of its exported graph that the library computes, with their sizes.

MODULE is `package.module:function` or `file.py:function`. The function has no arguments, and gives a model and its inputs. Its
code is executed. A file of `torch.export.save`, `model.pt2`, will do as well.

Calls of the same op with the same sizes are one task, and their number is its weight. What no op of the library computes is
listed at the end of the file, with the reason. `andiron tune --tasks` reads the file.
"""

from __future__ import annotations

import argparse
import sys

from ...runtime.storage.files import expect_place, write_text
from ..options import add_json, positive
from ..terminal import complain, say_json

NAME = "tasks"
HELP = "write the tuning tasks of a PyTorch model"
EXAMPLES = (
    "andiron tasks --from-torch examples/torch_model.py:make -o tasks.toml",
    "andiron tasks --from-torch examples/torch_model.py:make --target cuda:sm_80 --top 20",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--from-torch", required=True, metavar="MODULE", help="the model, as `package.module:function`")
    parser.add_argument("-o", "--output", metavar="FILE", help="the file; default: the output stream")
    parser.add_argument("--target", action="append", metavar="TARGET", help="the target of all tasks; may be repeated (cpu)")
    parser.add_argument("--top", type=positive, metavar="N", help="the number of measured candidates of a task")
    parser.add_argument("--seconds", type=positive, metavar="S", help="the approximate time limit of a task")
    parser.add_argument("--threads", type=positive, metavar="N", help="the number of threads of a task")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    from ...dsl.module import std_module
    from ...runtime.compile import resolve_request
    from ..from_torch.collect import collect
    from ..from_torch.load_model import exported_program
    from ..from_torch.read_graph import decompose, read_nodes
    from ..from_torch.task_text import summary, task_text, unserved_lines

    targets = args.target or ["cpu"]
    if args.output:
        expect_place(args.output)
    for target in targets:
        resolve_request(std_module("ops.gemm"), "gemm", target=target)  # a mistake shows before the model is exported
    found = collect(read_nodes(exported_program(args.from_torch)), decompose)
    defaults = {"target": targets[0] if len(targets) == 1 else targets}
    text = task_text(found, args.from_torch, {**defaults, "top": args.top, "seconds": args.seconds, "threads": args.threads})
    if args.output:
        write_text(args.output, text)
    if args.json:
        say_json(found.as_dict())
        return 0
    if not args.output:
        sys.stdout.write(text)
    complain(summary(found))
    for line in unserved_lines(found):
        complain(f"  not served: {line}")
    return 0
