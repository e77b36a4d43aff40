"""Serve editors: diagnostics as you type, hover, completion, definitions, rename, formatting, and what was filled in."""

from __future__ import annotations

import argparse

from ..terminal import complain

NAME = "lsp"
HELP = "serve editors (the language server protocol)"
EXAMPLES = ("andiron lsp --stdio",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--stdio", action="store_true", help="use standard input and output (the default)")


def run(args: argparse.Namespace) -> int:
    try:
        from .server import ending, server
    except ImportError:
        complain("the language server needs one more package: pip install 'andiron[lsp]'")
        return 1
    server.start_io()
    return 1 if ending.unasked else 0
