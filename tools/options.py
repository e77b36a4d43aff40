"""Options that several commands share."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..dsl.errors.target import BadAssignment
from ..runtime.storage.files import read_text
from .size_arguments import assignments
from .terminal import complain

if TYPE_CHECKING:
    from ..dsl.module import Module
    from ..runtime.compile import CompileRequest
    from ..runtime.kernel import Kernel


def add_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a .sched file, `-` for the input stream")


def add_choice(parser: argparse.ArgumentParser) -> None:
    """What of the file to compile, and for what."""
    parser.add_argument("--op", help="the op; needed only when the file has several")
    parser.add_argument(
        "--schedule", help="the schedule; default: the first of the file that fits, otherwise the compiler's own"
    )
    parser.add_argument(
        "--target", help="the target (see `andiron targets`); default: the device of `--schedule`, otherwise this machine"
    )
    parser.add_argument("--size", "--sizes", action="append", default=[], metavar="M=N,...", help="fix sizes at compile time")
    parser.add_argument("--param", action="append", default=[], metavar="P=N,...", help="values of integer parameters")


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def add_old_spellings(parser: argparse.ArgumentParser, spellings: Mapping[str, str]) -> None:
    """Options of yesterday do what those of today do, with a note; `--help` does not show them. Call it after the new ones."""
    new = {s: a for a in parser._actions for s in a.option_strings}  # argparse has no public way to ask

    class Renamed(argparse.Action):
        def __call__(self, _parser: Any, namespace: Any, _values: Any, option: str | None = None) -> None:
            old = option or self.option_strings[0]
            today = spellings[old] if old in spellings else "--no-" + spellings["--" + old[5:]][2:]
            complain(f"note: `{old}` is now `{today}`; the old spelling goes away with the next version")
            setattr(namespace, new[today].dest, not today.startswith("--no-"))

    for old, today in spellings.items():
        both = isinstance(new[today], argparse.BooleanOptionalAction)
        flags = (old, f"--no-{old[2:]}") if both else (old,)
        parser.add_argument(*flags, action=Renamed, nargs=0, dest=argparse.SUPPRESS, help=argparse.SUPPRESS)


def positive(text: str) -> int:
    """The type of counts on the command line."""
    return _at_least(1, text)


def not_negative(text: str) -> int:
    """The type of seeds on the command line."""
    return _at_least(0, text)


def _at_least(least: int, text: str) -> int:
    number = int(text)
    if number < least:
        raise argparse.ArgumentTypeError(f"{text} is less than {least}")
    return number


def load_module(path: str) -> Any:
    """The module of a file, or of the input stream for `-`. Raises the file's diagnostics."""
    from ..dsl.module import load, loads

    return loads(read_text("-"), "<stdin>", base=".") if path == "-" else load(path)


def fixed_values(args: argparse.Namespace) -> dict[str, int]:
    """`--size` and `--param` together."""
    sizes, params = assignments(args.size, "size"), assignments(args.param, "parameter")
    if both := sizes.keys() & params.keys():
        raise BadAssignment(f"`{min(both)}` is given twice", help="by `--size` or by `--param`: leave one out")
    return sizes | params


def target_name(args: argparse.Namespace, module: Module) -> str:
    """What is compiled for: what is asked for, what the schedule names, or this machine."""
    from .infer_target import infer_target

    named = module.schedules.get(args.schedule)
    if args.target is None and named is not None and named.device is not None:
        return infer_target(named.device, module)
    return "cpu" if args.target is None else args.target


def request_of(args: argparse.Namespace) -> CompileRequest:
    """What the arguments ask for, looked up: nothing is compiled."""
    from ..runtime.compile import resolve_request

    module = load_module(args.file)
    return resolve_request(module, args.op, args.schedule, target_name(args, module), None, fixed_values(args))


def kernel_of(args: argparse.Namespace, threads: int | None = None, checks: bool = True) -> Kernel:
    """The kernel that the arguments ask for, not built yet."""
    from ..runtime.compile import compile

    module = load_module(args.file)
    target = target_name(args, module)
    kernel = compile(module, args.op, args.schedule, target, threads=threads, checks=checks, sizes=fixed_values(args))
    for note in kernel.notes - {str(kernel.tuned)}:  # of that, each command has its own way to tell
        complain(f"note: {note}")
    return kernel
