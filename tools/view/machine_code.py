"""The machine code of a kernel on the page: each instruction with the line of the text that it was made from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...codegen.emit.emitted_lines import EmittedLines
from ...dsl.errors.target import CompilerFailed, NoCompiler, NoDisassembler
from ...runtime.machine_code.read_machine_code import read_machine_code
from ...runtime.variant import Variant


@dataclass(frozen=True)
class MachineRow:
    """`line`: of the emitted text, from 1 on, 0 when not known; `step`: of the schedule, -1 for none."""

    text: str
    line: int
    step: int


@dataclass(frozen=True)
class MachineCode:
    """`functions`: by name, in the order of the text; empty where `note` says why."""

    functions: dict[str, tuple[MachineRow, ...]]
    note: str = ""


def machine_code(variant: Variant, emitted: EmittedLines, steps: Sequence[int]) -> MachineCode | None:
    """Of a kernel for a GPU; None for others.

    steps  for each line of the text
    """
    if variant.target.family.launcher != "driver":
        return None
    try:
        functions = read_machine_code(variant)
    except (NoDisassembler, NoCompiler, CompilerFailed) as error:
        return MachineCode({}, error.message + (f"; {error.help}" if error.help else ""))
    rows = {}
    for name, code in functions.items():
        lines = [emitted.of(i.lines).line for i in code]
        rows[name] = tuple(
            MachineRow(f"{i.address:04x} {i}", n, steps[n - 1] if n else -1) for i, n in zip(code, lines, strict=True)
        )
    return MachineCode(dict(sorted(rows.items(), key=lambda f: max(row.line for row in f[1]))))
