"""Text to syntax tree: `parse(source) -> syntax.File`.

The grammar is `grammar/sched.lark`; `builder` makes the nodes; `indentation` turns newlines into lines and blocks;
`explain_syntax_error` and `recover` make errors of faults. Lark builds its tables once, at the first parse, in about a tenth of
a second; nothing is kept on disk, since a cache of tables would have to be unpickled.
"""

from __future__ import annotations

import re
from functools import lru_cache
from importlib.resources import files
from typing import IO, TYPE_CHECKING, Any

from ... import grammar
from .. import syntax
from ..errors.base import UserError, UserErrors
from ..errors.text import LineTooLong, NestedTooDeep, NotSched, NotText, NotUtf8, TextTooLarge
from ..source import Source, Span
from ..support.collector import postpone_collection
from ..support.forks import ForkLock
from .builder import Builder
from .explain_syntax_error import character, explain_syntax_error
from .indentation import MANY_OPERATORS, LineLayout
from .recover import syntax_mistakes
from .versions import refuse_newer

if TYPE_CHECKING:
    from lark import Token

_MOST_TEXT = 2_000_000  # characters; a large file of schedules has tens of thousands
_MOST_BYTES = 4 * _MOST_TEXT
MOST_STRAY = 4  # mistakes that are told one by one in a file without a declaration
_DECLARATION = re.compile(r"^[ \t]*(?:language[ \t]+[0-9]|(?:import|op|device|schedule|strategy)\b)", re.MULTILINE)
_KIND = "a `.sched` file"
_HEAD = 8192  # bytes at the beginning, by which a file is known not to be text
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069\ufeff]")  # also those that reorder what is shown
_LONG_LINE = re.compile(r"[^\n]{20001}")
_MOST_OPERATORS = 150  # inside each other: later passes walk trees by recursion


class ParserMachine:
    """Lark's parser with the two objects it calls back. One parse at a time: hold `lock`."""

    def __init__(self) -> None:
        from lark import Lark

        self.lock = ForkLock()
        self.builder = Builder()
        self.layout = LineLayout()
        text = files(grammar).joinpath("sched.lark").read_text(encoding="utf-8")
        self.lark = Lark(text, parser="lalr", postlex=self.layout, transformer=self.builder)  # type: ignore[arg-type]

    def attempt(self, source: Source, text: str, base: int) -> list[Any]:
        """The statements of `text`, which stands at `base` in `source`. Raises lark's faults."""
        self.builder.begin(source)
        self.layout.begin(source, text, base)
        with postpone_collection():  # a third of the time
            return self.lark.parse(text + "\n")  # type: ignore[return-value]


@lru_cache(maxsize=1)
def parser_machine() -> ParserMachine:
    return ParserMachine()


def parse(source: Source) -> syntax.File:
    """The declarations of a text, in order. Raises a `UserError`, or `UserErrors` when there are several."""
    return read(source)[0]


def read(source: Source) -> tuple[syntax.File, list[Token]]:
    """The same with the tokens, newlines among them; their positions are in the source of the result."""
    from lark.exceptions import UnexpectedInput

    source = normalise(source)
    refuse_newer(source)
    _refuse_monsters(source)
    parser = parser_machine()
    with parser.lock.held():
        try:
            statements = parser.attempt(source, source.text, 0)
            found, tokens = parser.builder.diagnostics, parser.layout.tokens
            if parser.layout.most_operators > MANY_OPERATORS:
                _refuse_depth(tuple(statements))
        except UnexpectedInput as fault:
            raise syntax_mistakes(source, parser, explain_syntax_error(fault, parser)) from None
        except UserError as fault:
            raise syntax_mistakes(source, parser, fault) from None
    found.raise_if_any()
    language = next((s for s in statements if isinstance(s, syntax.Language)), None)
    declarations = tuple(s for s in statements if not isinstance(s, syntax.Language))
    return syntax.File(declarations, source, language, span=Span(source, 0, len(source.text))), tokens


