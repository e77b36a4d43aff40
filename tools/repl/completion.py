"""What may be said next: lines for `try`, and words for completion, from what is in focus and from the device's text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from ...codegen.autoschedule.enumerate_schedules import Proposal, is_open, proposals
from ...codegen.lower.schedule_trace import Scope
from ...dsl.device import Device
from ...dsl.errors import UserError
from ...dsl.stdlib_files import std_devices
from ...dsl.syntax import AutoLine
from ...dsl.types import TYPES
from ...grammar.words import words
from ..word_help import DECLARATIONS, STATEMENTS, names_of
from .view import focus

if TYPE_CHECKING:
    from ...runtime.kernel import Kernel
    from .session import Session
    from .state import State

_SIZES = (8, 32, 128)
_REDUCTIONS = ["sum", "max", "min", "prod", "argmax", "argmin", "any", "all"]


def next_lines(session: Session) -> list[str]:
    """Lines that might come next: tiles of every index, one after another or onto the next level, copies, instructions."""
    kernel, scope = _here(session)
    if kernel is None or scope is None:
        return []
    device = kernel.program.device
    extents = {i: e.constant for i, e in scope.extents.items()}
    lines = []
    inner = _levels_below(device, scope.level)
    for i, extent in extents.items():
        if extent == 1:
            continue
        for size in _SIZES:
            if extent is None or size < extent:
                lines.append(f"tile {i}: {size}")
                lines += [f"tile {i}: {size} -> {level}" for level in inner[:1]]
    outputs = {t.name for t in kernel.op.outputs}
    for tensor, memory in scope.places.items():
        if tensor in outputs:
            if memory != device.memories[-1].name:
                lines.append(f"keep {tensor} in {device.memories[-1].name}")
        elif not tensor.endswith("~"):
            lines += [f"move {tensor} -> {m}" for m in _memories_below(device, memory)]
    families = dict.fromkeys(i.family or i.name for i in device.instrs if not _copies(i))
    return [*lines, *(f"compute with {name}" for name in families), "compute"]


def wholes(session: Session, state: State, most: int = 5) -> list[Proposal]:
    """The best schedules that the model knows, of those in which the draft's lines stay; empty where it has no opinion."""
    try:
        request = session.kernel(state).request
        base = request.schedules[0] if request is not None else None
        if request is None or base is None:
            return []
        if not is_open(base, request.device, request.module):
            base = replace(base, lines=(*base.lines, AutoLine()))
        found = proposals(request.special, request.device, base, request.module, request.values)
        return [p for p in islice(found, most) if p.seconds is not None]
    except UserError:
        return []


def completions(session: Session, text: str) -> list[str]:
    """Words that may stand, or be ended, where the text ends. `text`: the cell up to the cursor."""
    line = text.rsplit("\n", 1)[-1]
    word = re.search(r"[\w:.~-]*$", line)[0]  # pyright: ignore[reportOptionalSubscript]
    before = line[: len(line) - len(word)]
    return sorted({c for c in _expected(session, text, before) if c.startswith(word) and c != word}, key=str.lower)


def _expected(session: Session, text: str, before: str) -> list[str]:
    from .commands import COMMANDS

    w = words()
    first = text.split(None, 1)[0] if text.split() else ""
    head = before.split()
    if not head:
        nested = "\n" in text and first in ("schedule", "strategy", "move", "keep")
        if first == "op" and "\n" in text:
            return []
        return [*w.lines, "auto"] if nested else [*w.declarations, *w.lines, "auto", *COMMANDS]
    if first == "op":
        return list(TYPES) if before.rstrip().endswith(":") else [*_REDUCTIONS, "else", "where"]
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
    if head[0] == "import":
        from ...dsl.stdlib_files import std_names

        return [f"std.{n}" for n in std_names()]
    if head[0] in ("schedule", "device", "strategy"):
        if head[-1] == "for":
            return list(_module(session, "ops"))
        if head[-1] in ("on", "extends"):
            return _devices()
        return ["for", "on", "where"] if head[0] == "schedule" else ["extends"]
    return _in_line(session, head, before)


def _in_line(session: Session, head: list[str], before: str) -> list[str]:
    """Inside a line of a schedule."""
    kernel, scope = _here(session)
    device = kernel.program.device if kernel else None
    if head[0] == "try":
        head = head[1:] if "|" not in head else head[len(head) - head[::-1].index("|") :]
        if not head:
            return [*words().lines, "auto"]
    last = before.rstrip()
    if last.endswith("->"):
        if device is None or scope is None:
            return []
        return _levels_below(device, scope.level) if head[0] == "tile" else [m.name for m in device.memories[1:]]
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
            else [t.rstrip("~") for t in scope.places]
        )
    return [*words().inner, "auto"]


def _here(session: Session) -> tuple[Kernel | None, Scope | None]:
    """The kernel of the schedule in the making, and what its last line left in focus."""
    try:
        kernel = session.kernel()
    except UserError:
        return None, None
    if session.now.draft is None:
        return kernel, next((t.scope for t in kernel.trace if t.scope), None)
    found = focus(kernel, session.now.draft)
    return kernel, found.scope if found is not None else None


def _levels_below(device: Device, level: str) -> list[str]:
    names = [x.name for x in device.levels]
    return names[names.index(level) + 1 :]


def _memories_below(device: Device, memory: str) -> list[str]:
    names = [m.name for m in device.memories]
    return names[names.index(memory) + 1 :]


def _instructions(kernel: Kernel, head: list[str]) -> list[str]:
    """Families and instructions of the types at hand: of all tensors, or, only copies, of the one that a line moves."""
    tensors = [t for t in kernel.op.tensors if head[0] == "compute" or t.name in head]
    types = {t.dtype for t in tensors}
    found = (
        i
        for i in kernel.program.device.instrs
        if {o.dtype for o in i.operands} <= types and (head[0] == "compute" or _copies(i))
    )
    return list(dict.fromkeys(x for i in found for x in (i.family, i.name) if x))


def _copies(instr) -> bool:
    """Whether an instruction only moves."""
    return not instr.accumulate


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
    from ...codegen.targets import FAMILIES, MACHINES

    return [*FAMILIES, *MACHINES, *_gpus()]


def _gpus() -> Iterator[str]:
    from ...dsl.module import std_module
    from ..infer_target import target_for, whole

    for name in _devices():
        module = std_module(std_devices()[name])
        target = target_for(name, module) if whole(name, module) else name
        if target != name:
            yield from (target, f"emulate:{name}")
