"""Ways of breaking a right program, one by one, and which of the checkers finds each.

malformed      `well_formed`, without executing anything
not-once       the count of points, with the interpreter's own checks switched off
race, ...      the interpreter's checks, by the names of its faults
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from andiron.codegen.interpret.machine import Fault, interpret
from andiron.codegen.verify import check_once
from andiron.codegen.verify.field_elements import FieldDomain
from andiron.codegen.verify.verify_program import verify
from andiron.codegen.verify.well_formed import check_well_formed
from andiron.dsl.errors.verify import NotVerified

from ...support.programs.broken_programs import CASES, PROGRAMS, SIZES, read


def fault_kinds(text: str) -> set[str]:
    """The kinds of faults, each by the checker that looks for it."""
    op, program = read(text)
    sizes: Mapping[str, int] = SIZES["cpu" if program.device.name.startswith("cpu") else "gpu"][op.name]
    try:
        check_well_formed(program)
    except Fault as fault:
        return {fault.kind}
    domain = FieldDomain()
    inputs = {t.name: domain.inputs(t.dtype, tuple(e.evaluate(dict(sizes)) for e in t.shape)) for t in op.inputs}
    faults: list[Fault] = []
    interpret(program, inputs, sizes, on_fault=faults, domain=domain)
    kinds = {f.kind for f in faults}
    try:
        check_once(program, op, sizes, checks=False)
    except Fault as fault:
        kinds.add(fault.kind)
    return kinds


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_programs_are_right(name: str) -> None:
    assert fault_kinds(PROGRAMS[name]) == set()
    op, program = read(PROGRAMS[name])
    assert len(verify(program, op).checked) > 5


@pytest.mark.parametrize(("name", "program", "change", "kinds"), CASES)
def test_each_is_found(name: str, program: str, change: Callable[[str], str], kinds: set[str]) -> None:
    text = change(PROGRAMS[program])
    assert text != PROGRAMS[program]
    assert fault_kinds(text) == kinds
    op, broken = read(text)
    with pytest.raises(NotVerified):
        verify(broken, op, work=1_000_000)
