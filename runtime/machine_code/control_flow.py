"""Loops of a function of machine code, and the instructions that one iteration executes.

Loops are natural loops: an edge back to a block that dominates its source, and all blocks from which the source is reached
without that block (Aho et al., "Compilers", 9.6). Trap loops behind the end are not reached and do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .classes import MEMORY
from .instruction import Instruction


@dataclass(frozen=True)
class Block:
    """A basic block: instructions from `start` to before `end`, and the blocks that follow. The first one is next in memory
    unless the block ends with a branch that is always taken."""

    start: int
    end: int
    next: tuple[int, ...]


@dataclass(frozen=True)
class Loop:
    """A natural loop: the numbers of its blocks, of which `header` is entered from outside."""

    header: int
    blocks: frozenset[int]


def basic_blocks(code: Sequence[Instruction]) -> tuple[Block, ...]:
    """The blocks of a function in the order of their addresses. Calls of functions return, so that they end no block."""
    at = {i.address: n for n, i in enumerate(code)}
    goes = {n: at[i.target] for n, i in enumerate(code) if i.target in at}
    ends = {n + 1 for n, i in enumerate(code) if n in goes or i.ends}
    starts = sorted({0, *goes.values(), *ends} - {len(code)})
    number = {start: n for n, start in enumerate(starts)}
    found = []
    for start, end in zip(starts, [*starts[1:], len(code)], strict=True):
        last, after = code[end - 1], [number[end]] if end < len(code) else []
        if not last.conditional and (end - 1 in goes or last.ends):
            after = []
        found.append(Block(start, end, (*after, *([number[goes[end - 1]]] if end - 1 in goes else []))))
    return tuple(found)


def innermost_loops(blocks: Sequence[Block]) -> list[tuple[Loop, tuple[Loop, ...]]]:
    """Loops that contain no other, each with those around it, the nearest first."""
    loops = _loops(blocks)
    found = []
    for loop in loops:
        if not any(x.blocks < loop.blocks for x in loops):
            around = sorted((x for x in loops if loop.blocks < x.blocks), key=lambda x: len(x.blocks))
            found.append((loop, tuple(around)))
    return found


def _loops(blocks: Sequence[Block]) -> list[Loop]:
    before: dict[int, list[int]] = {}
    for n, block in enumerate(blocks):
        for to in block.next:
            before.setdefault(to, []).append(n)
    dominators = _dominators(blocks, before)
    bodies: dict[int, set[int]] = {}
    for n, block in enumerate(blocks):
        for to in block.next:
            if n in dominators and to in dominators[n]:
                body = bodies.setdefault(to, {to})
                todo = [n]
                while todo:
                    if (b := todo.pop()) not in body:
                        body.add(b)
                        todo += [x for x in before.get(b, []) if x in dominators]
    return [Loop(header, frozenset(body)) for header, body in sorted(bodies.items())]


def _dominators(blocks: Sequence[Block], before: dict[int, list[int]]) -> dict[int, frozenset[int]]:
    """Of each block that is reached from the first one: the blocks on all ways to it, itself among them."""
    reached, todo = {0}, [0]
    while todo:
        for to in blocks[todo.pop()].next:
            if to not in reached:
                reached.add(to)
                todo.append(to)
    found = {n: frozenset(reached) for n in reached} | {0: frozenset({0})}
    changed = True
    while changed:
        changed = False
        for n in sorted(reached - {0}):
            new = frozenset.intersection(*(found[b] for b in before[n] if b in reached)) | {n}
            changed, found[n] = changed or new != found[n], new
    return found


def iteration(code: Sequence[Instruction], blocks: Sequence[Block], loop: Loop | None) -> tuple[Instruction, ...]:
    """The instructions of one iteration in the order of their execution; without a loop, those of the whole function.

    Guarded parts count as executed, as the copies of a pipeline are in all iterations but the last ones. Left out are blocks
    with a call: NVIDIA's assembler calls a function for the rare operands of a division or a root.
    """
    start = loop.header if loop else 0
    path, seen, now = list[Instruction](), set[int](), start
    while now not in seen:
        seen.add(now)
        path += code[blocks[now].start : blocks[now].end]
        ways = [n for n in blocks[now].next if loop is None or n in loop.blocks]
        if not ways or ways == [start]:
            break
        now = next((n for n in ways if n != start and n not in seen and not _calls(code, blocks[n])), ways[0])
    return tuple(i for i in path if i.base != "NOP")


def _calls(code: Sequence[Instruction], block: Block) -> bool:
    return any(i.calls for i in code[block.start : block.end])


def main_loop(
    code: Sequence[Instruction], blocks: Sequence[Block], class_of: Callable[[Instruction], str]
) -> tuple[Loop | None, tuple[Loop, ...]]:
    """The innermost loop with most matrix instructions, then multiply-adds, then accesses of memory; and the loops around it.
    None for a function without loops."""

    def weight(found: tuple[Loop, tuple[Loop, ...]]) -> tuple[int, ...]:
        names = [class_of(i) for i in iteration(code, blocks, found[0])]
        return (names.count("mma"), names.count("fma"), sum(n in MEMORY for n in names))

    loops = innermost_loops(blocks)
    return max(loops, key=weight) if loops else (None, ())
