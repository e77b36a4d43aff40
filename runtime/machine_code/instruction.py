"""One instruction of machine code, and what it states about control flow and its schedule.

The bits of an NVIDIA instruction state its schedule. Jia et al., "Dissecting the NVIDIA Volta GPU Architecture via
Microbenchmarking" (arXiv 1804.06826), section 2.1: for how many cycles the warp issues nothing more, the scoreboard that it
sets until its result is written, the one until its operands are read, and the scoreboards that it waits for.
"""

from __future__ import annotations

from dataclasses import dataclass

SCOREBOARDS = 6  # scoreboards: of a warp [fact: arXiv 1804.06826]


@dataclass(frozen=True)
class Instruction:
    """One instruction. `opcode` has its modifiers, as `LDG.E.128`.

    address        in the code; on AMD GPUs a line of the assembly
    predicate      as `P0` or `!UP1`; "" where there is none
    target         the address that a branch goes to
    conditional    whether the next instruction may follow it in any case
    ends           whether no instruction is known to follow
    calls          whether it calls a function, which returns
    stall          cycles until the warp may issue its next instruction
    write_barrier  the scoreboard that is set until the result is written
    read_barrier   the one that is set until the operands are read
    waits          scoreboards that must be clear at its issue
    lines          of the emitted text, from 1 on: its own, then that of the call that this was inlined at, and so on outwards
    """

    address: int
    predicate: str
    opcode: str
    operands: str
    target: int | None = None
    conditional: bool = False
    ends: bool = False
    calls: bool = False
    stall: int = 1
    write_barrier: int | None = None
    read_barrier: int | None = None
    waits: tuple[int, ...] = ()
    lines: tuple[int, ...] = ()

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
