"""Runs a case and compares it with the formula. What comes of it is an `Outcome`."""

from __future__ import annotations

import re
import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import unified_diff
from itertools import islice
from typing import Any

import numpy as np
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.ir.printer import show
from andiron.codegen.ir.program import Program
from andiron.codegen.pipeline import CompiledProgram, compile_program
from andiron.codegen.verify import check_once
from andiron.codegen.verify.field_elements import ValueBudgetExceeded
from andiron.codegen.verify.verify_program import verify
from andiron.codegen.verify.well_formed import check_well_formed
from andiron.dsl.errors import InternalError, UserError, UserErrors
from andiron.dsl.errors.verify import ElementNotCovered, PointNotOnce
from andiron.runtime.emulator.run_program import emulated_variant, run_variant

from .case import Case, inputs, module_and_op
from .formula import evaluate

LONG = 150_000  # characters of emitted text that compilers take many seconds for
WORK = 300_000  # values computed to count points, as long as the rest of a case takes
DIFFERENT = 20  # lines that differ, of two texts
MORE = 4_000_000  # the same, where sizes other than the case's are looked at as well


@dataclass(frozen=True)
class Outcome:
    """`kind`: `right`, `refused`, `invalid` (the op itself is refused), `long` (not run), or what failed: `wrong`, `fault`,
    `internal`, `exception`, `refused-without-a-line`, `wrong-program` (refused as such), `invalid-kernel`. `id`: of the
    error, or which fault or exception."""

    kind: str
    id: str = ""
    text: str = ""

    @property
    def failed(self) -> bool:
        return self.kind not in ("right", "refused", "invalid", "long")

    def same(self, other: Outcome) -> bool:
        """Whether both failed in the same way."""
        return (self.kind, self.id) == (other.kind, other.id)


class Late(BaseException):
    """A case ran for longer than the runner allows."""


class Refused(Exception):
    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome


def compiled(case: Case) -> CompiledProgram:
    """The tile program, with its schedule. Raises Refused where there is none."""
    try:
        module, op = module_and_op(case)
    except UserError as error:
        raise Refused(_refusal(error, "invalid")) from None
    schedule = module.schedules["s"] if case.schedule else None
    try:
        return compile_program(module, op, schedule, module.device(case.device))
    except UserError as error:
        raise Refused(_refusal(error, "refused")) from None


def _refusal(error: UserError, kind: str) -> Outcome:
    errors = error.errors if isinstance(error, UserErrors) else (error,)
    if any(isinstance(e, ElementNotCovered | PointNotOnce) for e in errors):
        return Outcome("wrong-program", errors[0].id, str(error))
    if any(e.span is None for e in errors):
        return Outcome("refused-without-a-line", errors[0].id, str(error))
    return Outcome(kind, errors[0].id, str(error))


def failure(error: BaseException) -> Outcome:
    """What an exception that is no refusal comes to."""
    text = "".join(traceback.format_exception(error)[-4:])
    if isinstance(error, InternalError):
        named = getattr(error, "kind", None)
        return Outcome("fault" if named else "internal", named or _words(error.message), text)
    if isinstance(error, UserError):  # the emulator's report of a run
        first = error.errors[0] if isinstance(error, UserErrors) else error
        return Outcome("fault", first.id, str(error))
    return Outcome("exception", type(error).__name__, text)


def _words(message: str) -> str:
    """The start of a message, without names and numbers."""
    return " ".join("".join(c if c.isalpha() else " " for c in message).split()[:5])


def interpreted(case: Case, program: Program) -> dict[str, np.ndarray]:
    sizes = {v.name: dict(case.sizes)[v.name] for v in program.dims}
    return interpret(program, inputs(case), sizes, {level: case.cores for level, _ in program.finite})


def counted(case: Case, program: Program) -> None:
    """Each point once, at the sizes of the case, where these are small enough. Raises a Fault."""
    check_well_formed(program)
    with suppress(ValueBudgetExceeded):
        finite = {level: case.cores for level, _ in program.finite}
        check_once(program, module_and_op(case)[1], dict(case.sizes), finite, work=WORK)


def fed_back(case: Case, first: CompiledProgram) -> Outcome:
    """The printed schedule is accepted, printed the same again, and gives the same program."""
    text = first.schedule
    name = next(x for x in text.split("\n") if x.startswith("schedule ")).split(" ")[1]
    module, op = module_and_op(replace(case, schedule=text, spelling=None))
    try:
        again = compile_program(module, op, module.schedules[name], module.device(case.device))
    except UserError as error:
        return Outcome("not-fed-back", _refusal(error, "").id, f"{text}\n{error}")
    for what, a, b in (("schedule", text, again.schedule), ("program", _shown(first.program), _shown(again.program))):
        if a != b:
            return Outcome("not-fed-back", f"another {what}", f"{text}\n{_difference(a, b)}")
    return Outcome("right")


def _shown(program: Program) -> str:
    """The program without the words in which its schedule states conditions on sizes."""
    return re.sub(r"(?m)^(require .*?)  #.*", r"\1", show(program))


def _difference(a: str, b: str) -> str:
    return "\n".join(islice(unified_diff(a.split("\n"), b.split("\n"), "first", "again", n=1, lineterm=""), DIFFERENT))


def emulated(case: Case, program: Program) -> dict[str, np.ndarray] | None:
    """None where the text is too long to be worth it."""
    variant = emulated_variant(program)
    if len(variant.source) > LONG:
        return None
    return run_variant(variant, inputs(case), {v.name: dict(case.sizes)[v.name] for v in program.dims})


def compared(case: Case, got: Mapping[str, np.ndarray]) -> Outcome:
    """Each output within its bound of the formula; a bound of 0 asks for the same bits."""
    want = evaluate(case.op, dict(case.sizes), inputs(case))
    for t in case.op.outputs:
        v, array = want[t.name], np.asarray(got[t.name])
        a, b = array.astype(np.float64), v.data.astype(np.float64)
        if a.shape != b.shape:
            return Outcome("wrong", "", f"{t.name} has shape {a.shape}, not {b.shape}")
        with np.errstate(all="ignore"):
            near = (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= v.bound) | np.isinf(v.bound)
        if array.dtype.kind in "iu" and array.dtype.itemsize == 8:
            near = (array == v.data) | np.isinf(v.bound)
        if not near.all():
            at = tuple(int(x) for x in np.argwhere(~near)[0])
            share = f"{int((~near).sum())} of {near.size} elements"
            bound = np.broadcast_to(v.bound, near.shape)[at]
            return Outcome("wrong", "", f"{t.name}{list(at)} is {a[at]}, not {b[at]} (bound {bound:.3g}); {share}")
    return Outcome("right")


def run(case: Case, how: str = "interpreter") -> Outcome:
    """`how`: compile, fed-back, interpreter, verify or emulate."""
    try:
        first = compiled(case)
        program = first.program
        if how == "compile":
            return Outcome("right")
        if how == "fed-back":
            return fed_back(case, first)
        try:
            if how in ("interpreter", "verify"):
                counted(case, program)
            if how == "verify":
                verify(program, module_and_op(case)[1], work=MORE)
                return Outcome("right")
            got = _ran(case, program, how)
        except Late:
            if how not in ("interpreter", "verify"):
                raise
            return Outcome("long", "interpreter")  # its loops all end; those of tiles far larger than sizes end late
        return Outcome("long") if got is None else compared(case, got)
    except Refused as refused:
        return refused.outcome
    except Exception as error:
        return failure(error)


def _ran(case: Case, program: Program, how: str) -> Any:
    if how == "interpreter":
        return interpreted(case, program)
    return emulated(case, program)
