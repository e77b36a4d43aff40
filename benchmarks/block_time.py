"""The cycles of a block from beginning to end: a walk of its machine code, replayed by the cycle model.

The walk executes what is known without any data: block 0, thread 0, constants, and integers that are made of these. So loops
with fixed counts run as often as they do. Where a branch depends on what is not known, the code is executed in the order of its
addresses, but for blocks with a call (`control_flow.iteration` does the same).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

import numpy as np
from andiron.runtime.machine_code.control_flow import basic_blocks
from andiron.runtime.machine_code.instruction import Instruction
from andiron.runtime.machine_code.replay import replay
from andiron.runtime.machine_code.sass_classes import sass_class
from andiron.runtime.machine_code.sm_figures import LANES, SmFigures, Work

LONGEST_WALK = 2_000_000  # instructions: a loop whose end is not seen does not go on for ever
REPLAYED = 8  # turns of a loop that are replayed; the others take as long as a turn of the steady state
_REGISTER = re.compile(r"(U?R)(\d+)$")
_PREDICATE = re.compile(r"(!?)(U?P\d+|U?PT)$")
_NO_RESULT = ("global store", "shared store", "local memory", "barrier", "branch", "wait", "async copy")
_INTEGERS = "S2R S2UR CS2R HFMA2 MOV UMOV IMAD UIMAD IADD3 UIADD3 SEL USEL LOP3 ULOP3 SHF USHF ISETP UISETP PLOP3 UPLOP3"
_EXECUTED = frozenset(_INTEGERS.split())
_COMPARED = {
    "EQ": lambda a, b: a == b, "NE": lambda a, b: a != b, "LT": lambda a, b: a < b, "LE": lambda a, b: a <= b,
    "GT": lambda a, b: a > b, "GE": lambda a, b: a >= b,
}  # fmt: skip


@dataclass(frozen=True)
class BlockTime:
    """One kernel, for one block of an SM with all that are resident.

    cycles  of `blocks` blocks that run beside each other, by the number of these
    path    the instructions of a warp, from beginning to end
    busy    the share of the cycles that each pipe is busy, with all resident blocks
    """

    cycles: dict[int, float]
    path: tuple[Instruction, ...]
    busy: dict[str, float]

    def of_blocks(self, blocks: int) -> float:
        """Cycles of an SM that executes so many blocks."""
        most = max(self.cycles)
        return blocks // most * self.cycles[most] + (self.cycles[blocks % most] if blocks % most else 0)


def block_time(code: Sequence[Instruction], threads: int, resident: Sequence[int], figures: SmFigures) -> BlockTime:
    """By replaying the walk; of loops with many turns, only some, and of the others the time of the steady state.

    resident  numbers of blocks beside each other
    """
    path = walk(code)
    short, body, cut = shortened(path)
    warps = -(-threads // LANES)
    cycles: dict[int, float] = {}
    last = Instruction(0, "", "BAR.SYNC", "")  # the next block starts when all warps have ended
    for blocks in resident:
        cycles[blocks] = replay([*short, last], works([*short, last], figures), warps, blocks, figures).cycles
        if cut:
            cycles[blocks] += cut * replay(body, works(body, figures), warps, blocks, figures).cycles
    most = max(cycles)
    busy: Counter[str] = Counter()
    for work in works(path, figures):
        if work.pipe:
            busy[work.pipe] += work.cycles * warps * most / (1 if work.pipe == "shared memory" else figures.schedulers)
        busy["issue slots"] += warps * most / figures.schedulers
        busy["l2"] += work.l2 * warps * most / figures.l2_bytes
    return BlockTime(cycles, path, {name: n / cycles[most] for name, n in busy.most_common()})


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
    written = [_written(i, _operands(i)) for i in code]
    known: dict[str, int] = {}
    path, now = list[Instruction](), 0
    while now < len(code) and len(path) < LONGEST_WALK:
        i = code[now]
        now += 1
        if i.base == "NOP":
            continue
        path.append(i)
        taken = _holds(i.predicate, known) if i.predicate else True
        if i.target is not None:
            if inner := re.match(r"(!?U?P\d+), ", i.operands):
                taken = _both(taken, _holds(inner[1], known))
            if taken is None:  # on in memory, but where that calls
                taken = now < len(code) and code[now].address in calls
            now = at[i.target] if taken and i.target in at else now
        elif i.ends and taken:
            break
        elif taken is not False:
            _execute(i, written[now - 1], known, taken is None)
    if len(path) >= LONGEST_WALK:
        raise LookupError("a loop's end is not seen")
    return tuple(path)


def _both(a: bool | None, b: bool | None) -> bool | None:
    return False if a is False or b is False else None if a is None or b is None else True


def _holds(predicate: str, known: dict[str, int]) -> bool | None:
    match = _PREDICATE.match(predicate)
    if not match:
        return None
    value = 1 if match[2] in ("PT", "UPT") else known.get(match[2])
    return None if value is None else bool(value) != bool(match[1])


def _execute(i: Instruction, written: list[str], known: dict[str, int], perhaps: bool) -> None:
    """Sets what it computes, or forgets what it writes."""
    values = _value(i, _operands(i), known) if not perhaps and i.base in _EXECUTED else None
    for name in written:
        known.pop(name, None)
    for name, value in (values or {}).items():
        if value is not None:
            known[name] = value


def _operands(i: Instruction) -> list[str]:
    return [x.replace(".reuse", "") for x in i.operands.split(", ")] if i.operands else []


def _written(i: Instruction, operands: list[str]) -> list[str]:
    if sass_class(i) in _NO_RESULT and i.base not in ("R2P", "LDL"):
        return []
    written = []
    for n, name in enumerate(operands):
        if n == 0 and (match := _REGISTER.match(name)):
            written = [f"{match[1]}{int(match[2]) + k}" for k in range(_results(i))]
        if n > 1 or not _PREDICATE.match(name):
            break
        written.append(name)
    if i.base in ("IADD3", "UIADD3", "LEA", "ULEA", "IMAD", "UIMAD"):  # their carries follow the result
        for name in operands[1:3]:
            if re.match(r"U?P\d", name):
                written.append(name)
    return written


def _results(i: Instruction) -> int:
    """Registers of a result."""
    parts = i.opcode.split(".")
    if i.base in ("HMMA", "IMMA"):
        return 4 if "F32" in parts or i.base == "IMMA" else 2
    if i.base == "LDSM":
        return next((int(p) for p in parts if p in ("2", "4")), 1)
    if "WIDE" in parts or "64" in parts or i.base.startswith("D") or (i.base == "CS2R" and "32" not in parts):
        return 2
    return 4 if "128" in parts else 1


def _value(i: Instruction, operands: list[str], known: dict[str, int]) -> dict[str, int | None] | None:
    """Of integer instructions of 32 bits; None for others."""
    base = i.base.removeprefix("U") if i.base not in ("UP2UR",) else i.base
    parts = i.opcode.split(".")

    def read(name: str) -> int | None:
        if re.match(r"-?U?RZ$", name) or name == "SRZ":
            return 0
        if match := re.match(r"(-|~)?(U?R\d+)$", name):
            value = known.get(match[2])
            return value if value is None or not match[1] else -value if match[1] == "-" else ~value
        if re.match(r"-?0x[0-9a-f]+$", name):
            return int(name, 16)
        return None

    def made(value: int | None) -> dict[str, int | None]:
        return {operands[0]: value if value is None else _signed(value)}

    carries = [x for x in operands[1:3] if re.match(r"U?P\d$", x)] if base in ("IADD3", "LEA", "IMAD") else []
    args = [read(x) for x in operands[1 + len(carries) :]]
    if base in ("S2R", "S2UR"):
        return made(0 if re.match(r"SR_(CTAID|TID)", operands[1]) else None)
    if base == "CS2R" and operands[1] == "SRZ":
        return dict.fromkeys(_written(i, operands), 0)
    if base == "HFMA2" and operands[1:3] == ["-RZ", "RZ"]:  # it loads a constant: two halves, the upper one first
        return made(int(np.array([float(x) for x in operands[:2:-1]], np.float16).view(np.int32)[0]))
    if base == "MOV" or (base == "IMAD" and "MOV" in parts):
        return made(args[-1] if base == "IMAD" else args[0])
    if base == "IADD3" and "X" not in parts and len(args) == 3:
        total = None if None in args else sum(x & 0xFFFFFFFF for x in args)  # type: ignore[operator]
        return made(total) | dict.fromkeys(carries, None if total is None else total >> 32)
    if base == "IADD3" and len(args) >= 4 and not carries and None not in args[:3]:
        carry = _holds(operands[4], known)
        return made(None if carry is None else sum(args[:3]) + carry)  # type: ignore[arg-type]
    if base == "IMAD" and len(parts) <= 2 and parts[-1] in ("IMAD", "UIMAD", "U32", "IADD") and len(args) == 3:
        return made(args[0] * args[1] + args[2]) if None not in args else None  # type: ignore[operator]
    if base == "IMAD" and "SHL" in parts and None not in args:
        return made(args[0] * args[1] + args[2])  # type: ignore[operator]
    if base == "SEL":
        which = _holds(operands[-1], known)
        return made(None if which is None else args[0] if which else args[1])
    if base in ("LOP3", "ULOP3") and _REGISTER.match(operands[0]) and len(args) >= 4 and args[3] is not None:
        return made(_lookup(args[0], args[1], args[2], args[3]))
    if base == "SHF" and args[0] == 0 and args[1] is not None and args[2] is not None and {"R", "HI"} & set(parts):
        return made((args[2] if "S32" in parts else args[2] & 0xFFFFFFFF) >> args[1])
    if base == "ISETP" and "EX" in parts:
        a, b, low = read(operands[2]), read(operands[3]), _holds(operands[5], known)
        if a is None or b is None or low is None:
            return None
        return {operands[0]: int(low if a == b else _COMPARED[parts[1]](a, b)), operands[1]: None}
    if base == "ISETP":
        return {operands[0]: _compare(parts, read(operands[2]), read(operands[3]), operands[4], known), operands[1]: None}
    if base == "PLOP3" and len(operands) >= 6:
        bits = [_holds(x, known) for x in operands[2:5]]
        table = read(operands[5])
        return {operands[0]: _lookup(*(None if b is None else -int(b) for b in bits), table)}  # type: ignore[arg-type]
    return None


def _compare(parts: list[str], a: int | None, b: int | None, other: str, known: dict[str, int]) -> int | None:
    first = None
    if a is not None and b is not None:
        if "U32" in parts:
            a, b = a & 0xFFFFFFFF, b & 0xFFFFFFFF
        first = _COMPARED[parts[1]](a, b)
    second = _holds(other, known)
    if "AND" in parts:
        found = _both(first, second)
    elif "OR" in parts:
        found = True if first or second else None if first is None or second is None else False
    else:
        found = None
    return None if found is None else int(found)


def _lookup(a: int | None, b: int | None, c: int | None, table: int | None) -> int | None:
    """Of three words by a truth table, where the unknown ones do not matter."""
    if table is None:
        return None
    results = set()
    for x in (a,) if a is not None else (0, -1):
        for y in (b,) if b is not None else (0, -1):
            for z in (c,) if c is not None else (0, -1):
                word = 0
                for n in range(8):
                    if table >> n & 1:
                        word |= (x if n & 4 else ~x) & (y if n & 2 else ~y) & (z if n & 1 else ~z)
                results.add(word)
    return results.pop() if len(results) == 1 else None


def _signed(value: int) -> int:
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value
