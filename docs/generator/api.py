"""`api.md`: the names of `andiron.__all__`, and the objects that they return, from their signatures and docstrings.

A docstring is paragraphs. A paragraph that is indented is code. A paragraph of lines `name  text` is a list: of arguments, of
attributes, or of errors.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

import andiron
from andiron.codegen.lower.schedule_trace import TracedLine, TraceScope
from andiron.dsl.errors.base import InternalError, Label, UserError, UserErrors
from andiron.dsl.op import Op, Tensor
from andiron.dsl.source import Source, Span
from andiron.runtime.decorators import Embedded
from andiron.runtime.emulator.report import AccessSite, EmulationReport
from andiron.runtime.report import Report
from andiron.runtime.timing import Timing
from andiron.runtime.tuning.result import Trial, Tuning

from . import errors
from .page import MADE

RETURNED = (
    *(Embedded, Report, EmulationReport, AccessSite, Timing, Tuning, Trial, TracedLine, TraceScope, Op, Tensor),
    *(UserError, UserErrors, InternalError, Label, Span, Source),
)
CALLED = ("Schedule",)  # classes whose objects callers make; functions return those of the others
ENTRY = re.compile(r"(\w+(?:, \w+)*) {2,}(\S.*)")
INTRO = """\
Every name of `andiron`, and the attributes and methods of the objects behind them. [Python](python.md) shows them at work.
The names that are not here may change without notice. Expressions, syntax trees, devices and tile programs are such:
[architecture](architecture.md) says where they are defined.
"""


def api_page() -> str:
    functions = [n for n in andiron.__all__ if not inspect.isclass(getattr(andiron, n))]
    out = [f"{MADE}# Python API", "", INTRO, "## Functions", ""]
    for name in functions:
        out += described(f"andiron.{name}", getattr(andiron, name), level=3)
    out += ["## Classes", ""]
    for name in andiron.__all__:
        if name not in functions:
            out += class_section(f"andiron.{name}", getattr(andiron, name))
    out += ["## Objects that are returned or raised", ""]
    for cls in RETURNED:
        out += class_section(cls.__name__, cls)
    return "\n".join(out).rstrip("\n") + "\n"


def class_section(name: str, cls: type) -> list[str]:
    out = [f"### `{name}`", ""]
    if cls.__name__ in CALLED:
        out += ["```text", signature(cls.__name__, cls), "```", ""]
    doc = inspect.getdoc(cls) or ""
    made = [(n, v) for n, v in members(cls) if isinstance(v, property)]
    if made:
        doc += "\n\n" * (not ENTRY.match(doc.rpartition("\n\n")[2])) + "".join(f"\n{n}  {line_of(v)}" for n, v in made)
    types = types_of(cls) | {n: str(inspect.signature(v.fget).return_annotation) for n, v in made}  # type: ignore[arg-type]
    out += markdown(doc, types)
    for member, value in members(cls):
        if not isinstance(value, property):
            out += described(f"{cls.__name__}.{member}", value, level=4)
    return out


def line_of(value: Any) -> str:
    """A docstring on one line, to stand in a list."""
    text = " ".join((inspect.getdoc(value) or "").split())
    return text[:1].lower() + text[1:].removesuffix(".")


def described(name: str, value: Any, level: int) -> list[str]:
    """A function or a method."""
    shown = signature(name.replace(".__call__", ""), value)
    return [f"{'#' * level} `{name}`", "", "```text", shown, "```", "", *markdown(inspect.getdoc(value) or "")]


def members(cls: type) -> Iterator[tuple[str, Any]]:
    """The public methods and properties that a class itself defines, in the order of the source; a call comes first."""
    own = {n: v for n, v in vars(cls).items() if n == "__call__" or not n.startswith("_")}
    for name, value in sorted(own.items(), key=lambda item: item[0] != "__call__"):
        value = value.__func__ if isinstance(value, staticmethod) else value
        if inspect.isfunction(value) or isinstance(value, property):
            yield name, value


def signature(name: str, value: Any) -> str:
    """As it is called: without `self`, on one line if it is short."""
    found = inspect.signature(value)
    parts, stars = [], False
    for p in found.parameters.values():
        if p.name == "self":
            continue
        if p.kind is p.KEYWORD_ONLY and not stars:
            parts.append("*")
        stars = stars or p.kind in (p.KEYWORD_ONLY, p.VAR_POSITIONAL)
        prefix = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        default = "" if p.default is p.empty else f" = {p.default!r}"
        parts.append(f"{prefix}{p.name}: {p.annotation}{default}")
    gives = "" if found.return_annotation is found.empty or inspect.isclass(value) else f" -> {found.return_annotation}"
    line = f"{name}({', '.join(parts)}){gives}"
    return line if len(line) <= 100 else f"{name}(\n" + "".join(f"    {p},\n" for p in parts) + f"){gives}"


def types_of(cls: type) -> dict[str, str]:
    """The types of the attributes that the class declares, by name."""
    declared = {f.name: str(f.type) for f in fields(cls)} if is_dataclass(cls) else {}
    annotated = {n: re.sub(r"ClassVar\[(.*)\]", r"\1", str(t)) for n, t in inspect.get_annotations(cls).items()}
    return annotated | declared


def markdown(doc: str, types: dict[str, str] | None = None) -> list[str]:
    """The paragraphs of a docstring; names of errors are links."""
    out: list[str] = []
    for block in re.split(r"\n{2,}", doc):
        lines = block.splitlines()
        if all(line.startswith("    ") for line in lines):
            out += ["```text", textwrap.dedent(block), "```", ""]
        elif lines and ENTRY.fullmatch(lines[0]):
            for names, text in entries(block):
                kinds = [f"`{types[n]}`" for n in names if types and n in types]
                shown = ", ".join(error_link(n) or f"`{n}`" for n in names)
                out.append(f"- {shown}{' (' + ', '.join(kinds) + ')' if kinds else ''}: {linked(text)}")
            out.append("")
        else:
            out += [linked(block), ""]
    return out


def linked(text: str) -> str:
    """With links from names of errors, and from what stands on the page."""
    text = re.sub(r"`(?:andiron\.)?([A-Za-z_.]+)`", lambda m: f"[{m[0]}](#{here()[m[1]]})" if m[1] in here() else m[0], text)
    return re.sub(r"(?<![`\w])[A-Z][a-z]+[A-Z]\w+", lambda m: error_link(m[0]) or m[0], text)


@cache
def here() -> dict[str, str]:
    """What has a heading on the page -> the anchor that the site gives it: letters, digits and underscores, in lower case."""
    public = {n: f"andiron{n}".lower() for n in andiron.__all__ if n not in ("op", "kernel")}
    returned = {cls.__name__: cls.__name__.lower() for cls in RETURNED}
    classes = [c for n in public if inspect.isclass(c := getattr(andiron, n))]
    methods = {f"{c.__name__}.{n}" for c in (*classes, *RETURNED) for n, v in members(c) if inspect.isfunction(v)}
    return {m: m.replace(".", "").lower() for m in methods} | returned | public


def entries(block: str) -> Iterator[tuple[list[str], str]]:
    """The names and the text of each entry of a list; a line that is indented goes on with the entry above."""
    for entry in re.split(r"\n(?! )", block):
        found = ENTRY.match(re.sub(r"\n +", " ", entry))
        assert found, entry
        yield found[1].split(", "), found[2]


@cache
def error_places() -> dict[str, str]:
    """Class of a mistake -> its place on the pages of errors; of two classes of a name, that of calls."""
    rooms = errors.mistakes()
    return {
        cls.__name__: f"errors/{room}.md#{cls.id}"
        for room in sorted(rooms, key=lambda room: room == "run")
        for cls in rooms[room]
    }


def error_link(name: str) -> str | None:
    return f"[`{name}`]({error_places()[name]})" if name in error_places() else None
