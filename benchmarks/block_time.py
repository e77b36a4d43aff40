"""The cycles of a block from beginning to end: a walk of its machine code, replayed by the cycle model.

The walk executes what is known without any data: block 0, thread 0, constants, and integers that are made of these. So loops
with fixed counts run as often as they do. Where a branch depends on what is not known, the code is executed in the order of its
addresses, but for blocks with a call (`walks.py` counts both ways of guards as executed).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from andiron.runtime.machine_code.control_flow import basic_blocks
from andiron.runtime.machine_code.instruction import Instruction
from andiron.runtime.machine_code.known_values import execute, holds, taken
from andiron.runtime.machine_code.replay import replay
from andiron.runtime.machine_code.sm_figures import LANES, SmFigures, Work

LONGEST_WALK = 2_000_000  # instructions: a loop whose end is not seen does not go on for ever
MOST_ISSUED = 300_000  # instructions: of a replay; enough for eight counted iterations of a step of 1,100 by 16 warps
REPLAYED = 8  # turns of a loop that are replayed; the others take as long as a turn of the steady state
_FIRST = {f"SR_{name}.{axis}": 0 for name in ("CTAID", "TID") for axis in "XYZ"}  # thread 0 of block 0


@dataclass(frozen=True)
class BlockTime:
    """One kernel, for one block of an SM with all that are resident.

    cycles  of `blocks` blocks that run beside each other, by the number of these
    slowest the same for warps of the scheduler where they take longest: with these the last round of an SM ends
    path    the instructions of a warp, from beginning to end
    busy    the share of the cycles that each pipe is busy, with all resident blocks
    """

    cycles: dict[int, float]
    slowest: dict[int, float]
    path: tuple[Instruction, ...]
    busy: dict[str, float]

    def of_blocks(self, blocks: int) -> float:
        """Cycles of an SM that executes so many blocks."""
        most = max(self.cycles)
        rounds = -(-blocks // most)
        return (rounds - 1) * self.cycles[most] + self.slowest[blocks - (rounds - 1) * most]


def block_time(code: Sequence[Instruction], threads: int, resident: Sequence[int], figures: SmFigures) -> BlockTime:
    """By replaying the walk; of loops with many turns, only some, and of the others the time of the steady state.

    resident  numbers of blocks beside each other
    """
    path = walk(code)
    short, body, cut = shortened(path)
    warps = -(-threads // LANES)
    cycles: dict[int, float] = {}
    slowest: dict[int, float] = {}
    last = Instruction(0, "", "BAR.SYNC", "")  # the next block starts when all warps have ended
    for blocks in resident:
        found = replay([*short, last], works([*short, last], figures), warps, blocks, figures, MOST_ISSUED)
        cycles[blocks], slowest[blocks] = found.cycles, found.slowest
        if cut:
            found = replay(body, works(body, figures), warps, blocks, figures, MOST_ISSUED)
            cycles[blocks] += cut * found.cycles
            slowest[blocks] += cut * found.slowest
    most = max(cycles)
    busy: Counter[str] = Counter()
    for work in works(path, figures):
        if work.pipe:
            busy[work.pipe] += work.cycles * warps * most / (1 if work.pipe == "shared memory" else figures.schedulers)
        busy["issue slots"] += warps * most / figures.schedulers
        busy["l2"] += work.l2 * warps * most / figures.l2_bytes
    return BlockTime(cycles, slowest, path, {name: n / cycles[most] for name, n in busy.most_common()})


def works(path: Sequence[Instruction], figures: SmFigures) -> list[Work]:
    found = [figures.work(i) for i in path]
    unknown = sorted({i.opcode for i, w in zip(path, found, strict=True) if w is None})
    if unknown:
        raise LookupError(f"{figures.device.name} has no figures for {', '.join(unknown)}")
    return [w for w in found if w is not None]


def shortened(path: Sequence[Instruction]) -> tuple[list[Instruction], list[Instruction], int]:
    """The path with `REPLAYED` turns of the loop that has most instructions, one of its turns, and how many are left out."""
    starts: dict[int, list[int]] = {}
    for n, i in enumerate(path[1:], 1):
        if i.address <= path[n - 1].address:
            starts.setdefault(i.address, []).append(n)
    best = (0, 0, 0, 0)  # instructions that can be left out, the first turn, its length, turns of that length
    for at in starts.values():
        first = 0
        for gap, turns in groupby(b - a for a, b in pairwise(at)):
            count = len(list(turns))
            best = max(best, (max(0, count - REPLAYED) * gap, at[first], gap, count))
            first += count
    if not best[0]:
        return list(path), [], 0
    _, start, gap, count = best
    middle, cut = start + REPLAYED // 2 * gap, count - REPLAYED
    return [*path[:middle], *path[middle + cut * gap :]], list(path[middle : middle + gap]), cut


def walk(code: Sequence[Instruction]) -> tuple[Instruction, ...]:
    """The instructions that a warp executes, in their order."""
    blocks = basic_blocks(code)
    calls = {code[b.start].address for b in blocks if any(i.calls for i in code[b.start : b.end])}
    at = {i.address: n for n, i in enumerate(code)}
    known = dict(_FIRST)
    path, now = list[Instruction](), 0
    while now < len(code) and len(path) < LONGEST_WALK:
        i = code[now]
        now += 1
        if i.base == "NOP":
            continue
        path.append(i)
        if i.target is not None:
            jumps = taken(i, known)
            if jumps is None:  # on in memory, but where that calls
                jumps = now < len(code) and code[now].address in calls
            now = at[i.target] if jumps and i.target in at else now
        elif i.ends and holds(i, known):
            break
        else:
            execute(i, known)
    if len(path) >= LONGEST_WALK:
        raise LookupError("a loop's end is not seen")
    return tuple(path)
