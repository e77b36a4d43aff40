"""The command line. One file a command; each has NAME, HELP, EXAMPLES, `add_arguments(parser)` and `run(args) -> exit status`.

Exit status: 0 when all is well, 1 for a fault of the user's (with a diagnostic), 2 for wrong usage. Never a traceback, unless
ANDIRON_DEBUG asks for one.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Sequence

from .. import __version__
from ..dsl.errors import UserError
from . import bench, build, cache, check, complete, emit, explain, fmt, run, targets, tune
from .lsp import main as lsp
from .repl import main as repl
from .terminal import apology, as_json, complain, say_json, tolerant_streams
from .view import main as view

COMMANDS = (run, check, fmt, complete, emit, build, explain, view, bench, tune, repl, lsp, targets, cache)


EXAMPLES = ("andiron run examples/gemm.sched", "andiron run --help")


class _Help(argparse.HelpFormatter):
    """Examples stay as they are written, a line each."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if text.startswith("examples:") else super()._fill_text(text, width, indent)


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    about = "Schedules for tensor kernels in which data movement is visible."
    top = argparse.ArgumentParser("andiron", description=about, epilog=_shown(EXAMPLES), formatter_class=_Help)
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
    args = top.parse_args(argv)
    if args.command is None:
        top.print_help(sys.stderr)
        return 2
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: complain(f"warning: {message}")
        return _run(args)


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


if __name__ == "__main__":
    sys.exit(main())
