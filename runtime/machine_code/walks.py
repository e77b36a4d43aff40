"""Walks through a function of machine code: which blocks a warp executes, by the integers that are known without data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .control_flow import Block, Loop, instructions_to_head, loops_around, loops_of, reaches
from .instruction import Instruction
from .known_values import execute, taken

LONGEST_WALK = 24_000  # instructions: a loop that takes more until it is left is not counted [limit]


class Walks:
    """Of one function.

    loops  all of them
    turns  how often the loops inside of others turn each time that they are entered, where that is known
    """

    def __init__(self, code: Sequence[Instruction], blocks: Sequence[Block]) -> None:
        self._code, self._blocks = code, blocks
        self.loops = loops_of(blocks)
        self.turns: dict[Loop, int] = {}
        inmost_first = sorted(self.loops, key=lambda x: len(x.blocks))
        self._of = {n: [x for x in inmost_first if n in x.blocks] for n in range(len(blocks))}
        self._far: dict[Loop, dict[int, int]] = {}
        self._before, self._after = self._constants()
        for loop in inmost_first:
            if loops_around(loop, self.loops) and (walked := self._until_left(loop)):
                self.turns[loop] = walked.count(loop.header)

    def instructions(self, numbers: Iterable[int]) -> tuple[Instruction, ...]:
        """Of blocks, without padding."""
        return tuple(i for n in numbers for i in self._code[self._blocks[n].start : self._blocks[n].end] if i.base != "NOP")

    def turn(self, loop: Loop | None) -> list[int] | None:
        """The blocks of one turn in the order of their execution, those of loops inside as often as these turn, or once where
        that is not known; without a loop, those of the whole function. None where that is too long.

        Guarded parts count as executed, as the copies of a pipeline are in all turns but the last ones, unless the condition is
        known. Of two versions the shorter one does: that of whole tiles, without guards. Left out are blocks with a call
        (NVIDIA's assembler calls a function for the rare operands of a division or a root), and loops inside whose turns are
        not known, if another way passes them by.
        """
        start = loop.header if loop else 0
        known, walked, seen, now = dict(self._before[start] or {}), list[int](), set[int](), start
        length = 0
        while length <= LONGEST_WALK:
            walked.append(now)
            seen.add(now)
            length += self._execute(now, known)
            ways = [n for n in self._blocks[now].next if loop is None or n in loop.blocks]
            to = self._next(now, ways, known, start, seen)
            if to is None or to == start:
                return walked
            if to in seen:
                again = next((x for x in self._of[now] if x.header == to and x != loop), None)
                if again is None:
                    return walked
                seen -= again.blocks
            now = to
        return None

    def _until_left(self, loop: Loop) -> list[int] | None:
        """The blocks from where a loop inside another one is entered; None where an integer that decides is not known."""
        entries = [n for n, b in enumerate(self._blocks) if loop.header in b.next and n not in loop.blocks]
        known = _common([x for n in entries if (x := self._after[n]) is not None])
        walked, seen, now = list[int](), set[int](), loop.header
        length = 0
        while length <= LONGEST_WALK:
            walked.append(now)
            seen.add(now)
            length += self._execute(now, known)
            ways = list(self._blocks[now].next)
            decides = len(ways) == 2 and any(n == loop.header or n not in loop.blocks for n in ways)
            if decides and taken(self._last(now), known) is None:
                return None
            to = self._next(now, ways, known, None, seen)
            if to is None:
                return None
            if to not in loop.blocks:
                return walked
            if to in seen:
                again = next((x for x in self._of[now] if x.header == to), None)
                if again is None:
                    return None
                seen -= again.blocks
            now = to
        return None

    def _next(self, now: int, ways: list[int], known: dict[str, int], start: int | None, seen: set[int]) -> int | None:
        """The block that follows. None for the end.

        ways   that may be gone
        start  where the turn began
        seen   blocks that were executed since
        """
        if len(ways) < 2:
            return ways[0] if ways else None
        if (jumps := taken(self._last(now), known)) is not None:
            return ways[jumps]
        inner = [x for x in self._of[now] if x.header != start]
        for loop in inner:  # whose turns are not known
            if outside := [n for n in ways if n not in loop.blocks]:
                return outside[0]
            ways = [n for n in ways if n != loop.header] or ways
        fresh = [n for n in ways if n != start and n not in seen and not self._calls(n)]
        around = next(iter(self._of[now]), None)
        far = self._instructions_to_head(around) if around else {}
        short = [n for n in fresh if n in far]
        if around and len(short) == 2:
            guarded = [a for a, b in (short, short[::-1]) if reaches(self._blocks, a, b, around.header, far)]
            short = guarded or sorted(short, key=lambda n: far[n])
        return next(iter(short or fresh or ways))

    def _instructions_to_head(self, loop: Loop) -> dict[int, int]:
        """Past calls, and past loops inside whose turns are not known."""
        if loop not in self._far:
            unknown = [x.blocks for x in self.loops if x.blocks < loop.blocks and x not in self.turns]
            some = {n for n in loop.blocks.difference(*unknown) if not self._calls(n)}
            self._far[loop] = instructions_to_head(self._blocks, loop, some)
        return self._far[loop]

    def _last(self, n: int) -> Instruction:
        return self._code[self._blocks[n].end - 1]

    def _calls(self, n: int) -> bool:
        return any(i.calls for i in self._code[self._blocks[n].start : self._blocks[n].end])

    def _execute(self, n: int, known: dict[str, int]) -> int:
        """How many instructions that are."""
        for i in self._code[self._blocks[n].start : self._blocks[n].end]:
            execute(i, known)
        return self._blocks[n].end - self._blocks[n].start

    def _constants(self) -> tuple[dict[int, dict[str, int] | None], dict[int, dict[str, int] | None]]:
        """What is known before and after each block, whichever way led there; None for a block that is not reached. By
        iteration to the fixed point (Aho et al., "Compilers", 9.4)."""
        before: dict[int, dict[str, int] | None] = dict.fromkeys(range(len(self._blocks)))
        after: dict[int, dict[str, int] | None] = dict(before)
        before[0], todo = {}, [0]
        while todo:
            n = todo.pop(0)
            known = dict(before[n] or {})
            self._execute(n, known)
            if known == after[n]:
                continue
            after[n] = known
            for to in self._blocks[n].next:
                old = before[to]
                new = known if old is None else _common([old, known])
                if new != old:
                    before[to] = dict(new)
                    if to not in todo:
                        todo.append(to)
        return before, after


def _common(states: Sequence[dict[str, int]]) -> dict[str, int]:
    """What is the same in all."""
    first, *others = states or [{}]
    return {name: value for name, value in first.items() if all(x.get(name) == value for x in others)}
