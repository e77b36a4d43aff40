"""The levels and memories that a schedule names: a device without them is not the one it was written for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...dsl import syntax
from ...dsl.device import Device


def required_names(lines: Sequence[syntax.Line], strategies: Mapping[str, syntax.StrategyDecl]) -> set[str]:
    """The names in place of levels and memories in lines, in their blocks, and in the strategies that they apply."""
    found: set[str] = set()
    _collect(lines, strategies, found, set())
    return found


def available_names(device: Device) -> set[str]:
    """The names of its levels and memories."""
    return {x.name for x in device.levels} | {x.name for x in device.memories}


def _collect(
    lines: Sequence[syntax.Line], strategies: Mapping[str, syntax.StrategyDecl], found: set[str], seen: set[str]
) -> None:
    for line in lines:
        if isinstance(line, syntax.Tile) and line.level is not None:
            found.add(line.level)
        elif isinstance(line, syntax.Move | syntax.Keep):
            if line.memory is not None:
                found.add(line.memory)
            _collect(line.block or (), strategies, found, seen)
        elif isinstance(line, syntax.Apply):
            # What is passed may be the name of a level, of a memory, or of something else.
            found |= {a.id for a in (*line.args, *(v for _, v in line.named)) if isinstance(a, syntax.Name)}
            if line.strategy in strategies and line.strategy not in seen:
                seen.add(line.strategy)
                _collect(strategies[line.strategy].lines, strategies, found, seen)
