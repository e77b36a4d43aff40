"""Lines of a schedule that give tensors launches of their own, and what they leave to completion."""

from __future__ import annotations

from ....dsl import syntax
from ....dsl.device import Device
from ....dsl.syntax import all_lines
from ..line_builders import is_all_open


def has_own_launch(device: Device, line: syntax.Line) -> bool:
    """Is it `keep T in <outermost memory>:` with a block?"""
    return isinstance(line, syntax.Keep) and line.memory == device.memories[0].name and line.block is not None


def launch_blocks(device: Device, lines: tuple) -> dict[str, tuple]:
    """The tensors that have launches of their own by a line, with the block of each."""
    return {t: x.block or () for x in lines if has_own_launch(device, x) for t in x.tensors}


def moved_tensors(lines: tuple) -> frozenset[str]:
    """Those that lines copy."""
    return frozenset(x.tensor for x in all_lines(lines) if isinstance(x, syntax.Move))


def keeps_for_completion(device: Device, lines: tuple) -> bool:
    """May completion keep intermediates? The main launch is open, and keeps none by a line of the author's."""
    rest = tuple(x for x in lines if not has_own_launch(device, x))
    return is_all_open(lines) or (is_filled_in(rest) and not any(isinstance(x, syntax.Keep) for x in all_lines(rest)))


def is_filled_in(lines: tuple) -> bool:
    """May completion keep what the author's lines do not mention?"""
    return any(isinstance(x, syntax.AutoLine) for x in lines)
