"""The whole step of a kernel: one turn of the outermost loop around the main loop, with what the loops inside execute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .classes import MEMORY
from .control_flow import Loop, basic_blocks, innermost_loops, loops_around
from .instruction import Instruction
from .walks import Walks


@dataclass(frozen=True)
class InnerLoop:
    """A loop inside of a step: its first and last instruction, and how often it turns each time that it is entered."""

    first: int
    last: int
    turns: int


@dataclass(frozen=True)
class WholeStep:
    """A turn of `loop`; without a loop, the whole function.

    path    its instructions, in the order of their execution
    inner   loops inside that turn more than once, in the order of their addresses
    around  loops around it, whose other instructions are not in the path
    """

    loop: Loop | None
    path: tuple[Instruction, ...]
    inner: tuple[InnerLoop, ...]
    around: tuple[Loop, ...]


def whole_step(code: Sequence[Instruction], class_of: Callable[[Instruction], str]) -> WholeStep:
    """The main loop is that with most matrix instructions that are not in loops inside of it; where there are none, the
    innermost one with most multiply-adds, then accesses of memory. The step is a turn of the outermost loop around it, as
    far as the turns of all loops inside are known.
    """
    blocks = basic_blocks(code)
    walks = Walks(code, blocks)
    names = [{class_of(i) for i in code[b.start : b.end]} for b in blocks]

    def turn(loop: Loop | None) -> list[int]:
        return walks.turn(loop) or []

    def weight(loop: Loop) -> tuple[int, ...]:
        found = [class_of(i) for i in walks.instructions(turn(loop))]
        return (found.count("mma"), found.count("fma"), sum(n in MEMORY for n in found))

    own = {x: x.blocks.difference(*(y.blocks for y in walks.loops if y.blocks < x.blocks)) for x in walks.loops}
    matrix = [x for x in walks.loops if any("mma" in names[b] for b in own[x])]
    loop = max(matrix or innermost_loops(blocks), key=weight, default=None)
    if loop is None:
        return WholeStep(None, walks.instructions(turn(None)), (), ())
    step, path = loop, turn(loop)
    for outer in loops_around(loop, walks.loops):
        wider = turn(outer)
        unknown = {b for x in walks.loops if x.blocks < outer.blocks and x not in walks.turns for b in x.blocks}
        if not wider or step not in walks.turns or any(names[b].intersection(MEMORY) for b in unknown.intersection(wider)):
            break
        step, path = outer, wider
    inner = []
    for x, turns in walks.turns.items():
        if turns > 1 and x.blocks < step.blocks and x.header in path:
            addresses = [i.address for i in walks.instructions(x.blocks)]
            inner.append(InnerLoop(min(addresses), max(addresses), turns))
    inner.sort(key=lambda x: x.first)
    return WholeStep(step, walks.instructions(path), tuple(inner), loops_around(step, walks.loops))
