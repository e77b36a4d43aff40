"""From an address in a kernel's code to the line of its text, and to the line of the schedule."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from ...codegen.emit.emitted_lines import NOWHERE, EmittedLine, EmittedLines
from ...codegen.name_mangling import mangle
from ...dsl.source import Span
from ...dsl.support.cached import cached_property
from .dwarf_lines import line_table

_DECLARED = re.compile(r"\w+\* (\w+) = (?:\(\w+ ?\*\))?\(?(\w+)(?: \+ (\d+)\))?")
_WORD = re.compile(r"[A-Za-z_]\w*")


class SourceMap:
    """library  the file that holds the code
    source   the text that it was compiled from
    file     the name of the file that held the text
    spans    lines of the text, from 1 on -> the part of the schedule that they were printed for
    """

    def __init__(self, library: Path, source: str, file: str, spans: Mapping[int, Span]) -> None:
        self._library, self._file = library, file
        self._emitted = EmittedLines(source, spans)

    def of(self, site: int) -> EmittedLine:
        """The place of the instruction before `site`, a return address: that of the kernel, where functions are inlined."""
        if site <= 0:
            return NOWHERE
        return self._emitted.of([p.line for p in line_table(self._library).places(site - 1) if p.file == self._file])

    def meant(self, line: int) -> set[str]:
        """The buffers of shared memory that a line of the text has pointers into, by the names of their first pointers."""
        if not 0 < line <= len(self._emitted.texts):
            return set()
        return {self._roots[w] for w in _WORD.findall(self._emitted.texts[line - 1]) if w in self._roots}

    def settled(self, line: int, buffer: str, offset: int) -> tuple[str, int]:
        """RIGHT_BUFFER: a byte of shared memory, told as one of some buffer there, as one of the buffer that the line means.
        Buffers may lie on the same bytes, and a wrong address may be inside of another buffer."""
        meant = self.meant(line)
        starts = {plain_name(name): at for name, at in self._starts.items()}
        if len(meant) != 1 or plain_name(buffer) not in starts:
            return buffer, offset
        (name,) = meant
        if plain_name(name) == plain_name(buffer) or name not in self._starts:
            return buffer, offset
        return name, starts[plain_name(buffer)] + offset - self._starts[name]

    @cached_property
    def _roots(self) -> dict[str, str]:
        """Pointers of the text -> the one into shared memory that they were made from. A name that kernels declare for
        different ones is left out."""
        roots: dict[str, str] = {}
        apart: set[str] = set()
        for line in self._emitted.texts:
            found = _DECLARED.search(line)
            if found is None:
                continue
            root = found[1] if found[2] == "m_shared" else roots.get(found[2], "")
            if roots.setdefault(found[1], root) != root:
                apart.add(found[1])
        return {name: root for name, root in roots.items() if root and name not in apart}

    @cached_property
    def _starts(self) -> dict[str, int]:
        starts: dict[str, int] = {}
        for line in self._emitted.texts:
            found = _DECLARED.search(line)
            if found is not None and found[2] == "m_shared":
                at = int(found[3] or 0)
                starts[found[1]] = at if starts.get(found[1], at) == at else -1
        return {name: at for name, at in starts.items() if at >= 0}


def plain_name(name: str) -> str:
    """A buffer's name as the text may have it: of letters, digits and `_`, less the number that tells it from others."""
    return mangle(name).rstrip("0123456789")
