"""Instructions of SASS, read from the text of nvdisasm.

The upper half of an instruction's 128 bits states its schedule. Jia et al., "Dissecting the NVIDIA Volta GPU Architecture via
Microbenchmarking" (arXiv 1804.06826), section 2.1: for how many cycles the warp issues nothing more, the scoreboard that it
sets until its result is written, the one until its operands are read, and the scoreboards that it waits for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

SCOREBOARDS = 6  # scoreboards: of a warp [fact: arXiv 1804.06826]
_NO_SCOREBOARD = 7  # scoreboard: marker for none [fact: arXiv 1804.06826]

_SECTION = re.compile(r"\s*\.section\s+\.text\.([^,\s]+)")
_LABEL = re.compile(r"(\.L_\w+):")
_CODE = re.compile(r"\s+/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;\s*/\* 0x[0-9a-f]{16} \*/")
_UPPER = re.compile(r"\s+/\* 0x([0-9a-f]{16}) \*/")
_PREDICATE = re.compile(r"@(!?U?P\w+)\s+(.*)")
_TARGET = re.compile(r"`\((\.L_\w+)\)")


@dataclass(frozen=True)
class Instruction:
    """One instruction. `opcode` has its modifiers, as `LDG.E.128`.

    predicate      as `P0` or `!UP1`; "" where there is none
    target         the address that a branch goes to
    stall          cycles until the warp may issue its next instruction
    write_barrier  the scoreboard that is set until the result is written
    read_barrier   the one that is set until the operands are read
    waits          scoreboards that must be clear at its issue
    """

    address: int
    predicate: str
    opcode: str
    operands: str
    target: int | None = None
    stall: int = 1
    write_barrier: int | None = None
    read_barrier: int | None = None
    waits: tuple[int, ...] = ()

    @property
    def base(self) -> str:
        """The opcode without modifiers."""
        return self.opcode.partition(".")[0]

    @property
    def never(self) -> bool:
        """Whether its predicate is the constant false: ptxas pads loops with such instructions."""
        return self.predicate in ("!PT", "!UPT")

    def __str__(self) -> str:
        return " ".join(x for x in (self.predicate and f"@{self.predicate}", self.opcode, self.operands) if x)


@dataclass
class _Function:
    lines: list[tuple[int, str, int]] = field(default_factory=list)  # address, text, upper half of the bits
    labels: dict[str, int] = field(default_factory=dict)


def parse_sass(text: str) -> dict[str, tuple[Instruction, ...]]:
    """The instructions of each function, in the order of their addresses.

    text  what `nvdisasm -hex -c` prints
    """
    functions: dict[str, _Function] = {}
    now, waiting = _Function(), list[str]()
    line: tuple[int, str] | None = None  # whose upper half is on the next row
    for row in text.splitlines():
        if match := _SECTION.match(row):
            now, waiting = functions.setdefault(match[1], _Function()), []
        elif match := _LABEL.match(row):
            waiting.append(match[1])
        elif match := _CODE.match(row):
            line = (int(match[1], 16), match[2])
            now.labels |= dict.fromkeys(waiting, line[0])
            waiting = []
        elif line is not None and (match := _UPPER.match(row)):
            now.lines.append((line[0], line[1], int(match[1], 16)))
            line = None
    return {name: tuple(_instruction(*x, f.labels) for x in f.lines) for name, f in functions.items()}


def _instruction(address: int, text: str, upper: int, labels: dict[str, int]) -> Instruction:
    guarded = _PREDICATE.match(text)
    predicate, text = guarded.groups() if guarded else ("", text)
    opcode, _, operands = text.partition(" ")
    to = _TARGET.search(operands)
    return Instruction(
        address,
        predicate,
        opcode,
        " ".join(operands.split()),
        labels.get(to[1]) if to else None,
        upper >> 41 & 15,
        _scoreboard(upper >> 46 & 7),
        _scoreboard(upper >> 49 & 7),
        tuple(n for n in range(SCOREBOARDS) if upper >> 52 + n & 1),
    )


def _scoreboard(number: int) -> int | None:
    return None if number == _NO_SCOREBOARD else number
