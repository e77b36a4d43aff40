"""Text to syntax tree: `parse(source) -> syntax.File`.

The grammar is `grammar/sched.lark`; `builder` makes the nodes; `lines` turns newlines into lines and blocks. Lark builds its
tables once, at the first parse; nothing is kept on disk, since a cache of tables would have to be unpickled.
"""

from __future__ import annotations

import re
import threading
from functools import lru_cache
from importlib.resources import files
from typing import Any

from . import syntax
from .builder import Builder
from .errors.syntax import SyntaxFault
from .lines import LineLayout
from .source import Source, Span

_MAX_TEXT = 8 << 20  # characters; a file of schedules has thousands, and beyond this a parse takes minutes


class _Machine:
    """Lark's parser with the two objects it calls back; one parse at a time."""

    def __init__(self) -> None:
        from lark import Lark

        self.lock = threading.Lock()
        self.builder = Builder()
        self.layout = LineLayout()
        grammar = files(__package__).joinpath("../grammar/sched.lark").read_text(encoding="utf-8")
        self.lark = Lark(grammar, parser="lalr", postlex=self.layout, transformer=self.builder)  # type: ignore[arg-type]

    def run(self, source: Source) -> Any:
        with self.lock:
            self.builder.begin(source)
            self.layout.begin(source)
            return self.lark.parse(source.text + "\n")


@lru_cache(maxsize=1)
def machine() -> _Machine:
    return _Machine()


def normalise(source: Source) -> Source:
    """Without a byte order mark, and with `\\n` as the only line break."""
    text = source.text.removeprefix("\ufeff")
    if "\r" in text:
        text = re.sub(r"\r\n?", "\n", text)
    return source if text is source.text else Source(source.name, text, source.line_offset)


def parse(source: Source) -> syntax.File:
    """The declarations of a text, in order. Raises a `UserError`, or `UserErrors` when there are several."""
    from lark.exceptions import UnexpectedInput

    source = normalise(source)
    try:
        declarations = machine().run(source)
    except UnexpectedInput as fault:
        at = fault.pos_in_stream or 0
        raise SyntaxFault(str(fault), Span(source, at, at + 1)) from None
    machine().builder.diagnostics.raise_if_any()
    return syntax.File(tuple(declarations), source, span=Span(source, 0, len(source.text)))


def parse_text(text: str, name: str = "<string>") -> syntax.File:
    return parse(Source(name, text))
