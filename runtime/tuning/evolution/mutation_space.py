"""`MutationSpace`: what mutations of a schedule choose from. It comes from the op and the device; no name is known here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ....codegen.autoschedule.neighbourhood import vector_width
from ....codegen.lower.schedule_trace import line_head
from ....dsl import syntax
from ....dsl.device import Device
from ....dsl.op import Op
from ....dsl.support.cached import cached_property
from ....dsl.support.fast_replace import replace
from ....dsl.values import Load

Lines = tuple[syntax.Line, ...]
Change = tuple[Lines, str]  # new lines, and what is different, for people
Path = tuple[int, ...]  # to a block: the number of a line, of a line in its block, ...


@dataclass(frozen=True)
class MutationSpace:
    """What there is to choose.

    extents  of indices, where they are known     tensors  that a line may move
    """

    device: Device
    extents: Mapping[str, int]
    tensors: tuple[str, ...]

    @staticmethod
    def of(op: Op, device: Device) -> MutationSpace:
        """That of an op, whose sizes are fixed where they are known."""
        extents = {i: e.constant for s in op.statements for i, e in s.ranges if e.constant is not None}
        return MutationSpace(device, extents, tuple(t.name for t in op.inputs))

    @cached_property
    def width(self) -> int:
        """Elements of a vector."""
        return vector_width(self.device)

    @cached_property
    def memories(self) -> tuple[str, ...]:
        """Where copies may lie: all memories but the outermost."""
        return tuple(m.name for m in self.device.memories[1:])

    @cached_property
    def sliced(self) -> tuple[str, ...]:
        """Memories that have slices, in which tiles may be neighbours."""
        return tuple(m.name for m in self.device.memories if m.slices > 1)

    @cached_property
    def registers(self) -> frozenset[str]:
        """The memories of the innermost level."""
        return frozenset(m.name for m in self.device.memories if m.level == self.device.levels[-1].name)

    @cached_property
    def copies(self) -> tuple[str, ...]:
        """Instructions, or families of them, that copy."""
        return self._instrs(True)

    @cached_property
    def leaves(self) -> tuple[str, ...]:
        """Instructions, or families of them, that compute."""
        return self._instrs(False)

    def _instrs(self, copies: bool) -> tuple[str, ...]:
        found = (i for i in self.device.instrs if i.function is None and i.used_everywhere is None)
        alike = (i for i in found if (isinstance(i.statement.value, Load) and not i.statement.reduction) == copies)
        return tuple(dict.fromkeys(i.family or i.name for i in alike))


def blocks(lines: Lines, path: Path = ()) -> Iterator[tuple[Path, Lines]]:
    """All blocks of a schedule, its own lines first."""
    yield path, lines
    for n, line in enumerate(lines):
        block = getattr(line, "block", None)
        if block:
            yield from blocks(block, (*path, n))


def with_block(lines: Lines, path: Path, block: Lines) -> Lines:
    """The lines with another block at a path."""
    if not path:
        return block
    line = lines[path[0]]
    return with_line(lines, path[0], replace(line, block=with_block(getattr(line, "block", ()), path[1:], block)))


def with_line(lines: Lines, at: int, *new: syntax.Line) -> Lines:
    """The lines with others, or none, in the place of one."""
    return (*lines[:at], *new, *lines[at + 1 :])


def head_text(line: syntax.Line) -> str:
    """A line without its block, for people."""
    return f"`{line_head(line)}`"
