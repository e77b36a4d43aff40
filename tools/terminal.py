"""Output of commands: diagnostics in colour on a terminal, JSON for programs, characters that the encoding has."""

from __future__ import annotations

import json
import os
import re
import sys
from typing import Any, TextIO

from ..dsl.errors import AndironError, UserError, UserErrors
from ..dsl.errors.verify import NotVerified
from ..dsl.support.printable import printable

_RED, _BLUE, _CYAN, _OFF = "\033[1;31m", "\033[1;34m", "\033[1;36m", "\033[0m"


def in_colour(stream: TextIO) -> bool:
    """Only on a terminal that understands it, and not where NO_COLOR asks for none (no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str) -> str:
    """A rendered diagnostic, coloured."""
    text = re.sub(r"^error\[[^\]]*\]", lambda m: f"{_RED}{m[0]}{_OFF}", text, flags=re.MULTILINE)
    text = re.sub(r"^( *)-->", rf"\1{_BLUE}-->{_OFF}", text, flags=re.MULTILINE)
    text = re.sub(r"^( *\| *)(\^+.*)$", rf"\1{_RED}\2{_OFF}", text, flags=re.MULTILINE)
    return re.sub(r"^  help:", f"{_CYAN}  help:{_OFF}", text, flags=re.MULTILINE)


def complain(error: AndironError | str) -> None:
    """A diagnostic, or a line of our own, on the error stream: it may quote what others wrote."""
    text = printable(str(error), kept="\n\t")
    print(paint(text) if in_colour(sys.stderr) else text, file=sys.stderr)


def say_json(value: Any) -> None:
    """One JSON value on the output stream."""
    print(json.dumps(value, indent=2, default=str))


def as_json(error: UserError | NotVerified) -> list[dict[str, Any]]:
    """Diagnostics for programs: id, message, file, line and column (both from 1), help."""
    found = error.errors if isinstance(error, UserErrors) else (error,)
    return [
        {
            "id": e.id,
            "message": e.message,
            "file": e.span.source.name if e.span else None,
            "line": e.span.line + e.span.source.line_offset if e.span else None,
            "column": e.span.column if e.span else None,
            "length": e.span.end - e.span.start if e.span else None,
            "help": e.help,
        }
        for e in found
    ]


def tolerant_streams() -> None:
    """Characters that the terminal's encoding lacks are escaped instead of ending the program."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure:
            reconfigure(errors="backslashreplace")


def apology(error: Exception) -> str:
    """What is said of an exception that is no diagnostic: the system's word, or that the fault is ours."""
    if isinstance(error, OSError) and error.strerror:
        return f"error[system]: {error.strerror}" + (f": {error.filename}" if error.filename else "")
    if isinstance(error, MemoryError):
        return (
            "error[memory]: this machine has too little memory for these sizes\n  help: give smaller sizes, or end other "
            "programs; where there is a limit (`ulimit -v`, a container's), raise it"
        )
    if isinstance(error, RecursionError):
        return "error[too-deep]: the text nests deeper than this program can follow"
    if isinstance(error, NotVerified):
        return str(error)
    said = error.message if isinstance(error, AndironError) else f"{type(error).__name__}: {error}"
    return (
        f"error[internal]: {said}\n  help: this is a fault of Andiron's, not of yours. Please report it, with "
        "the file and the command; ANDIRON_DEBUG=1 shows where"
    )
