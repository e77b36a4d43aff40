"""Words for completion, from the spec in focus and from the device's text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ...codegen.plan.derived_names import tensor_of
from ...codegen.targets import FAMILIES, MACHINES
from ...dsl.errors import UserError
from ...dsl.module import std_module
from ...dsl.stdlib_files import std_devices, std_names
from ...dsl.text.versions import NEWEST
from ...dsl.types import TYPES
from ...grammar.words import words
from ..infer_target import has_unit_count, infer_target
from ..word_help import DECLARATIONS, STATEMENTS, names_of
from .commands import COMMANDS
from .next_lines import draft_focus, is_copy_instr, levels_below

if TYPE_CHECKING:
    from ...runtime.kernel import Kernel
    from .session import Session

_REDUCTIONS = ["sum", "max", "min", "prod", "argmax", "argmin", "any", "all"]


def completions(session: Session, text: str) -> list[str]:
    """Words that may stand, or be ended, where the text ends. `text`: the cell up to the cursor."""
    line = text.rsplit("\n", 1)[-1]
    word = re.search(r"[\w:.~-]*$", line)[0]  # pyright: ignore[reportOptionalSubscript]
    before = line[: len(line) - len(word)]
    return sorted({c for c in _expected(session, text, before) if c.startswith(word) and c != word}, key=str.lower)


def _expected(session: Session, text: str, before: str) -> list[str]:
    w = words()
    first = text.split(None, 1)[0] if text.split() else ""
    head = before.split()
    if not head:
        nested = "\n" in text and first in ("schedule", "strategy", "move", "keep")
        if first == "op" and "\n" in text:
            return []
        return [*w.lines, "auto"] if nested else [*w.declarations, *w.lines, "auto", *COMMANDS]
    if first == "op":
        if before.rstrip().endswith(":"):
            return _ranges(text) if re.search(r":[ \t]*\n", text) else list(TYPES)
        return [*_REDUCTIONS, "else", "where"]
    if head[0] == "help":
        return [*COMMANDS, *DECLARATIONS, *(n for s in STATEMENTS for n in names_of(s))]
    if head[0] in ("target", "code"):
        return _targets()
    if head[0] in ("load", "save"):
        return _files(session)
    if head[0] == "use":
        return [n for kind, n in session.now.declared if kind == "schedule"]
    if head[0] == "size":
        return [f"{name}=" for name in _sizes(session)]
    if head[0] == "language":
        return [str(NEWEST)]
    if head[0] == "import":
        return [f"std.{n}" for n in std_names()]
    if head[0] in ("schedule", "device", "strategy"):
        if head[-1] == "for":
            return list(_module(session, "ops"))
        if head[-1] in ("on", "extends"):
            return _devices()
        return ["for", "on", "where"] if head[0] == "schedule" else ["extends"]
    return _in_line(session, head, before)


def _ranges(text: str) -> list[str]:
    """Sizes and parameters of the op that is being written."""
    head = re.match(r"op\s+\w+\s*\[([^\]]*)\]", text)
    return [*re.findall(r"\w+", head[1] if head else ""), *re.findall(r"(\w+)\s*:\s*int\b", text)]


def _in_line(session: Session, head: list[str], before: str) -> list[str]:
    """Inside a line of a schedule."""
    kernel, scope = draft_focus(session)
    device = kernel.program.device if kernel else None
    if head[0] == "try":
        head = head[1:] if "|" not in head else head[len(head) - head[::-1].index("|") :]
        if not head:
            return [*words().lines, "auto"]
    last = before.rstrip()
    if last.endswith("->"):
        if device is None or scope is None:
            return []
        return levels_below(device, scope.level) if head[0] == "tile" else [m.name for m in device.memories[1:]]
    if head[-1] == "in":
        return [m.name for m in device.memories[1:]] if device else []
    if head[-1] == "with":
        return _instructions(kernel, head) if kernel else []
    if head[-1] == "apply":
        return list(_module(session, "strategies"))
    if head[-1] == "by":
        return ["shuffle", "workspace", "atomic"]
    if len(head) == 1 or last.endswith((",", "order")):
        if scope is None:
            return []
        return (
            list(scope.extents)
            if head[0] in ("tile", "fuse") or last.endswith("order")
            else [tensor_of(t) for t in scope.places]
        )
    return [*words().inner, "auto"]


def _instructions(kernel: Kernel, head: list[str]) -> list[str]:
    """Families and instructions of the types at hand: of all tensors, or, only copies, of the one that a line moves."""
    tensors = [t for t in kernel.op.tensors if head[0] == "compute" or t.name in head]
    types = {t.dtype for t in tensors}
    found = (
        i
        for i in kernel.program.device.instrs
        if {o.dtype for o in i.operands} <= types and (head[0] == "compute" or is_copy_instr(i))
    )
    return list(dict.fromkeys(x for i in found for x in (i.family, i.name) if x))


def _module(session: Session, what: str):
    try:
        return getattr(session.module(), what)
    except UserError:
        return ()


def _sizes(session: Session) -> list[str]:
    try:
        return list(session.names_of_sizes())
    except UserError:
        return []


def _files(session: Session) -> list[str]:
    return sorted(p.relative_to(".").as_posix() for pattern in ("*.sched", "*/*.sched") for p in Path().glob(pattern))


def _devices() -> list[str]:
    return list(std_devices())


def _targets() -> list[str]:
    return [*FAMILIES, *MACHINES, *_gpus()]


def _gpus() -> Iterator[str]:
    for name in _devices():
        module = std_module(std_devices()[name])
        target = infer_target(name, module) if has_unit_count(name, module) else name
        if target != name:
            yield from (target, f"emulate:{name}")
