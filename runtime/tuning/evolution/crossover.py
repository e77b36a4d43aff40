"""`crossover`: a schedule with the lines of two others."""

from __future__ import annotations

from random import Random

from ....dsl import syntax
from ....dsl.support.fast_replace import replace
from .mutation_space import Lines, Path, blocks, with_block


def crossover(a: syntax.ScheduleDecl, b: syntax.ScheduleDecl, rng: Random) -> syntax.ScheduleDecl | None:
    """The first with some lines of the second: a block that both have, as that of a launch, or lines that stand in the same
    place and are of the same indices. None where they have nothing to exchange."""
    theirs = {_address(b.lines, path): block for path, block in blocks(b.lines)}
    shared = [
        (path, block, theirs[address])
        for path, block in blocks(a.lines)
        if theirs.get(address := _address(a.lines, path), block) != block
    ]
    if not shared:
        return None
    path, mine, other = rng.choice(shared)
    if not path:
        mixed = _mixed(mine, other, rng)
        return replace(a, lines=mixed) if mixed not in (None, a.lines, b.lines) else None
    return replace(a, lines=with_block(a.lines, path, other))


def _address(lines: Lines, path: Path) -> tuple[str, ...]:
    """What the lines around a block are for: it is alike in both schedules, wherever the lines stand."""
    out: list[str] = []
    for n in path:
        line = lines[n]
        out.append(_kind(line))
        lines = getattr(line, "block", None) or ()
    return tuple(out)


def _kind(line: syntax.Line) -> str:
    match line:
        case syntax.Tile():
            return f"tile {' '.join(a.index for a in line.axes)} -> {line.level}"
        case syntax.Move():
            return f"move {line.tensor}"
        case syntax.Keep():
            return f"keep {' '.join(line.tensors)}"
        case _:
            return type(line).__name__


def _mixed(mine: Lines, other: Lines, rng: Random) -> Lines | None:
    """Each line from one of the two; None where the lines are not of the same kinds."""
    if [_kind(x) for x in mine] != [_kind(x) for x in other]:
        return None
    return tuple(rng.choice(pair) for pair in zip(mine, other, strict=True))
