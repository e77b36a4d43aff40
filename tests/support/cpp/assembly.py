"""The innermost loops of a kernel, as compilers make them: multiply-adds, and vectors that are kept in memory."""

from __future__ import annotations

import hashlib
import re
import subprocess
from dataclasses import dataclass

from andiron.codegen.abi import FLAGS

from .build import COMMANDS, MACHINES, folder

_LABEL = re.compile(r"([\w.$]+):")
_JUMP = re.compile(r"\s+j\w+\s+(\.L\w+)")
_STACK = re.compile(r"\s+v\w+\s.*-?\d*\(%r[sb]p\b.*%[xyz]mm|\s+v\w+\s.*%[xyz]mm\d+, -?\d*\(%r[sb]p\b")


@dataclass(frozen=True)
class Loop:
    """`stack`: vectors read from the stack or written there; `edge`: in a function that is outlined."""

    lines: tuple[str, ...]
    edge: bool

    @property
    def multiply_adds(self) -> int:
        return sum("vfmadd" in x or "vpmaddwd" in x for x in self.lines)

    @property
    def stack(self) -> tuple[str, ...]:
        return tuple(x.strip() for x in self.lines if _STACK.match(x))

    @property
    def calls(self) -> tuple[str, ...]:
        return tuple(x.strip() for x in self.lines if x.lstrip().startswith("call"))


def assembly(text: str, compiler: str, machine: str) -> str:
    """What a compiler makes of C++ text, for one of `MACHINES`."""
    stem = folder() / hashlib.sha256(f"{compiler} {machine} -S\n{text}".encode()).hexdigest()[:16]
    source, made = stem.with_suffix(".cpp"), stem.with_suffix(".s")
    source.write_text(text)
    march = MACHINES[machine][compiler == "zig"]
    command = [*COMMANDS[compiler], *FLAGS, "-fPIC", "-g0", f"-march={march}", "-S", str(source), "-o", str(made)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return made.read_text()


def innermost_loops(text: str) -> list[Loop]:
    """Of each function of x86 assembly: from a label to the jump back to it, where there is no other such loop between."""
    lines = text.splitlines()
    at: dict[str, int] = {}
    back: list[tuple[int, int]] = []
    function: dict[int, str] = {}
    name = ""
    for n, line in enumerate(lines):
        if (label := _LABEL.match(line)) is not None:
            at[label[1]] = n
            name = name if label[1].startswith(".L") else label[1]
        elif (jump := _JUMP.match(line)) is not None and jump[1] in at:
            back.append((at[jump[1]], n))
            function[n] = name
    inner: list[tuple[int, int]] = []
    for start, stop in sorted(back, key=lambda x: x[1] - x[0]):
        if not any(start <= a and b <= stop for a, b in inner):
            inner.append((start, stop))
    return [Loop(tuple(lines[a : b + 1]), "clEv" in function[b]) for a, b in sorted(inner)]
