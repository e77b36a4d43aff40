"""What the texts of instructions say in short: names that stand for something, and sequences.

A whole word of a text that is a name stands for its value; inside a word it is `${NAME}`. Braces take arithmetic on whole
numbers, as `${A - 1}`. `"r"(a[0]), ..., "r"(a[3])` are the four with 0, 1, 2 and 3.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from ..errors import did_you_mean
from ..errors.device import BadSequence, UnknownKindName, WrongKindValue
from ..source import Span

Value = int | float | str
_WORD = re.compile(r"\$\{([^{}\n]*)\}|\b\w+\b")
_SEQUENCE = re.compile(
    r"(?P<before>[^\s,{]*?)(?P<first>\d{1,9})(?P<after>[^\s,\d]*), \.\.\., (?P=before)(?P<last>\d{1,9})(?P=after)"
)
_MOST_ITEMS = 1024


class KindNames(Mapping[str, Value]):
    """What names stand for in one kind of an instruction. `used`: those that were asked for."""

    def __init__(self, values: Mapping[str, Value]) -> None:
        self._values = dict(values)
        self.used: set[str] = set()

    def __getitem__(self, name: str) -> Value:
        self.used.add(name)
        return self._values[name]

    def __iter__(self):
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, name: object) -> bool:
        return name in self._values


def fill_text(text: str, names: KindNames, span: Span | None) -> str:
    """The text with what the names stand for. Raises UnknownKindName, WrongKindValue."""

    def fill(found: re.Match[str]) -> str:
        if found[1] is not None:
            return _in_braces(found[1].strip(), names, span)
        return str(names[found[0]]) if found[0] in names else found[0]

    return _WORD.sub(fill, text)


def spell_out(text: str, span: Span | None) -> str:
    """The text with every item of its sequences. Raises BadSequence."""

    def items(found: re.Match[str]) -> str:
        first, last = int(found["first"]), int(found["last"])
        if last < first:
            help = "the last number is no less than the first"
            raise BadSequence(f"`{found[0]}` counts from {first} down to {last}", span, help=help)
        if last >= first + _MOST_ITEMS:
            raise BadSequence(f"`{found[0]}` has more than {_MOST_ITEMS} items", span, help="write fewer")
        return ", ".join(f"{found['before']}{n}{found['after']}" for n in range(first, last + 1))

    return _SEQUENCE.sub(items, text) if ", ..., " in text else text


def _in_braces(text: str, names: KindNames, span: Span | None) -> str:
    def number(x: ast.expr) -> int:
        match x:
            case ast.Constant(value=int() as n):
                return n
            case ast.Name(id=name):
                value = name_in(name, names, span)
                if isinstance(value, int):
                    return value
                raise WrongKindValue(f"`${{{text}}}` calculates, but `{name}` is {value}", span, help="give it a whole number")
            case ast.UnaryOp(op=ast.USub(), operand=a):
                return -number(a)
            case ast.BinOp(left=a, op=ast.Add(), right=b):
                return number(a) + number(b)
            case ast.BinOp(left=a, op=ast.Sub(), right=b):
                return number(a) - number(b)
            case ast.BinOp(left=a, op=ast.Mult(), right=b):
                return number(a) * number(b)
            case ast.BinOp(left=a, op=ast.Div(), right=b) if (divisor := number(b)) != 0:
                return number(a) // divisor
        raise _no_value(text, span)

    if re.fullmatch(r"[A-Za-z_]\w*", text):
        return str(name_in(text, names, span))
    try:
        return str(number(ast.parse(text, mode="eval").body))
    except (SyntaxError, RecursionError, ValueError, MemoryError):
        raise _no_value(text, span) from None


def name_in(name: str, names: KindNames, span: Span | None) -> Value:
    """What the name in braces stands for."""
    if name in names:
        return names[name]
    message = f"`${{{name}}}` stands for nothing: no `for` line of the instruction gives `{name}` a value"
    raise UnknownKindName(message, span, help=did_you_mean(name, names) or "write `for f16: ...` with a value for it")


def _no_value(text: str, span: Span | None) -> WrongKindValue:
    help = "braces have a name, or sums, differences, products and quotients of names and whole numbers"
    return WrongKindValue(f"`${{{text}}}` has no value", span, help=help)
