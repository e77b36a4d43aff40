"""Build schedules one line at a time: after each, see what is left to compute, where tensors are, what it costs."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from typing import TYPE_CHECKING

from ...dsl.errors import UserError
from ..terminal import apology, complain, in_colour

if TYPE_CHECKING:
    from .session import Session

NAME = "repl"
HELP = "build schedules line by line"
EXAMPLES = ("andiron repl examples/gemm.sched",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", nargs="?", help="a .sched file to begin with")
    parser.add_argument("--target", help="the target (see `andiron targets`); default: the device of the schedule")


def run(args: argparse.Namespace) -> int:
    from .session import Session

    here = Session(target=args.target)
    talks = sys.stdin.isatty() and sys.stdout.isatty()
    if talks:
        here.say("Andiron. `help` lists what can be said; Tab completes, Ctrl-C clears the line, Ctrl-D leaves.")
    if args.file is not None:
        here.feed(f"load {_quoted(args.file)}")
    return _converse(here) if talks else _read(here)


def _read(session: Session) -> int:
    """Cells from the input stream. 1 when one of them was wrong; the others were taken all the same."""
    from .session import cells

    status = 0
    for cell in cells(sys.stdin):
        if not _take(session, cell):
            status = 1
        if session.over:
            break
    return status


def _converse(session: Session) -> int:
    try:
        from .prompt import print_code, prompt
    except ImportError:
        complain("the prompt needs two packages more: pip install 'andiron[repl]'; input from a pipe works without them")
        return 1
    if in_colour(sys.stdout):
        session.say_code = print_code
    asked = prompt(session)
    kept = ""
    while not session.over:
        try:
            cell = asked.prompt("> ", default=kept)
        except KeyboardInterrupt:
            kept = ""
            continue
        except EOFError:
            break
        kept = "" if _take(session, cell) else cell.rstrip("\n")  # what was wrong is there to be mended
    return 0


def _take(session: Session, cell: str) -> bool:
    """Whether a cell was right; what is wrong with it is said."""
    try:
        session.feed(cell)
    except KeyboardInterrupt:
        complain("interrupted")
    except Exception as error:  # a fault of ours must not end what others have begun
        if os.environ.get("ANDIRON_DEBUG"):
            raise
        complain(error if isinstance(error, UserError) else apology(error))
        return False
    return True


def _quoted(path: str) -> str:
    return shlex.quote(path)
