"""Reports of steps that take long once, for users at a terminal."""

from __future__ import annotations

import sys
from contextlib import suppress


def show_progress(what: str) -> None:
    """A line on the error stream, if a person may be looking at it: in a file, or a pipe, it would only be in the way."""
    with suppress(OSError, ValueError, AttributeError):  # no stream, or a closed one
        if sys.stderr.isatty():
            print(f"andiron: {what}", file=sys.stderr, flush=True)
