"""Removes declarations that nothing uses: compilers warn of them, and they puzzle readers.

Their values have no effects. It goes from the last statement up, so that declarations for removed ones are removed as well.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from .c_tree import Declaration, Statement, map_bodies


def remove_dead(stmts: Sequence[Statement], after: Collection[str] = ()) -> list[Statement]:
    """Statements without declarations whose name is used neither later in their block nor in `after`, names of what follows."""
    return live_statements(stmts, after)[0]


def live_statements(stmts: Sequence[Statement], after: Collection[str] = ()) -> tuple[list[Statement], set[str]]:
    """As `remove_dead`, with the names that the statements mention."""
    out: list[Statement] = []
    used: set[str] = set()

    def block(stmts: Sequence[Statement]) -> list[Statement]:
        live, inside = live_statements(stmts)
        used.update(inside)
        return live

    for s in reversed(stmts):
        if isinstance(s, Declaration) and s.value is not None and s.name not in used and s.name not in after:
            continue
        out.append(map_bodies(s, block))
        used.update(s.mentioned)
    return out[::-1], used
