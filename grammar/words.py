"""The language's words, read from its grammar and sorted by their places, so that colours agree with the grammar."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

GRAMMAR = Path(__file__).with_name("sched.lark")


@dataclass(frozen=True)
class Words:
    """Keywords, each kind in the order of the grammar.

    declarations  begin a declaration at the margin (`op`, `device`, `schedule`, `strategy`, `import`, `language`)
    lines         begin a line of a schedule (`tile`, `move`, ...)
    device_lines  begin a line of a device or of an instruction (`level`, `memory`, `instr`, ...)
    inner         stand inside a line (`pipeline`, `every`, `with`, ...)
    reserved      are never names (`and`, `else`, `auto`, `inf`, ...)
    """

    declarations: tuple[str, ...]
    lines: tuple[str, ...]
    device_lines: tuple[str, ...]
    inner: tuple[str, ...]
    reserved: tuple[str, ...]


@cache
def words() -> Words:
    """The words of the grammar beside this file."""
    text = GRAMMAR.read_text(encoding="utf-8")
    terminals = {
        name: re.findall(r'"([a-z]+)"', right)
        for name, right in re.findall(r'^(\w+): ("[a-z]+"(?: \| "[a-z]+")*)$', text, re.MULTILINE)
    }
    rules = dict(re.findall(r"^\??([a-z]\w*): (.*)$", text, re.MULTILINE))

    def first(*parents: str) -> tuple[str, ...]:
        """The word with which each alternative of these rules begins, where it begins with one."""
        found = []
        for alternative in [a for p in parents for a in rules[p].split(" | ")]:
            head = rules.get(alternative.strip(), "").split(" ")[0]
            found += terminals.get(head, [])
        return tuple(dict.fromkeys(found))

    declarations = first("declaration")
    lines = tuple(w for w in first("line") if w != "auto")
    device_lines = first("device_line", "instr_line")
    reserved = tuple(re.findall(r"\w+", re.search(r"^NAME: /\(\?!\(\?:([\w|]+)\)", text, re.MULTILINE)[1]))  # pyright: ignore[reportOptionalSubscript]
    known = {*declarations, *lines, *device_lines, *reserved}
    inner = tuple(w for found in terminals.values() for w in found if w not in known)
    return Words(declarations, lines, tuple(w for w in device_lines if w not in declarations), inner, reserved)
