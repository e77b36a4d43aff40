"""A program that is not well formed is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from andiron.codegen.interpret.machine import Fault
from andiron.codegen.ir.printer import show
from andiron.codegen.ir.program import Program
from andiron.codegen.ir.tile_ir import Alloc, Barrier, Call, For, Let, Staging, Stmt, Store, Wait
from andiron.codegen.pipeline import compile_program
from andiron.codegen.verify.well_formed import check_well_formed
from andiron.dsl.index.expr import Var, as_expr
from andiron.dsl.ops.specialise import bind_params
from andiron.dsl.types import TYPES

from ...support.edit_programs import edited
from ...support.library.cases import library
from ...support.library.ops import OPS


def one(p: Program, kind: type, change: Any) -> Program:
    """With the change of the first statement of a kind."""
    done: list[Stmt] = []

    def edit(s: Stmt) -> list[Stmt]:
        if done or not isinstance(s, kind):
            return [s]
        done.append(s)
        return change(s)

    return edited(p, edit)


def buffers(p: Program, **changes: Any) -> Program:
    return replace(p, buffers=(replace(p.buffers[0], **changes), *p.buffers[1:]))


ONE = as_expr(1)
ILL = {
    "a variable that is not bound": lambda p: one(p, Let, lambda s: []),
    "a variable bound twice": lambda p: one(p, For, lambda s: [replace(s, body=(replace(s, body=()),))]),
    "another interval where it is named": lambda p: one(p, For, lambda s: [replace(s, var=Var(s.var.name, 0, 10**6))]),
    "an interval that holds no value": lambda p: replace(p, launches=(replace(p.launches[0], units=tuple(
        replace(u, var=Var(u.var.name, 10**6, 10**6)) for u in p.launches[0].units)), *p.launches[1:])),
    "a negative step": lambda p: one(p, For, lambda s: [replace(s, step=-s.step)]),
    "a coordinate too many": lambda p: one(p, Store, lambda s: [replace(s, coords=(*s.coords, ONE))]),
    "no such buffer": lambda p: one(p, Store, lambda s: [replace(s, buffer="nothing")]),
    "an input that is written": lambda p: one(p, Store, lambda s: [replace(s, buffer="A", coords=(ONE, ONE))]),
    "another type": lambda p: buffers(p, dtype=TYPES["f64"]),
    "no such memory": lambda p: buffers(p, memory="nowhere"),
    "no such level": lambda p: buffers(p, level="nobody"),
    "strides that are missing": lambda p: buffers(p, strides=()),
    "a barrier of nobody": lambda p: one(p, Barrier, lambda s: [replace(s, level="thread")]),
    "a barrier of those that cannot meet": lambda p: one(p, Barrier, lambda s: [replace(s, level="grid")]),
    "an operand too few": lambda p: one(p, Call, lambda s: [replace(s, pieces=s.pieces[1:])]),
    "no such instruction": lambda p: one(p, Call, lambda s: [replace(s, instr="nothing")]),
    "a piece of another length": lambda p: one(p, Call, lambda s: [replace(s, pieces=tuple(
        replace(x, extent=x.extent + 1) for x in s.pieces))]),
    "what nobody awaits": lambda p: one(p, Wait, lambda s: [replace(s, kind="counter")]),
    "fewer than none": lambda p: one(p, Wait, lambda s: [replace(s, pending=-1)]),
    "what is still to be staged": lambda p: one(p, Alloc, lambda s: [replace(s, staging=Staging(1))]),
    "levels out of order": lambda p: replace(p, launches=(replace(p.launches[0], units=p.launches[0].units[::-1]),)),
    "two launches of one name": lambda p: replace(p, launches=p.launches * 2),
    "no program for other sizes": lambda p: replace(p, instead=None),
    "an atomic that there is not": lambda p: one(p, Store, lambda s: [replace(s, atomic="prod")]),
}  # fmt: skip


@pytest.mark.parametrize("name", ILL)
def test_what_is_no_program_is_refused(name: str) -> None:
    module = library()
    program = compile_program(module, bind_params(OPS["gemm"]), None, module.device("sm_80")).program
    check_well_formed(program)
    broken = ILL[name](program)
    assert show(broken) != show(program)
    with pytest.raises(Fault, match="malformed"):
        check_well_formed(broken)
