"""The function of one instruction around its text. The text can use (stdlib/devices/nvidia.sched describes it in full):

    in registers   an array of the unit's registers by the operand's lower-case name: f64, f32, i64 and i32 one element each,
                   other types in 32-bit words, as many elements to a word as fit, the first in the lowest bits
    in memory      a generic pointer

The function takes arrays by reference.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from textwrap import dedent, indent

from ....dsl.device import Instr, Operand
from ....dsl.errors.target import NoEmittedText
from ...analysis.register_buffers import register_memories
from ...ir.program import Program
from ...ir.tile_ir import Call
from ...ir.tile_visitors import statements
from ..c.c_expr import ELEMENTS, storage
from ..instr_operands import instr_heading, instr_name

_WHOLE = ("f64", "f32", "i64", "i32")


@dataclass(frozen=True)
class RegisterOperand:
    """How a register operand is passed: an array of `count` variables of C type `kind`, `share` elements in each."""

    kind: str
    count: int
    share: int

    def parameter(self, name: str, role: str) -> str:
        return f"{'const ' if role == 'input' else ''}{self.kind} (&{name})[{self.count}]"


def register_operand(o: Operand, extent: int) -> RegisterOperand:
    if o.dtype.name in _WHOLE:
        return RegisterOperand(ELEMENTS[storage(o.dtype)], extent, 1)
    share = max(1, 4 // o.dtype.bytes)
    return RegisterOperand("uint32_t", -(-extent // share), share)


@dataclass(frozen=True)
class ExecutedInstr:
    """An instruction, the first program that executes it, and how many elements of each operand a unit gives."""

    program: Program
    instr: Instr
    extents: dict[str, int]


def executed_instrs(programs: Iterable[Program]) -> dict[str, ExecutedInstr]:
    """By name."""
    found: dict[str, ExecutedInstr] = {}
    for program in programs:
        calls = {s.instr: s for x in program.launches for s in statements(x.body) if type(s) is Call}
        for instr in program.instrs:
            if (call := calls.get(instr.name)) is not None and instr.name not in found:
                extents = {o.name: p.extent for p, o in zip(call.pieces, instr.operands, strict=True)}
                found[instr.name] = ExecutedInstr(program, instr, extents)
    return found


def instr_text(what: ExecutedInstr, dialect: str) -> str:
    program, instr, extents = what.program, what.instr, what.extents
    emit = dict(instr.emits).get(dialect)
    if emit is None:
        help = f"add `emit {dialect}:` to the instruction"
        raise NoEmittedText(f"`{instr.name}` has no text for {dialect}", instr.span, help=help)
    params = []
    for o in instr.operands:
        name = o.name.lower()
        if o.memory not in register_memories(program.device):
            params.append(f"{'const ' if o.role == 'input' else ''}void* {name}")
            continue
        r = register_operand(o, extents.get(o.name, 1))
        params.append(r.parameter(name, o.role))
    body = indent(dedent(emit).strip("\n"), "    ")
    return f"// {instr_heading(instr)}\nm_inline void {instr_name(instr)}({', '.join(params)}) {{\n{body}\n}}\n"
