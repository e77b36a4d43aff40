"""Loops of a function of machine code, and the instructions that one iteration executes.

Loops are natural loops: an edge back to a block that dominates its source, and all blocks from which the source is reached
without that block (Aho et al., "Compilers", 9.6). Trap loops behind the end are not reached and do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

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
            found.append((loop, _around(loop, loops)))
    return found


def _around(loop: Loop, loops: Sequence[Loop]) -> tuple[Loop, ...]:
    return tuple(sorted((x for x in loops if loop.blocks < x.blocks), key=lambda x: len(x.blocks)))


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

    Guarded parts count as executed, as the copies of a pipeline are in all iterations but the last ones. Of two versions the
    shorter one does: that of whole tiles, without guards. Left out are blocks with a call (NVIDIA's assembler calls a function
    for the rare operands of a division or a root), and loops inside of the loop, if another way passes them by.
    """
    start = loop.header if loop else 0
    far = _instructions_to_head(code, blocks, loop) if loop else {}
    path, seen, now = list[Instruction](), set[int](), start
    while now not in seen:
        seen.add(now)
        path += code[blocks[now].start : blocks[now].end]
        ways = [n for n in blocks[now].next if loop is None or n in loop.blocks]
        if not ways or ways == [start]:
            break
        fresh = [n for n in ways if n != start and n not in seen and not _calls(code, blocks[n])]
        known = [n for n in fresh if n in far]
        if len(known) == 2 and not any(_reaches(blocks, a, b, start, far) for a, b in (known, known[::-1])):
            known.sort(key=lambda n: far[n])
        now = next(iter(known or fresh or ways))
    return tuple(i for i in path if i.base != "NOP")


def _instructions_to_head(code: Sequence[Instruction], blocks: Sequence[Block], loop: Loop) -> dict[int, int]:
    """From blocks of a loop the instructions of the shortest way to its head, past loops inside and calls, if there is one."""
    inner = [x.blocks for x in _loops(blocks) if x.blocks < loop.blocks]
    some = {n for n in loop.blocks.difference(*inner) if not _calls(code, blocks[n])}
    before: dict[int, list[int]] = {}
    for n in some:
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


def _reaches(blocks: Sequence[Block], start: int, end: int, head: int, among: Collection[int]) -> bool:
    """Whether a way leads from one block to another in the same iteration."""
    seen, todo = {start}, [start]
    while todo:
        for to in blocks[todo.pop()].next:
            if to == end:
                return True
            if to in among and to != head and to not in seen:
                seen.add(to)
                todo.append(to)
    return False


def _calls(code: Sequence[Instruction], block: Block) -> bool:
    return any(i.calls for i in code[block.start : block.end])


def main_loop(
    code: Sequence[Instruction], blocks: Sequence[Block], class_of: Callable[[Instruction], str]
) -> tuple[Loop | None, tuple[Loop, ...]]:
    """The loop with most matrix instructions that are not in loops inside of it; where there are none, the innermost loop with
    most multiply-adds, then accesses of memory. And the loops around it. None for a function without loops."""

    def weight(found: tuple[Loop, tuple[Loop, ...]]) -> tuple[int, ...]:
        names = [class_of(i) for i in iteration(code, blocks, found[0])]
        return (names.count("mma"), names.count("fma"), sum(n in MEMORY for n in names))

    loops = _loops(blocks)
    matrix = {n for n, b in enumerate(blocks) if any(class_of(i) == "mma" for i in code[b.start : b.end])}
    own = {x: x.blocks.difference(*(y.blocks for y in loops if y.blocks < x.blocks)) for x in loops}
    some = [(x, _around(x, loops)) for x in loops if not matrix.isdisjoint(own[x])]
    found = some or innermost_loops(blocks)
    return max(found, key=weight) if found else (None, ())
