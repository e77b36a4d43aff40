"""Several errors at once: after a fault, the declarations are parsed one by one, and inside each the faulty lines are left out.

A declaration whose first line is faulty is skipped; a faulty line is skipped with the block below it. Skipped text causes no
further errors, and neither does a block that becomes empty.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..errors.base import Diagnostics, UserError
from ..errors.syntax import EmptyBlock
from ..errors.text import TabIndent, UnclosedBracket, UnclosedString
from ..source import Source
from .explain_syntax_error import explain_syntax_error

if TYPE_CHECKING:
    from .parser import ParserMachine

MOST_ERRORS = 20
_PATIENCE = 200_000  # characters read again, at most, to find more mistakes than the first
_TOKEN = re.compile(r'"""[\s\S]*?"""|"(?:[^"\\\n]|\\.)*"|#[^\n]*|[(\[\])]|\n(?=[ \t]*\S)')
_DECLARATION = re.compile(r"(?:language|import|op|device|schedule|strategy)\b")


def syntax_mistakes(source: Source, machine: ParserMachine, first: UserError) -> UserError:
    """All mistakes of syntax in a text, of which the parser found `first` at once."""
    found = Diagnostics()
    patience = _PATIENCE
    for start, end in chunks(source.text):
        patience = _chunk(source, start, end, machine, found, patience)
        done = len(found.errors) >= MOST_ERRORS or patience < 0
        if done or any(isinstance(e, TabIndent) for e in found.errors):  # one tab is like another
            break
    if not found.errors:
        found.add(first)
    try:
        found.raise_if_any()
    except UserError as error:
        return error
    raise AssertionError


def chunks(text: str) -> Iterator[tuple[int, int]]:
    """Where the declarations of a text begin and end, as far as it can be told from a text that may be malformed."""
    edge = re.match(r"(?:[ \t]*(?:#[^\n]*)?\n)*([ \t]*)", text)
    margin = edge.group(1) if edge else ""
    start = edge.end() - len(margin) if edge else 0
    depth = 0
    for match in _TOKEN.finditer(text):
        token = match.group()
        if token in "([":
            depth += 1
        elif token in ")]":
            depth = max(0, depth - 1)
        elif token == "\n" and text.startswith(margin, match.end()):
            at = match.end() + len(margin)
            begins = _DECLARATION.match(text, at)
            if begins or (depth == 0 and (text[at].isalpha() or text[at] == "_") and not text.startswith("where", at)):
                yield start, match.end()
                start = match.end()
                depth = 0
    yield start, len(text)


def _chunk(source: Source, start: int, end: int, machine: ParserMachine, found: Diagnostics, patience: int) -> int:
    text = source.text[start:end]
    left_out = False
    while len(found.errors) < MOST_ERRORS:
        patience -= len(text)
        fault = attempt(source, text, start, machine)
        if fault is None or (left_out and isinstance(fault, EmptyBlock)):
            break
        found.add(fault)
        if patience < 0 or isinstance(fault, UnclosedBracket | UnclosedString | TabIndent) or fault.span is None:
            break
        text, changed = _without(text, fault.span.start - start)
        if not changed:
            break
        left_out = True
    for error in machine.builder.diagnostics.errors:
        found.add(error)
    return patience


def attempt(source: Source, text: str, start: int, machine: ParserMachine) -> UserError | None:
    from lark.exceptions import UnexpectedInput

    try:
        machine.attempt(source, text, start)
    except UnexpectedInput as fault:
        diagnostics = machine.builder.diagnostics
        error = explain_syntax_error(fault, machine)  # runs the machine on examples
        machine.builder.diagnostics = diagnostics
        return error
    except UserError as error:
        return error
    return None


def _without(text: str, at: int) -> tuple[str, bool]:
    """The text with the line at `at`, and the lines deeper than it, blanked; False if that is the declaration's first."""
    lines = text.split("\n")
    row = text.count("\n", 0, at)
    first = next((i for i, line in enumerate(lines) if line.strip() and not line.lstrip().startswith("#")), 0)
    if row <= first or not lines[row].strip():
        return text, False

    def depth(line: str) -> int:
        return len(line) - len(line.lstrip())

    last = row + 1
    while last < len(lines) and (not lines[last].strip() or depth(lines[last]) > depth(lines[row])):
        last += 1
    lines[row:last] = [" " * len(line) for line in lines[row:last]]
    return "\n".join(lines), True
