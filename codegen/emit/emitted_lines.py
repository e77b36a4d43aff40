"""From a line of an emitted text to the line of the schedule."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...dsl.source import Span


@dataclass(frozen=True)
class EmittedLine:
    """`line`: of the emitted text, from 1 on, 0 when not known; `span`: of the schedule."""

    line: int
    text: str
    span: Span | None


NOWHERE = EmittedLine(0, "", None)


class EmittedLines:
    """source  the text
    spans   what `printers.line_spans` says of it
    """

    def __init__(self, source: str, spans: Mapping[int, Span]) -> None:
        self.texts = source.splitlines()
        self._spans = spans
        self._known = sorted(spans)

    def of(self, lines: Sequence[int]) -> EmittedLine:
        """The place of an instruction: that of the kernel, where functions are inlined.

        lines  the line that it was made from, then the line of the call that this was inlined at, and so on outwards
        """
        known = [n for n in lines if n in self._spans]
        best = known[-1] if known else lines[-1] if lines else 0
        if not 0 < best <= len(self.texts):
            return NOWHERE
        return EmittedLine(best, self.texts[best - 1].strip(), self._span(best))

    def _span(self, line: int) -> Span | None:
        """What stands for no part of the schedule, as barriers do, stands for what comes after it."""
        at = bisect_left(self._known, line)
        if at == len(self._known) or "}" in (x[:1] for x in self.texts[line - 1 : self._known[at] - 1]):
            return None
        return self._spans[self._known[at]]
