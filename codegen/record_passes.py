"""The program after each pass of the pipeline, as text, and the time of the pass: for people, and for tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..dsl import syntax
from ..dsl.device import Device
from ..dsl.op import Op
from ..dsl.text.format import format_node
from .ir.printer import show
from .passes import Compilation
from .pipeline import CompiledProgram, Pass, compile_program
from .schedule.build_tree import lines_of


@dataclass(frozen=True)
class PassRecord:
    """`text`: what was known after the pass; `seconds`: what it took, in all tries together."""

    name: str
    text: str
    seconds: float


def record_passes(
    module: Any,
    op: Op,
    schedule: syntax.ScheduleDecl | None,
    device: Device,
    params: Mapping[str, int] | None = None,
    texts: bool = True,
) -> tuple[CompiledProgram, list[PassRecord]]:
    """Compiles as `compile_program`, and raises what it raises. A record for each pass, in their order; of passes that ran
    several times, the last text. Without `texts` nothing is printed, which takes longer than most passes."""
    records: dict[str, PassRecord] = {}

    def observer(x: Pass, c: Compilation, seconds: float) -> None:
        before = records[x.name].seconds if x.name in records else 0.0
        records[x.name] = PassRecord(x.name, known_of(c) if texts else "", before + seconds)

    return compile_program(module, op, schedule, device, params, observer), list(records.values())


def known_of(c: Compilation) -> str:
    """What the compilation knows, by the newest form of it: the lines, the launches, or the tile program."""
    if hasattr(c, "program"):
        return show(c.program) + (f"\nfor sizes that are not aligned:\n\n{show(c.unaligned)}" if c.unaligned else "")
    if c.trees:
        return "\n".join(
            f"launch of {', '.join(w.result for w in computations)}:\n{_lines(lines_of(tree))}"
            for computations, tree in c.trees
        )
    if c.parts:
        return "\n".join(f"launch of {', '.join(w.result for w in computations)}:\n{_lines(x)}" for computations, x in c.parts)
    sizes = [f"# {v.name}: {v.lo or 0} .. {'' if v.hi is None else v.hi}".rstrip() for v in c.op.dims]
    return "\n".join([*sizes, str(c.op).rstrip(), *(["", "lines:", _lines(c.lines).rstrip()] if c.lines else [])]) + "\n"


def _lines(lines: tuple[syntax.Line, ...]) -> str:
    text = "".join(f"{format_node(x).rstrip()}\n" for x in lines) or "auto\n"
    return "".join(f"    {x}\n" for x in text.splitlines())
