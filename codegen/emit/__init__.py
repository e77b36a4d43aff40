"""The printer: a tile program as text in a dialect.

    emit(program, "cpp") -> str          also "cuda", "hip"

The walk over launches (`emit_body`, `emit_values`, `emit_access`) is shared; a dialect says how levels are realised, what
surrounds a launch, and defines the helper functions that were asked for. A dialect is a module with
`render(program, serial_when) -> str`.
"""

from __future__ import annotations

from importlib import import_module

from ...dsl.errors import InternalError
from ...dsl.index import Expr
from ..tile import Program

DIALECTS = {"cpp": "cpp", "cuda": "cuda", "hip": "hip"}


def emit(program: Program, dialect: str = "cpp", serial_when: tuple[Expr, ...] = ()) -> str:
    """The text of `program`: complete, compilable by itself, the same for equal programs.

    `serial_when`: expressions over the sizes; a call for which one of them is >= 0 is too small to be worth waking threads.
    """
    if dialect not in DIALECTS:
        raise InternalError(f"no dialect {dialect}; there are {', '.join(DIALECTS)}")
    return import_module(f".{DIALECTS[dialect]}", __package__).render(program, serial_when)
