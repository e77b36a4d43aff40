"""SASS, the machine code of NVIDIA GPUs, from the text of nvdisasm."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from .instruction import SCOREBOARDS, Instruction

_NO_SCOREBOARD = 7  # scoreboard: marker for none [fact: arXiv 1804.06826]

_JUMPS = ("BRA", "CALL")  # ptxas leaves some loops by a call of the label behind them, which does not return
_NO_RETURN = ("EXIT", "RET", "BRX", "BRXU", "JMX", "KILL")
_SECTION = re.compile(r"\s*\.section\s+\.text\.([^,\s]+)")
_LABEL = re.compile(r"(\.L_\w+):")
_CODE = re.compile(r"\s+/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;\s*/\* 0x[0-9a-f]{16} \*/")
_UPPER = re.compile(r"\s+/\* 0x([0-9a-f]{16}) \*/")
_LINE = re.compile(r'\s*//## File ".*?", line (\d+)')
_PREDICATE = re.compile(r"@(!?U?P\w+)\s+(.*)")
_TARGET = re.compile(r"`\((\.L_\w+)\)")


@dataclass
class _Function:
    code: list[tuple[int, str, int, tuple[int, ...]]] = field(
        default_factory=list
    )  # address, text, upper half of the bits, lines
    labels: dict[str, int] = field(default_factory=dict)


def parse_sass(text: str) -> dict[str, tuple[Instruction, ...]]:
    """The instructions of each function, in the order of their addresses.

    text  what `nvdisasm -hex -c -gi` prints
    """
    functions: dict[str, _Function] = {}
    now, waiting = _Function(), list[str]()
    lines: list[int] = []  # of the text, for the instructions that follow
    more = False  # whether the next row is of an outer call
    line: tuple[int, str] | None = None  # whose upper half is on the next row
    for row in text.splitlines():
        if match := _SECTION.match(row):
            now, waiting, lines = functions.setdefault(match[1], _Function()), [], []
        elif match := _LABEL.match(row):
            waiting.append(match[1])
        elif match := _LINE.match(row):
            lines = [*(lines if more else []), int(match[1])]
            more = True
        elif match := _CODE.match(row):
            more = False
            line = (int(match[1], 16), match[2])
            now.labels |= dict.fromkeys(waiting, line[0])
            waiting = []
        elif line is not None and (match := _UPPER.match(row)):
            now.code.append((line[0], line[1], int(match[1], 16), tuple(lines)))
            line = None
    return {name: tuple(_instruction(*x, f.labels) for x in f.code) for name, f in functions.items()}


def _instruction(address: int, text: str, upper: int, lines: tuple[int, ...], labels: dict[str, int]) -> Instruction:
    guarded = _PREDICATE.match(text)
    predicate, text = guarded.groups() if guarded else ("", text)
    opcode, _, operands = text.partition(" ")
    base, operands = opcode.partition(".")[0], " ".join(operands.split())
    to = _TARGET.search(operands) if base in _JUMPS else None
    # A branch may have a second predicate among its operands, as `BRA P1, ...` or `BRA.U !UP0, ...`.
    conditional = bool(predicate) or (to is not None and not operands.startswith("`"))
    return Instruction(
        address,
        predicate,
        opcode,
        operands,
        labels.get(to[1]) if to else None,
        conditional,
        base in _NO_RETURN,
        base == "CALL" and to is None,
        upper >> 41 & 15,
        _scoreboard(upper >> 46 & 7),
        _scoreboard(upper >> 49 & 7),
        tuple(n for n in range(SCOREBOARDS) if upper >> 52 + n & 1),
        lines,
    )


def _scoreboard(number: int) -> int | None:
    return None if number == _NO_SCOREBOARD else number
