"""Statements of the emitted language as a tree: `c_text` prints them, `dead_declarations` and `peephole` rewrite them.

A node never changes: a rewrite makes new ones. It has the span of the schedule that it was printed for. Two nodes are equal if
they say the same, wherever they are from.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import is_not
from typing import Any, ClassVar, TypeVar

from ....dsl.source import Span
from ....dsl.support.cached import cached_property
from ....dsl.support.fast_replace import replace

_BETWEEN = str.maketrans({c: " " for c in map(chr, range(128)) if not (c.isalnum() or c == "_")})  # C text is ASCII
_WORD = re.compile(r"\w+")


def identifiers(text: str) -> list[str]:
    """Names and numbers of C text, in order."""
    return text.translate(_BETWEEN).split()


def words(text: str) -> list[tuple[str, str]]:
    """Names and numbers of C text, in order, each with the character after it."""
    found: list[tuple[str, str]] = []
    end = 0
    for word in text.translate(_BETWEEN).split():
        end = text.index(word, end) + len(word)
        found.append((word, text[end : end + 1]))
    return found


def renamed(text: str, other: Mapping[str, str]) -> str:
    """C text with other names for some of its names."""
    return _WORD.sub(lambda found: other.get(found[0], found[0]), text)


@dataclass(frozen=True)
class Binary:
    """`left op right`. The operands have their parentheses: the left one binds at least as strongly as the operator, the right
    one more strongly."""

    left: str
    op: str
    right: str

    def __str__(self) -> str:
        return f"{self.left} {self.op} {self.right}"


class _Shape:
    """TEXTS: the fields with names, types and expressions. BODIES: those with statements. (Of no dataclass, so `fast_replace`
    does not take them for fields.)"""

    TEXTS: ClassVar[tuple[str, ...]] = ()
    BODIES: ClassVar[tuple[str, ...]] = ()


@dataclass(frozen=True)
class Statement(_Shape):
    span: Span | None = field(default=None, compare=False, repr=False, kw_only=True)

    @cached_property
    def mentioned(self) -> tuple[str, ...]:
        """The names that it mentions itself, without those of the statements in it. Comments count: a name that one speaks of
        stays."""
        return tuple(identifiers(" ".join(texts(self))))

    @cached_property
    def within(self) -> frozenset[str]:
        """The names that it mentions, and the statements in it."""
        return frozenset(self.mentioned).union(*[s.within for body in bodies(self) for s in body])


@dataclass(frozen=True)
class Declaration(Statement):
    """`const type name[sizes]... = value;  // note`"""

    type: str
    name: str
    value: str | Binary | None = None
    const: bool = False
    sizes: tuple[str, ...] = ()
    note: str = ""
    TEXTS = ("type", "name", "value", "sizes", "note")


@dataclass(frozen=True)
class Declarations(Statement):
    """`type a, b = 0;`: several variables of one type in a line, each with its value, if it has one."""

    type: str
    variables: tuple[tuple[str, str | Binary | None], ...]
    TEXTS = ("type", "variables")


@dataclass(frozen=True)
class Assign(Statement):
    """`target op= value;`"""

    target: str
    value: str | Binary
    op: str = ""
    TEXTS = ("target", "value")


@dataclass(frozen=True)
class AssignAll(Statement):
    """`a = b = value;`"""

    targets: tuple[str, ...]
    value: str | Binary
    TEXTS = ("targets", "value")


@dataclass(frozen=True)
class SetPart(Statement):
    """`m_set_part_element(word, part, value);`: stores one of the elements that share a 32-bit variable."""

    element: str
    word: str
    part: str
    value: str
    TEXTS = ("word", "part", "value")

    @cached_property
    def mentioned(self) -> tuple[str, ...]:
        return (*identifiers(" ".join(texts(self))), f"m_set_part_{self.element}")


@dataclass(frozen=True)
class ExprStatement(Statement):
    """`value;  // note`: a call for its effect. `brief`: it may stand in the line of an `if`."""

    value: str
    note: str = ""
    brief: bool = False
    TEXTS = ("value", "note")


@dataclass(frozen=True)
class Comment(Statement):
    text: str
    TEXTS = ("text",)


@dataclass(frozen=True)
class Directive(Statement):
    """A line for the compiler about the next statement, such as `#pragma unroll 4`."""

    text: str
    TEXTS = ("text",)


@dataclass(frozen=True)
class Block(Statement):
    """`head { body footer`"""

    body: Sequence[Statement]
    head: str = ""
    footer: str = "}"
    TEXTS = ("head",)
    BODIES = ("body",)


@dataclass(frozen=True)
class If(Statement):
    """`short`: in one line, with its only statement."""

    condition: str
    body: Sequence[Statement]
    orelse: Sequence[Statement] = ()
    short: bool = False
    TEXTS = ("condition",)
    BODIES = ("body", "orelse")


@dataclass(frozen=True)
class For(Statement):
    """`for (type name = start; name < stop; name += step)`. `short`: in one line, with its only statement."""

    type: str
    name: str
    start: str
    stop: str
    step: str
    body: Sequence[Statement]
    short: bool = False
    TEXTS = ("type", "name", "start", "stop", "step")
    BODIES = ("body",)


_S = TypeVar("_S", bound=Statement)


def bodies(s: Statement) -> list[Sequence[Statement]]:
    return [getattr(s, name) for name in s.BODIES]


def map_bodies(s: _S, change: Callable[[Sequence[Statement]], Sequence[Statement]]) -> _S:
    """The statement with each of its bodies changed; the same object where that changes nothing."""
    others: dict[str, Sequence[Statement]] = {}
    for name in s.BODIES:
        body = getattr(s, name)
        if body and (len(new := change(body)) != len(body) or any(map(is_not, new, body))):
            others[name] = new
    return replace(s, **others) if others else s


def texts(s: Statement) -> list[str]:
    """The texts of a statement itself, without those of the statements in it."""
    found: list[str] = []
    for name in s.TEXTS:
        _collect(getattr(s, name), found)
    return found


def _collect(x: Any, found: list[str]) -> None:
    if type(x) is str:
        found.append(x)
    elif type(x) is Binary:
        found += (x.left, x.right)
    elif type(x) is tuple:
        for y in x:
            _collect(y, found)


def map_texts(s: _S, change: Callable[[str], str]) -> _S:
    """The statement with each of its own texts changed."""
    return replace(s, **{name: _changed(getattr(s, name), change) for name in s.TEXTS})


def _changed(x: Any, change: Callable[[str], str]) -> Any:
    if type(x) is tuple:
        return tuple([_changed(y, change) for y in x])
    if type(x) is Binary:
        return Binary(change(x.left), x.op, change(x.right))
    return x if x is None else change(x)


def all_mentioned(stmts: Iterable[Statement]) -> frozenset[str]:
    return frozenset().union(*[s.within for s in stmts])
