"""The printer: a tile program as text in a dialect.

    emit(program, "cpp") -> str          also "cuda", "hip", "emulate"

The walk over launches (`statements`, `value_printer`, `load_store`) is shared; a dialect realises levels, prints the text
around a launch, and defines the helper functions that it needs. A dialect is a module with a class
`Printer(program, serial_when)`, a `ProgramPrinter`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ...dsl.errors import InternalError
from ...dsl.index.expr import Expr
from ...dsl.source import Span
from ...dsl.support.stack_room import with_stack_room
from ..ir.program import Program

if TYPE_CHECKING:
    from .gpu.launch_geometry import KernelSource

DIALECTS = {"cpp": "cpu.cpu_printer", "cuda": "gpu.cuda", "hip": "gpu.hip", "emulate": "emulated.emulated_printer"}


@with_stack_room
def emit(program: Program, dialect: str = "cpp", serial_when: tuple[Expr, ...] = ()) -> str:
    """The text of `program`: complete, compilable by itself, the same for equal programs.

    `serial_when`: expressions over the sizes; a call for which one of them is >= 0 is too small to be worth waking threads. The
    first of them is less by a picosecond for each that the call takes longer.
    """
    if dialect not in DIALECTS:
        raise InternalError(f"there is no dialect {dialect}, only {', '.join(DIALECTS)}")
    return _printer(dialect)(program, serial_when).render()


def line_spans(program: Program, dialect: str) -> dict[int, Span]:
    """Lines of the text that `emit` gives, from 1 on, each with the part of the schedule that it was printed for. A line that
    was printed for none, as a brace is, is left out."""
    return _printer(dialect)(program).line_spans()


def launches(program: Program, dialect: str) -> tuple[KernelSource, ...]:
    """The kernels of a GPU's text as a driver needs them, in the order of their launches."""
    return _printer(dialect)(program).launched_kernels()


def _printer(dialect: str) -> Any:
    return import_module(f".{DIALECTS[dialect]}", __package__).Printer
