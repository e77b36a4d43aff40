"""Basic blocks and loops of a function of machine code.

Loops are natural loops: an edge back to a block that dominates its source, and all blocks from which the source is reached
without that block (Aho et al., "Compilers", 9.6). Trap loops behind the end are not reached and do not count.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

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


def innermost_loops(blocks: Sequence[Block]) -> list[Loop]:
    """Loops that contain no other."""
    loops = loops_of(blocks)
    return [loop for loop in loops if not any(x.blocks < loop.blocks for x in loops)]


def loops_around(loop: Loop, loops: Sequence[Loop]) -> tuple[Loop, ...]:
    """The nearest first."""
    return tuple(sorted((x for x in loops if loop.blocks < x.blocks), key=lambda x: len(x.blocks)))


def loops_of(blocks: Sequence[Block]) -> list[Loop]:
    """In the order of their headers."""
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


def instructions_to_head(blocks: Sequence[Block], loop: Loop, among: Collection[int]) -> dict[int, int]:
    """From blocks of a loop the instructions of the shortest way to its head through the blocks `among`, if there is one."""
    before: dict[int, list[int]] = {}
    for n in among:
        for to in blocks[n].next:
            before.setdefault(to, []).append(n)
    far, todo = {loop.header: 0}, [(0, loop.header)]
    while todo:
        length, n = heappop(todo)
        for b in before.get(n, []):
            there = length + blocks[b].end - blocks[b].start
            if there < far.get(b, there + 1) and b != loop.header:
                far[b] = there
                heappush(todo, (there, b))
    return far


def reaches(blocks: Sequence[Block], start: int, end: int, head: int, among: Collection[int]) -> bool:
    """Whether a way leads from one block to another in the same turn of the loop with this head."""
    seen, todo = {start}, [start]
    while todo:
        for to in blocks[todo.pop()].next:
            if to == end:
                return True
            if to in among and to != head and to not in seen:
                seen.add(to)
                todo.append(to)
    return False
