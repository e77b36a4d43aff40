"""The state of a session, as plain data: declarations, the unfinished schedule, target and values.

A state never changes: each step creates the next one, so undo is a list.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ...dsl import syntax
from ...dsl.source import Source
from ...dsl.text.parser import parse

NAME = "<repl>"  # what diagnostics call the session's text


@dataclass(frozen=True)
class ScheduleDraft:
    """A schedule in the making: its first line without the colon, and its lines, each with the block nested below it."""

    name: str
    op: str
    device: str | None
    header: str
    lines: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return self.header + ":\n" + textwrap.indent("\n".join(self.lines or ("auto",)), "    ") + "\n"

    @property
    def complete(self) -> bool:
        """Whether its last line leaves nothing in focus."""
        return bool(self.lines) and self.lines[-1].split()[0].rstrip(":") == "compute"

    def __add__(self, line: str) -> ScheduleDraft:
        return replace(self, lines=(*self.lines, line))


@dataclass(frozen=True)
class SessionState:
    """declared  (kind, name) -> text, in the order in which they came; imports have their path for a name
    draft     the schedule that the next line goes to
    target    what it is compiled for; None: the device that the draft names, else this machine
    values    sizes and parameters that are fixed
    """

    declared: Mapping[tuple[str, str], str] = field(default_factory=dict)
    draft: ScheduleDraft | None = None
    target: str | None = None
    values: Mapping[str, int] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """All of it as a `.sched` text."""
        language = [t.rstrip("\n") + "\n" for (kind, _), t in self.declared.items() if kind == "language"]
        imports = [t.rstrip("\n") + "\n" for (kind, _), t in self.declared.items() if kind == "import"]
        pieces = [t.rstrip("\n") + "\n" for (kind, _), t in self.declared.items() if kind not in ("language", "import")]
        if self.draft is not None:
            pieces.append(self.draft.text)
        return "\n".join([*language, *(["".join(imports)] if imports else []), *pieces])

    def with_declared(self, kind: str, name: str, text: str) -> SessionState:
        """A declaration more, or one in the place of its namesake."""
        return replace(self, declared={**self.declared, (kind, name): text})

    def with_schedule(self, draft: ScheduleDraft) -> SessionState:
        """This schedule in the making; the one before is kept among the declarations."""
        return replace(self.without_draft().without("schedule", draft.name), draft=draft)

    def without_draft(self) -> SessionState:
        """No schedule in the making."""
        if self.draft is None:
            return self
        return replace(self.with_declared("schedule", self.draft.name, self.draft.text), draft=None)

    def without(self, kind: str, name: str) -> SessionState:
        return replace(self, declared={k: t for k, t in self.declared.items() if k != (kind, name)})


def declarations(text: str) -> list[tuple[str, str, str, syntax.Decl | syntax.Language]]:
    """A text's statements: kind, name, own text (with the comments above it), node. Raises the diagnostics of syntax."""
    file = parse(Source(NAME, text))
    text = file.source.text  # in which the places of nodes are
    nodes = [*([file.language] if file.language else []), *file.declarations]
    ends = [_above(text, n.span.start) for n in nodes[1:]] + [len(text)]
    starts = [0, *ends]
    found = []
    for node, start, end in zip(nodes, starts, ends, strict=False):
        kind = type(node).__name__.removesuffix("Decl").lower()
        match node:
            case syntax.Language():
                name = kind  # so that another one takes its place
            case syntax.Import():
                name = node.path
            case _:
                name = node.name
        found.append((kind, name, text[start:end].strip("\n"), node))
    return found


def _above(text: str, at: int) -> int:
    """Where the comments begin that stand above the line at `at`."""
    while at and (line := text[text.rfind("\n", 0, at - 1) + 1 : at]).startswith("#"):
        at -= len(line)
    return at


def draft_of(text: str) -> ScheduleDraft:
    """A text with one schedule, taken apart into its first line and its lines."""
    file = parse(Source(NAME, text))
    text = file.source.text
    node = next(n for n in file.declarations if isinstance(n, syntax.ScheduleDecl))
    starts = [line.span.start for line in node.lines]
    header = text[: starts[0]].rstrip()
    header = header if header.endswith(":") else header[: _colon(header) + 1]  # a comment follows it
    lines = []
    for a, b in zip(starts, [*starts[1:], len(text)], strict=True):
        margin = " " * (node.span.source.position(a)[1] - 1)
        lines.append(textwrap.dedent(margin + text[a:b].rstrip()))
    if lines == ["auto"]:
        lines = []  # what an empty one says anyway
    return ScheduleDraft(node.name, node.op, node.device, header[:-1].rstrip(), tuple(lines))


def _colon(header: str) -> int:
    """The header's own colon: the last one before a comment on its last line."""
    last = header.rindex("\n") + 1 if "\n" in header else 0
    return header.rindex(":", 0, header.index("#", last))
