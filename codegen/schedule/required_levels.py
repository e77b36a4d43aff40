"""The levels and memories that a schedule names: a device without them is not the one it was written for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...dsl import syntax
from ...dsl.device import Device


def required_names(lines: Sequence[syntax.Line], strategies: Mapping[str, syntax.StrategyDecl]) -> set[str]:
    """The names in place of levels and memories in lines, in their blocks, and in the strategies that they apply."""
    found: set[str] = set()
    seen: set[str] = set()
    todo = [lines]  # no recursion: strategies may apply one another to any depth
    while todo:
        for line in todo.pop():
            match line:
                case syntax.Tile(level=str(level)):
                    found.add(level)
                case syntax.Move() | syntax.Keep():
                    found |= set() if line.memory is None else {line.memory}
                    todo.append(syntax.block_of(line))
                case syntax.Apply():
                    # What is passed may be the name of a level, of a memory, or of something else.
                    found |= {a.id for a in (*line.args, *(v for _, v in line.named)) if isinstance(a, syntax.Name)}
                    if line.strategy in strategies and line.strategy not in seen:
                        seen.add(line.strategy)
                        todo.append(strategies[line.strategy].lines)
    return found


def available_names(device: Device) -> set[str]:
    """The names of its levels and memories."""
    return {x.name for x in device.levels} | {x.name for x in device.memories}
