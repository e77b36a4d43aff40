"""Lines without a `compute` at their end are open as with an `auto` there: this pass adds it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...dsl import syntax
from ...dsl.support.fast_replace import replace

Lines = Sequence[syntax.Line]
Strategies = Mapping[str, syntax.StrategyDecl]


def append_auto(lines: Lines, outermost: str) -> tuple[syntax.Line, ...]:
    """Lines with strategies resolved; each launch's, where they break off, with an `auto` at their end.

    tile m: 64 -> block   -->   tile m: 64 -> block;  auto

    outermost   the memory that ends a launch: `keep T in <outermost>:` holds the lines of T's own
    """
    whole = tuple(_continued(x, outermost) for x in lines)
    return (*whole, syntax.AutoLine()) if lacks_compute(lines, outermost) else whole


def lacks_compute(lines: Lines | None, outermost: str, strategies: Strategies | None = None) -> bool:
    """Whether a launch's lines end before a `compute`, and no `auto` says that they do. No lines at all are none that end."""
    for x in reversed(lines or ()):
        if isinstance(x, syntax.Param | syntax.Inline) or _own(x, outermost):
            continue  # no line of this launch
        if isinstance(x, syntax.Apply):
            known = dict(strategies or {})
            strategy = known.pop(x.strategy, None)  # one that applies itself is another's mistake to report
            return strategy is not None and lacks_compute(strategy.lines, outermost, known)
        return not isinstance(x, syntax.Compute | syntax.AutoLine)
    return False


def _continued(line: syntax.Line, outermost: str) -> syntax.Line:
    block = _own(line, outermost)
    return replace(line, block=(*block, syntax.AutoLine())) if lacks_compute(block, outermost) else line


def _own(line: syntax.Line, outermost: str) -> tuple[syntax.Line, ...]:
    """The lines of a launch of its own."""
    return line.block or () if isinstance(line, syntax.Keep) and line.memory == outermost else ()
