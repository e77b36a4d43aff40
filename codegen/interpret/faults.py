"""Faults that the interpreter reports: errors of lowering, never of the author."""

from __future__ import annotations

from typing import Literal

from ...dsl.errors.base import InternalError
from ...dsl.source import Span
from ..ir.printer import show_statement
from ..ir.tile_ir import Stmt


class Fault(InternalError):
    """A tile program did something that has no meaning.

    kind    out-of-bounds | uninitialised | race | in-flight | divergent-barrier | divergent-call | divergent-reduce |
            replica-mismatch | interval | never-written | misaligned | malformed
    buffer  the buffer concerned, or ""
    stmt    the statement that was executed when it was found, None at the end of the program
    """

    def __init__(self, kind: str, message: str, buffer: str = "", stmt: Stmt | None = None) -> None:
        self.kind = kind
        self.buffer = buffer
        self.stmt = stmt
        super().__init__(f"{kind}: {message}" + ("" if stmt is None else f"\n  in: {describe(stmt)}"))


class Reports:
    """Raises the first fault, or collects one of each kind, buffer and statement."""

    def __init__(self, on_fault: Literal["raise"] | list[Fault]) -> None:
        self._sink = on_fault
        self._seen: set[tuple[str, str, int]] = set()

    def add(self, fault: Fault) -> None:
        if isinstance(self._sink, str):
            raise fault
        key = (fault.kind, fault.buffer, id(fault.stmt))
        if key not in self._seen:
            self._seen.add(key)
            self._sink.append(fault)


def describe(stmt: Stmt) -> str:
    """The statement and the schedule line it comes from."""
    span: Span | None = stmt.span
    text = show_statement(stmt)
    if span is None:
        return text
    line, _ = span.source.position(span.start)
    return f"{text}   ({span.source.name}:{line + span.source.line_offset}: {span.source.line(line).strip()})"
