"""A program and its fallbacks: the version for aligned calls first, the version for all calls last.

The conditions are few and cheap to check: remainders of sizes, and of the addresses of arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ...dsl.index.expr import ONE
from ...dsl.support.fast_replace import replace
from ..ir.program import Program
from ..ir.tile_ir import Needs
from .narrow_indices import narrow_indices
from .vectorize.vectorizer import VectorizedProgram, vectorize_program


def vectorize_accesses(program: Program, unaligned: Program | None) -> tuple[Program, tuple[str, ...]]:
    """The program with vector accesses, and notes. Where these need something of a call, `instead` has those that need nothing.

    `unaligned`: the program for calls whose sizes are not as needed; None: the same."""
    aligned = vectorize_program(program, True)
    needs = _needs(aligned)
    if needs is None:
        return aligned.program, aligned.notes
    other = vectorize_program(unaligned if unaligned is not None and needs.conds else program, False).program
    launches = tuple(replace(x, name=f"{x.name}_any") for x in other.launches)
    return replace(aligned.program, needs=needs, instead=replace(other, launches=launches)), aligned.notes


def with_narrow_sizes(program: Program) -> Program:
    """Sizes of ordinary calls get an upper end where there is a program for the others."""
    return program if program.needs is None else narrow_indices(program)


def in_each_version(transform: Callable[[Program], Program], program: Program) -> Program:
    """The transform of the program, and of the one that it is given up for."""
    instead = program.instead and in_each_version(transform, program.instead)
    return replace(transform(replace(program, needs=None, instead=None)), needs=program.needs, instead=instead)


def _needs(v: VectorizedProgram) -> Needs | None:
    conds = tuple(-(prod(sizes, start=ONE) % n) for sizes, n in v.multiples.items())
    aligned = tuple(v.pointers.items())
    return Needs(conds, aligned) if conds or aligned else None
