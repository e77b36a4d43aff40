"""Vector accesses, by proof.

    vectorised(program, assume, addresses) -> Vectors

A run of neighbours that the program reads or writes one by one becomes an access of 4, 8 or 16 bytes by one of the device's
instructions (`vector_instrs`), where three things are proven: the addresses follow each other, the first is a multiple of the
access (`divisibility`), and the neighbours are inside together (`joint_guards`). Copies that lowering placed are checked, and
made narrower where their addresses are not aligned (`legalize_copies`).

Facts that hold only for some calls (`K % 8 == 0`, an argument's address) are required if `assume` is set, and are part of the
result as its needs; otherwise such accesses stay narrow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ....dsl.index.expr import Var
from ....dsl.support.fast_replace import replace
from ...analysis.vector_instrs import vector_instrs
from ...ir.program import Program
from ...ir.tile_ir import Alloc, Stmt
from ...ir.tile_visitors import map_bodies
from .legalize_copies import legalize_copy
from .vectorize_nest import vectorize_nest
from .vectorizer_state import VectorizerState, state_of

__all__ = ["VectorizedProgram", "vectorize_program"]


@dataclass(frozen=True)
class VectorizedProgram:
    """`multiples`: products of sizes and what must divide them. `pointers`: arguments and bytes that divide their address."""

    program: Program
    multiples: Mapping[tuple[Var, ...], int]
    pointers: Mapping[str, int]
    notes: tuple[str, ...]


def vectorize_program(program: Program, assume: bool) -> VectorizedProgram:
    if not any(True for _ in vector_instrs(program.device)):
        return VectorizedProgram(program, {}, {}, ())
    known, wanted = {}, {}
    if assume and (program.dims or program.lets):
        # Nothing is written before it is known what will hold: guards of neighbours become one.
        state = state_of(program, assume, {}, asks=True)
        _pass(state)
        known, wanted = state.sizes, state.pointers
    state = state_of(program, assume, known)
    done = _pass(state)
    return VectorizedProgram(done, {**known, **state.sizes}, {**wanted, **state.pointers}, tuple(state.notes))


def _pass(state: VectorizerState) -> Program:
    launches = tuple(replace(x, body=_body(state, x.body)) for x in state.program.launches)
    instrs = tuple(state.instrs[n] for n in sorted(state.instrs))
    return replace(state.program, launches=launches, instrs=instrs)


def _body(state: VectorizerState, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, Alloc):
            state.buffers[s.buffer.name] = s.buffer
        legal = legalize_copy(state, s)
        for one in legal if legal is not None else [s]:
            nest = vectorize_nest(state, one)
            out += [map_bodies(one, lambda b: _body(state, b))] if nest is None else nest
    return tuple(out)
