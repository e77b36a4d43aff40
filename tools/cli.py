"""The command line. One file a command; each has NAME, HELP, EXAMPLES, `add_arguments(parser)` and `run(args) -> exit status`.

Exit status: 0 for success, 1 for a user's error (with a diagnostic), 2 for wrong usage. There is no traceback without
ANDIRON_DEBUG.
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import signal
import sys
import warnings
from collections.abc import Sequence
from typing import NoReturn

from .. import __version__
from ..dsl.errors import UserError
from .commands import bench, build, cache, check, complete, db, emit, explain, fmt, run, targets, tasks, tune
from .lsp import main as lsp
from .repl import main as repl
from .terminal import apology, as_json, complain, say_json, tolerant_streams
from .view import main as view

COMMANDS = (run, check, fmt, complete, emit, build, explain, view, bench, tune, tasks, repl, lsp, targets, cache, db)


EXAMPLES = ("andiron run examples/gemm.sched", "andiron run --help")


class _Parser(argparse.ArgumentParser):
    """Proposes the nearest word for one that it does not know."""

    def error(self, message: str) -> NoReturn:
        wrong = re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message)
        if wrong:
            near = difflib.get_close_matches(wrong[1], re.findall(r"[\w.:-]+", wrong[2]), n=1)
            message += f"; did you mean `{near[0]}`?" if near else ""
        super().error(message)


class _Help(argparse.HelpFormatter):
    """Examples stay as they are written, a line each."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if text.startswith("examples:") else super()._fill_text(text, width, indent)


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    about = "Schedules for tensor kernels in which data movement is visible."
    top = _Parser("andiron", description=about, epilog=_shown(EXAMPLES), formatter_class=_Help)
    top.add_argument("--version", action="version", version=f"andiron {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND")
    for command in COMMANDS:
        sub = commands.add_parser(
            command.NAME,
            help=command.HELP,
            description=command.__doc__,
            epilog=_shown(command.EXAMPLES),
            formatter_class=_Help,
        )
        command.add_arguments(sub)
        sub.set_defaults(run=command.run)
    return top


def _shown(examples: Sequence[str]) -> str:
    return "\n".join(["examples:", *(f"  {line}" for line in examples)])


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; the exit status. Usage errors leave through SystemExit, as argparse does."""
    tolerant_streams()
    top = parser()
    args, unknown = top.parse_known_args(argv)
    if args.command is None and not unknown:
        top.print_help(sys.stderr)
        return 2
    if unknown:
        _refuse(top, args, unknown)
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: complain(f"warning: {message}")
        return _run(args)


def _refuse(top: argparse.ArgumentParser, args: argparse.Namespace, unknown: Sequence[str]) -> NoReturn:
    """Leaves for arguments that the command does not have."""
    (commands,) = (a.choices for a in top._actions if isinstance(a.choices, dict))
    command: argparse.ArgumentParser = commands.get(args.command, top)
    options = [x for a in command._actions for x in a.option_strings if x.startswith("--")]
    near = difflib.get_close_matches(unknown[0].partition("=")[0], options, n=1)
    command.error(f"unrecognized arguments: {' '.join(unknown)}" + (f"; did you mean `{near[0]}`?" if near else ""))
    raise SystemExit(2)


def _run(args: argparse.Namespace) -> int:
    try:
        status = args.run(args)
        if not sys.stdout.closed:  # the language server's stream ends with its session
            sys.stdout.flush()
        return status
    except BrokenPipeError:
        # The reader of our output has seen enough. What Python flushes at its end must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        complain("interrupted")
        return 130
    except UserError as error:
        if getattr(args, "json", False):
            say_json({"errors": as_json(error)})
        complain(error)
        return 1
    except Exception as error:
        if os.environ.get("ANDIRON_DEBUG"):
            raise
        complain(apology(error))
        return 1


def program() -> int:
    """`main`, as a process of its own. Once the command has ended, Ctrl-C ends the process without a word.

    Python then waits for threads, as of compilers, and nobody is there to catch what Ctrl-C would raise.
    """
    try:
        try:
            return main()
        finally:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
    except KeyboardInterrupt:  # before the command began, or while it said that it was interrupted
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        return 130


if __name__ == "__main__":
    sys.exit(program())
