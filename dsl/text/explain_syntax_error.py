"""From a fault of lark, at the state where the parser stopped, to an error with a name, a place and a way out.

Three sources, in this order: the characters (a bracket, a number, a reserved word); the malformed examples of the error
classes, matched by the state of the parser and its acceptable tokens; and these tokens alone.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ...grammar.words import words
from ..errors import syntax as errors
from ..errors import text as text_errors
from ..errors.base import Label, UserError, did_you_mean
from ..source import Source, Span
from . import phrase_book
from .versions import not_a_version

if TYPE_CHECKING:
    from .parser import ParserMachine

_PLAIN = {
    "\N{LEFT DOUBLE QUOTATION MARK}": '"',
    "\N{RIGHT DOUBLE QUOTATION MARK}": '"',
    "\N{LEFT SINGLE QUOTATION MARK}": '"',
    "\N{EN DASH}": "-",
    "\N{EM DASH}": "-",
    "\N{MINUS SIGN}": "-",
    "\N{MULTIPLICATION SIGN}": "*",
    "\N{DIVISION SIGN}": "/",
    "\N{RIGHTWARDS ARROW}": "->",
    "\N{LESS-THAN OR EQUAL TO}": "<=",
    "\N{GREATER-THAN OR EQUAL TO}": ">=",
    "\N{NOT EQUAL TO}": "!=",
    "\N{N-ARY SUMMATION}": "sum",
    "\N{NO-BREAK SPACE}": " ",
    "\N{MIDDLE DOT}": "*",
}
_HELP = {
    ";": "each line ends with its line; no `;` is needed",
    "'": 'strings stand in double quotes: `"..."`',
    "{": "indentation defines blocks",
    "}": "indentation defines blocks",
    "&": "write `and`",
    "|": "write `or`",
    "!": "write `not`",
    "^": "there is no power operator; write `x * x` or `pow(x, y)`",
    "\\": "a line goes on inside brackets",
    "@": "an op has no operator for matrix products; write the sum: `sum(k) A[m, k] * B[k, n]`",
}
_SMALL_WORDS = {"_OF": "of", "_ON": "on", "_AT": "at"}
_RESERVED = {"AUTO", "_ELSE", "AND", "OR", "NOT", "WORD_VALUE"}
_VALUE = {"NAME", "INT", "FLOAT", "LPAR", "WORD_VALUE", "NOT", "TEXT"}
_IN_REDUCTION = re.compile(r"\b(?:sum|prod|max|min|argmax|argmin|any|all)\s*\([^()]*$")
_LEFT_SIDE = re.compile(r"\n[ \t]+\w+\s*\[[^\[\]=]*$")
_DECLARATIONS = ("language", "import", "op", "device", "schedule", "strategy")
_LINES = ("tile", "move", "keep", "inline", "fuse", "compute", "apply", "param", "auto")
_MODIFIERS = (
    "unroll",
    "vector",
    "pipeline",
    "order",
    "raster",
    "arrange",
    "within",
    "pad",
    "swizzle",
    "layout",
    "peel",
    "by",
    "with",
    "multicast",
    "persistent",
    "online",
    "carry",
)


def explain_syntax_error(fault: Any, machine: ParserMachine) -> UserError:
    """The mistake behind lark's `UnexpectedToken` or `UnexpectedCharacters` of the machine's last run."""
    from lark.exceptions import UnexpectedToken

    if isinstance(fault, UnexpectedToken):
        return _Token(fault, machine).explain()
    at = (fault.pos_in_stream or 0) + machine.layout.base
    return character(machine.layout.source, at)


def character(source: Source, at: int) -> UserError:
    """The mistake of a character that begins nothing."""
    ch = source.text[at]
    span = Span(source, at, at + 1)
    if ch == '"':
        end = source.text.find("\n", at)
        span = Span(source, at, len(source.text) if end < 0 else end)
        return text_errors.UnclosedString(
            "this string does not end", span, help='a string ends on its line; a longer text stands in """ ... """'
        )
    name = unicodedata.name(ch, "") or f"U+{ord(ch):04X}"
    plain = _PLAIN.get(ch) or unicodedata.normalize("NFKC", ch)
    way = _HELP.get(ch)
    if plain != ch and plain.isascii() and plain.isprintable():
        way = f"write `{plain}`"
    elif not way and ch.isalpha():
        way = "names are made of A-Z, a-z, 0-9 and `_`"
    shown = f"`{ch}` ({name.lower()})" if ch.isprintable() and not ch.isspace() else f"the character {name.lower()}"
    return text_errors.StrangeCharacter(f"{shown} means nothing here", span, help=way or "leave it out")


class _Token:
    """One unexpected token and what surrounds it."""

    def __init__(self, fault: Any, machine: ParserMachine) -> None:
        self.layout = machine.layout
        self.source = machine.layout.source
        self.machine = machine
        self.token = fault.token
        self.type: str = fault.token.type
        self.position = fault.interactive_parser.parser_state.position
        self.accepts = frozenset(fault.interactive_parser.accepts())
        end = self.layout.base + len(self.layout.text)
        self.start = end if self.type == "$END" else fault.token.start_pos or 0
        self.stop = end if self.type == "$END" else fault.token.end_pos or self.start
        before = [t for t in self.layout.tokens[-3:] if (t.start_pos or 0) < self.start and t.type != "_NL"]
        self.before = before[-1] if before else None
        self.language = next((t for t in before[-2:] if t.type == "LANGUAGE"), None)
        self.at_line_end = self.type in ("_NL", "$END", "_DEDENT")
        here = self.source.text[: self.start].rpartition("\n")[2]
        self.begins_line = not here.strip() and not self.at_line_end

    # ------------------------------------------------------------ how it is shown

    @property
    def span(self) -> Span:
        if self.at_line_end and self.before is not None:
            return Span(self.source, self.before.end_pos or 0, (self.before.end_pos or 0) + 1)
        if self.type == "_INDENT":
            line_end = self.source.text.find("\n", self.stop)
            return Span(self.source, self.stop, line_end if line_end > 0 else len(self.source.text))
        return Span(self.source, self.start, self.stop)

    @property
    def found(self) -> str:
        if self.at_line_end:
            return "the end of the line"
        text = str(self.token)
        return f"`{text if len(text) <= 40 else text[:40] + '...'}`"

    def make(self, cls: type[errors.Malformed], *, help: str | None = None, span: Span | None = None) -> UserError:
        before = f"`{self.before}`" if self.before is not None else "the start"
        wanted = next((f"`{w}`" for t, w in _SMALL_WORDS.items() if t in self.accepts), "a word")
        message = cls.message.format(found=self.found, before=before, wanted=wanted)
        return cls(message, span or self.span, help=help or cls.way or None)

    # ------------------------------------------------------------ what it is

    def explain(self) -> UserError:
        return (
            self._version()
            or self._brackets()
            or self._text()
            or self._words()
            or self._device_line()
            or self._example()
            or self._expected()
        )

    def _version(self) -> UserError | None:
        """The rest of a line that begins with `language`."""
        if self.language is None or "\n" in self.source.text[self.language.end_pos : self.start]:
            return None
        after = self.language.end_pos or 0
        line, column = self.source.position(after)
        rest = self.source.line(line)[column - 1 :].split("#")[0]
        start = after + len(rest) - len(rest.lstrip())
        said = rest.strip()
        return not_a_version(said, Span(self.source, start, start + len(said)) if said else Span(self.source, after, after + 1))

    def _brackets(self) -> UserError | None:
        open_ = self.layout.open
        if open_ and (self.type in ("$END", "_DEDENT") or self._never_closed(open_[-1])):
            opener = open_[-1]
            return text_errors.UnclosedBracket(
                f"`{opener}` is never closed",
                Span(self.source, opener.start_pos or 0, opener.end_pos or 0),
                labels=() if self.at_line_end else [Label(self.span, "read as part of it")],
                help=f"close it with `{')' if opener == '(' else ']'}`",
            )
        if self.type not in ("RPAR", "RSQB"):
            return None
        if not open_:
            return text_errors.MismatchedBracket(f"`{self.token}` closes nothing", self.span, help="take it away")
        wanted = "RPAR" if open_[-1].type == "LPAR" else "RSQB"
        if wanted != self.type:
            return text_errors.MismatchedBracket(
                f"`{self.token}` closes `{open_[-1]}`",
                self.span,
                help=f"write `{')' if wanted == 'RPAR' else ']'}`",
                labels=[Label(Span(self.source, open_[-1].start_pos or 0, open_[-1].end_pos or 0), "opened here")],
            )
        return None

    def _never_closed(self, opener: Any) -> bool:
        start = opener.start_pos - self.layout.base
        depth = 0
        for match in re.finditer(r'"""[\s\S]*?"""|"(?:[^"\\\n]|\\.)*"|#[^\n]*|[(\[\])]', self.layout.text[start:]):
            depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(match.group(), 0)
            if depth == 0:
                return False
        return True

    def _text(self) -> UserError | None:
        """Indentation, numbers and reserved words."""
        before: Any = self.before
        if self.type == "_INDENT":
            return text_errors.UnexpectedIndent(
                "this line is indented, and the one above opens no block",
                self.span,
                help="a line that ends with `:` opens a block" if self.before is None or self.before != ":" else None,
            )
        if "_INDENT" in self.accepts and before is not None and before.type == "_COLON":
            line = self.source.position(before.start_pos)[0]
            start = before.start_pos - self.source.position(before.start_pos)[1] + 1
            text = self.source.line(line)
            at = start + len(text) - len(text.lstrip())
            way = errors.EmptyBlock.optional if text.split()[0] in ("keep", "move") else None  # lines that need no block
            return self.make(errors.EmptyBlock, span=Span(self.source, at, before.end_pos), help=way)
        if before is not None and before.end_pos == self.start and not self.at_line_end:
            number = re.match(r"[0-9][0-9A-Za-z_.]*", self.source.text[before.start_pos :])
            follows = ("NAME", "INT", "FLOAT", "_DOT", "HYPHENATED", "UNIT")
            if before.type in ("INT", "FLOAT") and self.type in follows and number:
                return self._number(number.group(), before.start_pos)
        if self.type == "_DOT" and re.match(r"\.[0-9]", self.source.text[self.start : self.start + 2]):
            number = re.match(r"\.[0-9A-Za-z_.]*", self.source.text[self.start :])
            return self._number(number.group() if number else ".", self.start)
        if self.type in _RESERVED and "NAME" in self.accepts:
            return text_errors.ReservedWord(
                f"`{self.token}` is a reserved word and cannot be a name", self.span, help="choose another name"
            )
        return None

    def _number(self, text: str, start: int) -> UserError:
        way = "numbers are decimal: 12, 0.5, 1e-5"
        if re.match(r"0[xXbo]", text):
            way = "numbers are decimal"
        elif match := re.fullmatch(r"([0-9]+)([A-Za-z_][A-Za-z0-9_]*)", text):
            way += f"; a product is written `{match[1]} * {match[2]}`"
        elif re.fullmatch(r"[0-9]*\.[0-9]*", text):
            way = f"write `{text if text[0] != '.' else '0' + text}{'0' if text[-1] == '.' else ''}`"
        shown = text if len(text) <= 40 else text[:40] + "..."
        return text_errors.BadNumber(f"`{shown}` is not a number", Span(self.source, start, start + len(text)), help=way)

    def _words(self) -> UserError | None:
        """Misspelt or misplaced keywords, and signs that mean a range."""
        above, brackets = self.source.text[: self.start], self.layout.open
        reduction = bool(brackets and _IN_REDUCTION.search(above))
        before = self.before
        if before is not None and before == self.token == "=" and before.end_pos == self.start and "ADD_EQ" not in self.accepts:
            both = Span(self.source, self.start - 1, self.stop)
            return errors.MissingEquals("`=` is missing before `==`", both, help=errors.MissingEquals.way)
        if brackets and self.token == ":" and (brackets[-1] == "[" or reduction):
            return self.make(errors.MisplacedRange)
        if "SCHEDULE" in self.accepts and "TILE" not in self.accepts and not str(self.token).isidentifier():
            return self.make(errors.UnknownDeclaration)
        if self.type not in ("NAME", "DEVICE_NAME") and not str(self.token).isalpha():
            return None
        word = str(self.token)
        if word == "in" and (reduction or _LEFT_SIDE.search(above)):
            return self.make(errors.RangeByIn, help=None if reduction else "write `[i: size]`: i runs from 0 to size - 1")
        if "SCHEDULE" in self.accepts and "TILE" not in self.accepts:
            if word in _LINES:
                return self.make(errors.UnknownDeclaration, help=f"`{word}` is a line of a schedule: indent it below one")
            return self.make(errors.UnknownDeclaration, help=did_you_mean(word, _DECLARATIONS))
        if "TILE" in self.accepts:
            if word in _DECLARATIONS:
                return self.make(errors.UnknownLine, help=f"`{word}` stands at the left edge")
            return self.make(errors.UnknownLine, help=_line(word))
        if "UNROLL" in self.accepts:
            rest = self.source.text[self.stop : self.stop + 100].lstrip(" \t")
            following = rest[:1]
            if following == ":" and {"_COMMA", "_ARROW"} <= self.accepts:
                return self.make(errors.MissingComma, help=f"write `, {word}:` to tile one more index")
            if word in phrase_book.SCHEDULES:
                return self.make(errors.UnknownModifier, help=phrase_book.SCHEDULES[word])
            near = difflib.get_close_matches(word, _MODIFIERS, n=1, cutoff=0.75)
            if word in _LINES and not near:
                return self.make(errors.OneLineEach)
            if "_ARROW" in self.accepts and "LPAR" not in self.accepts and not near:
                return self.make(errors.MissingArrow) if "_EVERY" not in self.accepts else None
            if "_IN" in self.accepts and not near:
                if self.before == "in":
                    span = Span(self.source, self.before.start_pos or 0, self.before.end_pos or 0)
                    return errors.MissingName("a name is missing before `in`", span, help="write `keep C in register`")
                return self.make(errors.MissingComma if re.match(r",|in\b", rest) else errors.MissingIn)
            return self.make(errors.UnknownModifier, help=did_you_mean(word, _MODIFIERS))
        return None

    def _example(self) -> UserError | None:
        table = _examples(self.machine)
        cls = table.get((self.position, self.accepts, self.type)) or table.get((self.position, self.accepts, ""))
        if cls is None or (cls in (errors.MissingComma, errors.MissingOperator) and self.type not in _VALUE):
            return None
        if cls is errors.MissingEquals and str(self.before) in phrase_book.OPS:
            return self.make(cls, help=phrase_book.OPS[str(self.before)])
        if cls is errors.MissingOperator and self.token == "if":
            return self.make(cls, help="a choice between values is written `where(condition, a, b)`")
        if cls is errors.MissingValue and self.token == "*" and self.before == "*":
            return self.make(cls, help="a power is written `pow(x, 2.0)`, or as a product")
        return self.make(cls)

    def _device_line(self) -> UserError | None:
        """A line of a device whose first word is misspelt reads like a figure, and then breaks off."""
        if str(self.token) != ":" or "SCHEDULE" in self.accepts:
            return None
        start = self.source.text.rfind("\n", 0, self.start) + 1
        first = re.match(r"[ \t]+(\w+)[ \t]+\w+", self.source.text[start : self.start])
        if first is None or first[1] in words().device_lines:
            return None
        near = did_you_mean(first[1], words().device_lines) or ""
        if not near.startswith("did you mean"):
            return None
        span = Span(self.source, start + first.start(1), start + first.end(1))
        return errors.UnknownLine(f"`{first[1]}` begins no line of a device", span, help=near)

    def _expected(self) -> UserError:
        """From what the parser could have taken."""
        takes = self.accepts
        if "TIMES" in takes and self.type in _VALUE:
            return self.make(errors.MissingOperator if "OR" in takes or "_COMMA" not in takes else errors.MissingComma)
        if self.type == "COMPARE" and "TIMES" in takes:
            return self.make(errors.ChainedComparison)
        if "INT" in takes and self.type not in _VALUE:
            return self.make(errors.MissingValue)
        if "_COLON" in takes and self.at_line_end:
            return self.make(errors.MissingColon)
        if takes & {"NAME", "DEVICE_NAME"} and self.type not in ("NAME", "DEVICE_NAME"):
            return self.make(errors.MissingName)
        shown = sorted({_shown(t, self.machine) for t in takes} - {""})
        return self.make(errors.Malformed, help="what can stand here: " + ", ".join(shown[:10]) if shown else None)


_SHOWN = {
    "_NL": "the end of the line",
    "$END": "",
    "_INDENT": "an indented block",
    "_DEDENT": "",
    "NAME": "a name",
    "INT": "a number",
    "FLOAT": "a number",
    "TEXT": "a string",
    "WORD_VALUE": "",
    "DEVICE_NAME": "a device",
    "HYPHENATED": "a name",
    "UNIT": "a unit",
    "MINUS": "`-`",
    "TIMES": "`*`",
    "COMPARE": "`<=`",
}


def _shown(terminal: str, machine: ParserMachine) -> str:
    if terminal in _SHOWN:
        return _SHOWN[terminal]
    return f"`{machine.lark.get_terminal(terminal).pattern.value}`"


@lru_cache(maxsize=1)
def _examples(machine: ParserMachine) -> dict[tuple[int, frozenset[str], str], type[errors.Malformed]]:
    """(state, what it accepts, what came) to the class whose example stops there; "" stands for anything that came."""
    from lark.exceptions import UnexpectedToken

    table: dict[tuple[int, frozenset[str], str], type[errors.Malformed]] = {}
    for cls in errors.Malformed.__subclasses__():
        for example in cls.examples:
            try:
                machine.attempt(Source("example", example), example, 0)
            except UnexpectedToken as fault:
                state = fault.interactive_parser.parser_state.position
                accepts = frozenset(fault.interactive_parser.accepts())
                table.setdefault((state, accepts, fault.token.type), cls)
                table.setdefault((state, accepts, ""), cls)
    return table


def _line(word: str) -> str:
    """The way out for a word that begins no line of a schedule."""
    if word in phrase_book.SCHEDULES:
        return phrase_book.SCHEDULES[word]
    if word in _MODIFIERS:
        return f"`{word}` is said at the end of another line, of the `tile`, `move` or `keep` that it changes"
    near = difflib.get_close_matches(word, _LINES, n=1, cutoff=0.6)
    return f"did you mean `{near[0]}`?" if near else f"lines begin with {', '.join(f'`{x}`' for x in _LINES)}"
