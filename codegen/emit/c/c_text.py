"""Prints the tree of statements: a line each, with the indentation of its blocks.

An `if` or a loop of one short statement is one line (`join_short`). An `else` that contains an `if` alone is an `else if`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ....dsl.errors import InternalError
from ....dsl.source import Span
from .c_tree import (
    Assign,
    AssignAll,
    Block,
    Comment,
    Declaration,
    Declarations,
    Directive,
    ExprStatement,
    For,
    If,
    SetPart,
    Statement,
)

INDENT = "    "


class PrintedLine(NamedTuple):
    """`span`: the part of the schedule that it comes from."""

    text: str
    span: Span | None


def printable(text: str) -> str:
    """One line that a comment can hold: no line splice at its end, nothing unprintable."""
    text = text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)
    return text.rstrip("\\ ").replace("??/", "? ?/")


def print_statements(stmts: Sequence[Statement]) -> list[PrintedLine]:
    out: list[PrintedLine] = []
    _print(stmts, "", out)
    return out


def printed_spans(text: str, bodies: Iterable[tuple[str, Sequence[PrintedLine]]]) -> dict[int, Span]:
    """Lines of a text, from 1 on, each with the part of the schedule that it was printed for.

    bodies  of each function: how the line above its first one begins, and its lines
    """
    texts = text.splitlines()
    spans: dict[int, Span] = {}
    for head, lines in bodies:
        first = next(n for n, line in enumerate(texts, 1) if line.startswith(head)) + 1
        spans |= {first + n: line.span for n, line in enumerate(lines) if line.span is not None}
    return spans


def print_texts(stmts: Sequence[Statement]) -> list[str]:
    return [line.text for line in print_statements(stmts)]


def _print(stmts: Sequence[Statement], indent: str, out: list[PrintedLine]) -> None:
    for s in stmts:
        if isinstance(s, If) and not s.short:
            _print_if(s, indent, out)
        elif isinstance(s, Block) or (isinstance(s, For) and not s.short):
            out.append(PrintedLine(f"{indent}{_head(s)}{{", s.span))
            _print(s.body, indent + INDENT, out)
            out.append(PrintedLine(indent + (s.footer if isinstance(s, Block) else "}"), None))
        else:
            out.append(PrintedLine(indent + line_of(s), s.body[0].span if isinstance(s, (If, For)) else s.span))


def _print_if(s: If, indent: str, out: list[PrintedLine]) -> None:
    out.append(PrintedLine(f"{indent}if ({s.condition}) {{", s.span))
    while True:
        _print(s.body, indent + INDENT, out)
        match s.orelse:
            case [If(short=False) as other]:
                out.append(PrintedLine(f"{indent}}} else if ({other.condition}) {{", other.span))
                s = other
                continue
            case [_, *_]:
                out.append(PrintedLine(f"{indent}}} else {{", None))
                _print(s.orelse, indent + INDENT, out)
        break
    out.append(PrintedLine(f"{indent}}}", None))


def _head(s: For | Block) -> str:
    if isinstance(s, Block):
        return f"{s.head} " if s.head else ""
    grow = f"{s.name}++" if s.step == "1" else f"{s.name} += {s.step}"
    return f"for ({s.type} {s.name} = {s.start}; {s.name} < {s.stop}; {grow}) "


def line_of(s: Statement) -> str:
    """A statement of one line."""
    match s:
        case Declaration():
            sizes = "".join([f"[{n}]" for n in s.sizes])
            value = "" if s.value is None else f" = {s.value}"
            return f"{'const ' if s.const else ''}{s.type} {s.name}{sizes}{value};{_noted(s.note)}"
        case Declarations():
            return f"{s.type} {', '.join([name if value is None else f'{name} = {value}' for name, value in s.variables])};"
        case Assign():
            return f"{s.target} {s.op}= {s.value};"
        case AssignAll():
            return f"{' = '.join(s.targets)} = {s.value};"
        case SetPart():
            return f"m_set_part_{s.element}({s.word}, {s.part}, {s.value});"
        case ExprStatement():
            return f"{s.value};{_noted(s.note)}"
        case Comment():
            return f"// {s.text}"
        case Directive():
            return s.text
        case If(short=True):
            return f"if ({s.condition}) {line_of(s.body[0])}"
        case For(short=True):
            return f"{_head(s)}{line_of(s.body[0])}"
    raise InternalError(f"{type(s).__name__} is not one line")


def _noted(note: str) -> str:
    return f"  // {note}" if note else ""
