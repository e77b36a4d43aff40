"""Help on a word, as Markdown: a statement or a modifier of schedules, a declaration, a part of a device."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..codegen.schedule.statement_reference import STATEMENTS, Statement
from ..dsl import syntax
from ..dsl.device import Device
from ..dsl.devices.instr_templates import expand_kinds
from ..dsl.module import std_device
from ..dsl.text.print_node import format_node

DECLARATIONS = {
    "op": """op NAME[SIZE, ...](INPUT: TYPE[SIZE, ...], ..., PARAMETER: int = VALUE) -> (RESULT: TYPE[SIZE, ...]):
    TENSOR[INDEX, ...] = EXPRESSION

What is computed, in index notation, a statement a tensor. Reductions: `sum(k) ...`, `max`, `min`, `prod`, `argmax`, `argmin`,
`any`, `all`. An access that may leave its tensor says what is there instead: `X[i - 1 else 0]`.

    op gemm[M, N, K](A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]):
        C[m, n] = sum(k) A[m, k] * B[k, n]""",
    "device": """device NAME extends DEVICE:
    level LEVEL: ...
    memory MEMORY of LEVEL: ...
    instr NAME on LEVEL [in FAMILY] [for TYPE x COUNT, ...]: ...

Where it runs: levels of units, memories, instructions. A device that extends another has what that has.""",
    "schedule": """schedule NAME for OP [on DEVICE] [where SIZE <= NUMBER]:
    LINE

How an op is computed. Each line rewrites the focus. The compiler completes missing lines.

    schedule rows for gemm:
        tile m: 64 -> core""",
    "strategy": """strategy NAME(PARAMETER, ... [= DEFAULT]):
    LINE

A piece of schedule with a name, which `apply NAME(ARGUMENT, ...)` puts in its place.""",
    "language": """language VERSION

The version of the language in which the text is written. It is the first statement, and may be left out.""",
    "import": """import std.MODULE
import "FILE"

Imports the declarations of a module of the library, or of another file.""",
}


def names_of(statement: Statement) -> list[str]:
    """The words that a statement documents: `pad` and `swizzle` of `pad, swizzle`."""
    return re.findall(r"\w+", statement.name.split("(")[0])[: None if "," in statement.name else 1]


def statements_about(word: str) -> list[Statement]:
    """Statements and modifiers of that word, the plainest first."""
    return [s for s in STATEMENTS if word in names_of(s)]


def device_word_help(device: Device, word: str, others: Mapping[str, Device] | None = None) -> str:
    """A level, a memory, an instruction or a family of instructions, as the text of the device, or of one that it extends, has
    it; "" where there is none. `others`: devices beside those of the library."""
    kinds = (syntax.LevelDecl, syntax.MemoryDecl, syntax.InstrDecl)
    at: Device | None = device
    while at is not None and at.decl is not None:
        found = next((x for item in at.decl.items if isinstance(item, kinds) for x in _meant(item) if x.name == word), None)
        if found is not None:
            return f"```sched\n{format_node(found).strip()}\n```"
        extended = at.decl.extends
        at = ((others or {}).get(extended) or std_device(extended)) if extended else None
    family = list(dict.fromkeys(i.name for i in device.instrs if word in (i.name, i.family)))
    return f"instructions of {device.name}: " + ", ".join(f"`{name}`" for name in family) if family else ""


def _meant(
    item: syntax.LevelDecl | syntax.MemoryDecl | syntax.InstrDecl,
) -> list[syntax.LevelDecl | syntax.MemoryDecl | syntax.InstrDecl]:
    """What a line of a device declares: of an instruction that comes in several kinds, each by its own name."""
    return list(expand_kinds(item)) if isinstance(item, syntax.InstrDecl) else [item]


def device_summary(device: Device) -> str:
    """Its levels, memories, and how many instructions it has."""
    levels = " > ".join(x.name for x in device.levels)
    memories = ", ".join(m.name for m in device.memories)
    return f"device `{device.name}`: {levels}; memories {memories}; {len(device.instrs)} instructions"