def parse_file(source: Source) -> syntax.File:
    """As `parse`, of what a file has, which may be any file. Raises NotSched where it is another kind of text altogether."""
    try:
        return parse(source)
    except UserErrors as faults:
        if len(faults.errors) <= MOST_STRAY or _DECLARATION.search(source.text):
            raise
        raise NotSched(
            f"{source.name} is no `.sched` file: none of its lines begins a declaration",
            faults.errors[0].span,
            help="a file is made of `op`, `device`, `schedule`, `strategy` and `import`",
        ) from None


def parse_text(text: str, name: str = "<string>") -> syntax.File:
    return parse(Source(name, text))


def read_bytes(file: IO[bytes], name: str, kind: str = _KIND) -> bytes:
    """What is in a file, also where it has no end. Raises NotText, TextTooLarge, OSError.

    kind  what the file should be, in words
    """
    data = file.read(_MOST_BYTES + 1)
    _refuse_binary(data, name, kind)
    if len(data) > _MOST_BYTES:
        raise TextTooLarge(
            f"{name} has more than {_MOST_BYTES:,} bytes, which is more than is read",
            help="split it into files that import each other, if it is a `.sched` file",
        )
    return data


def _refuse_binary(data: bytes, name: str, kind: str = _KIND) -> None:
    if 0 in data[:_HEAD]:
        raise NotText(f"{name} is no text: it has a byte 0", help=f"name {kind}, saved as UTF-8")


def decode(data: bytes, name: str, kind: str = _KIND) -> Source:
    """The source of a file's bytes, or an error that says where they are not UTF-8. `kind` is as for `read_bytes`."""
    _refuse_binary(data, name, kind)
    try:
        return Source(name, data.decode("utf-8"))
    except UnicodeDecodeError as fault:
        text = data[: fault.start].decode("utf-8") + "\N{REPLACEMENT CHARACTER}"
        source = Source(name, text)
        raise NotUtf8(
            f"the byte 0x{data[fault.start]:02x} is not UTF-8",
            Span(source, len(text) - 1, len(text)),
            help="save the file as UTF-8",
        ) from None


def normalise(source: Source) -> Source:
    """Without a byte order mark, and with `\\n` as the only line break."""
    text = source.text.removeprefix("\ufeff")
    if "\r" in text:
        text = re.sub(r"\r\n?", "\n", text)
    return source if text is source.text else Source(source.name, text, source.line_offset)


def _refuse_monsters(source: Source) -> None:
    """What no person wrote is refused before time is spent on it."""
    if len(source.text) > _MOST_TEXT:
        raise TextTooLarge(
            f"{source.name} has {len(source.text):,} characters; at most {_MOST_TEXT:,} are read",
            help="split it into files that import each other",
        )
    if unseen := _UNSEEN.search(source.text):
        raise character(source, unseen.start())
    if long := _LONG_LINE.search(source.text):
        raise LineTooLong(
            "this line is longer than 20,000 characters",
            Span(source, long.start(), long.end()),
            help="break it inside brackets",
        )


def parse_schedule(text: str, name: str = "<candidate>") -> syntax.ScheduleDecl:
    """The schedule of a text that has one. Raises what `parse` raises, and ValueError where there is none or several.

    name  of the text, for diagnostics
    """
    (found,) = (d for d in parse(Source(name, text)).declarations if isinstance(d, syntax.ScheduleDecl))
    return found


def _refuse_depth(declarations: tuple[Any, ...]) -> None:
    """Expressions nested so deep that a recursive walk over them could overflow the stack. Walks without recursion."""
    todo = [(part, 0) for part in declarations]
    while todo:
        part, depth = todo.pop()
        if isinstance(part, tuple):
            todo.extend((p, depth) for p in part)
        elif isinstance(part, syntax.Node):
            if depth > _MOST_OPERATORS:
                raise NestedTooDeep(
                    f"more than {_MOST_OPERATORS} operators inside each other",
                    part.span,
                    help="give a part of the expression a name: an op may have as many statements as it likes",
                )
            todo.extend((value, depth + 1) for name, value in vars(part).items() if name != "span")
