"""Schedules written by programs: `Schedule` has a method for each statement, and prints as the text.

    s = andiron.Schedule("fast", "gemm", on="cpu:avx2")
    s.tile(m=72, to="core")
    with s.move("A", "l2", layout={"panels": {"m": 6}}):
        s.tile(m=1)
        s.compute()
    s.tile(n=16, m=6).keep("C", "register").tile(k=1, unroll=4).compute("fma")
    k = andiron.compile("gemm.sched", schedule=s)

Each line is parsed when it is added, so a line that could not stand in a file is refused at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any

from . import syntax
from .errors.run import ArgumentCount, ArgumentKind
from .errors.schedule import NotOneLine
from .source import Source
from .support.expected import expect
from .text.format import format_source
from .text.parser import parse

AUTO = "auto"
Size = int | str  # a number, the name of a parameter, an expression, or "auto"
_LAST = (
    "unroll",
    "vector",
    "pipeline",
    "through",
    "order",
    "raster",
    "arrange",
    "within",
    "pad",
    "swizzle",
    "layout",
    "by",
    "with_",
    "peel",
    "online",
    "carry",
)


class Schedule:
    """A schedule that a program writes. Every statement is a method that adds a line and returns the schedule.

    name   its name
    op     the op, a role (`contraction`), or the text after `for`, as in "linear as gemm(A = X, B = W)"
    on     the device that it is for; None is any
    where  conditions on sizes, as in `["N <= 4096"]`

    A size is a number, the name of a parameter, an expression as text, or "auto". `with` opens the nested block of a `move` or
    a `keep`.

    Modifiers of a line are keywords:

    unroll    True, or a count
    vector    a width in elements, as 4
    pipeline  a number of buffers, as 3
    through   True
    order     "n, m", or a list
    raster    a number of tiles, as 8
    arrange   `{"u": {"m": "u/2"}}`
    within    a memory, as "l2"
    pad       a number of elements, as 4
    swizzle   True, or sizes
    layout    `["k", "m"]`, or `{"panels": {"n": 16}}`
    by        "shuffle"
    with_     "ldmatrix"
    peel      True
    online    True
    carry     True

    Raises the diagnostics of its first line. It and its methods raise ArgumentKind for an argument of a wrong kind, and for a
    size below 1.
    """

    def __init__(self, name: str, op: str, on: str | None = None, where: Sequence[str] = ()) -> None:
        self.name = _word("name", name)
        self._head = f"schedule {name} for {_word('op', op)}" + (f" on {_word('on', on)}" if on is not None else "")
        conditions = _words("where", where, 'conditions, as `["N <= 4096"]`')
        self._head += f" where {', '.join(conditions)}" if conditions else ""
        self._lines: list[str] = []
        self._open: list[int] = []  # the lines whose nested block is being written
        self._parsed("auto")  # the first line is checked at once too

    # ------------------------------------------------------------ statements

    def tile(
        self,
        to: str | None = None,
        every: Mapping[str, Size] | None = None,
        *,
        sizes: Mapping[str, Size] | None = None,
        **named: Any,
    ) -> Schedule:
        """Adds a `tile`: `s.tile(m=128, to="block")` is `tile m: 128 -> block`.

        to     the level that the tiles are distributed over; None makes a loop
        every  strides in elements, by index: `s.tile(m=4, every={"m": 32}, to="thread")`
        sizes  sizes of further indices, whatever their names: `s.tile(sizes={"to": 4})`
        named  sizes in elements, by index, and modifiers

        Returns the schedule itself. Raises the diagnostics of the line. Raises ArgumentCount if an index is given twice. Raises
        ArgumentKind if `sizes` or `every` is no mapping, and if `every` has an index that the line does not tile.
        """
        modifiers = {n: named.pop(n) for n in _LAST if n in named}
        further = _mapping("sizes", {} if sizes is None else sizes, 'an index of that name is `{"sizes": ...}`')
        strides = _mapping("every", {} if every is None else every, 'an index of that name is `sizes={"every": ...}`')
        if twice := [n for n in further if n in named]:
            raise ArgumentCount(f"index `{twice[0]}` is given twice", help="by keyword and in `sizes`: leave one out")
        tiled = {**named, **further}
        if other := [i for i in strides if i not in tiled]:
            raise ArgumentKind(
                f"`every` has `{other[0]}`, which this line does not tile", help="give its size too, or leave it out"
            )
        axes = [
            f"{i}: {_size(i, n)}" + (f" every {_size(f'every of {i}', strides[i])}" if i in strides else "")
            for i, n in tiled.items()
        ]
        return self._add(f"tile {', '.join(axes)}" + (f" -> {_word('to', to)}" if to is not None else ""), modifiers)

    def move(self, tensor: str, to: str = AUTO, view: Sequence[str] | None = None, **modifiers: Any) -> Schedule:
        """Adds a `move`: `s.move("A", "shared")` is `move A -> shared`. `with s.move("A", "shared"): ...` opens its nested
        block.

        tensor     the tensor to copy
        to         the memory, or "auto"
        view       names for the axes of the copy, as `["q", "k"]` for `as (q, k)`
        modifiers  modifiers of the line

        Returns the schedule itself. Raises the diagnostics of the line. Raises TypeError for an unknown modifier.
        """
        axes = _words("view", () if view is None else view, 'names of axes, as `["q", "k"]`')
        seen = f" as ({', '.join(axes)})" if axes else ""
        return self._add(f"move {_word('tensor', tensor)}{seen} -> {_word('to', to)}", modifiers)

    def keep(self, *tensors_and_memory: str, **modifiers: Any) -> Schedule:
        """Adds a `keep`: `s.keep("m", "l", "register")` is `keep m, l in register`. `with` opens its nested block.

        tensors_and_memory  the tensors, and the memory last
        modifiers           modifiers of the line

        Returns the schedule itself. Raises the diagnostics of the line, and ArgumentCount without a tensor or a memory. Raises
        TypeError for an unknown modifier.
        """
        if len(tensors_and_memory) < 2:
            raise ArgumentCount(f"`keep` got {tensors_and_memory!r}; expected tensors, and a memory last")
        *tensors, memory = _names("tensors_and_memory", tensors_and_memory)
        return self._add(f"keep {', '.join(tensors)} in {memory}", modifiers)

    def inline(self, *statements: str) -> Schedule:
        """Adds an `inline`: `s.inline("e")` is `inline e`.

        statements  the tensors whose statements are evaluated where they are read

        Returns the schedule itself. Raises the diagnostics of the line.
        """
        return self._add(f"inline {', '.join(_names('statements', statements))}", {})

    def fuse(self, *indices: str, as_: str) -> Schedule:
        """Adds a `fuse`: `s.fuse("p", "q", as_="pq")` is `fuse p, q as pq`.

        indices  the indices, outermost first
        as_      the name of the new index

        Returns the schedule itself. Raises the diagnostics of the line.
        """
        return self._add(f"fuse {', '.join(_names('indices', indices))} as {_word('as_', as_)}", {})

    def compute(self, with_: str | None = None, **modifiers: Any) -> Schedule:
        """Adds a `compute`: `s.compute("fma")` is `compute with fma`.

        with_      the instruction; None leaves it to the compiler
        modifiers  modifiers of the line

        Returns the schedule itself. Raises the diagnostics of the line. Raises TypeError for an unknown modifier.
        """
        return self._add("compute" + (f" with {_word('with_', with_)}" if with_ is not None else ""), modifiers)

    def apply(self, strategy: str, *args: Size, **named: Size) -> Schedule:
        """Adds an `apply`: `s.apply("stage", "A", 3)` is `apply stage(A, 3)`.

        strategy  the name of the strategy
        args      values of its parameters, in their order
        named     values of its parameters, by name

        Returns the schedule itself. Raises the diagnostics of the line.
        """
        given = [*(_value("args", v) for v in args), *(f"{n} = {_value(n, v)}" for n, v in named.items())]
        return self._add(f"apply {_word('strategy', strategy)}({', '.join(given)})", {})

    def param(self, name: str, *values: Size, default: Size | None = None) -> Schedule:
        """Adds a `param`: `s.param("BM", 64, 128, default=64)` is `param BM in 64, 128 = 64`.

        name     the name of the parameter
        values   the values that tuning may choose
        default  the value where nothing is chosen

        Returns the schedule itself. Raises the diagnostics of the line.
        """
        choices = ", ".join(_value("values", v) for v in values)
        chosen = f" = {_value('default', default)}" if default is not None else ""
        return self._add(f"param {_word('name', name)} in {choices}{chosen}", {})

    def auto(self) -> Schedule:
        """Adds an `auto`: this place, or the rest, is left to the compiler.

        Returns the schedule itself. Raises the diagnostics of the line.
        """
        return self._add(AUTO, {})

    # ------------------------------------------------------------ what it is

    @property
    def decl(self) -> syntax.ScheduleDecl:
        """The syntax tree."""
        return _schedule(Source(f"<schedule {self.name}>", self._text()))

    def __str__(self) -> str:
        """Its text, formatted, as it could stand in a file."""
        return format_source(self._text()).rstrip("\n")

    def __repr__(self) -> str:
        return f"<{self._head}: {len(self._lines)} lines>"

    # ------------------------------------------------------------ lines

    def _add(self, line: str, modifiers: Mapping[str, Any]) -> Schedule:
        for name, value in modifiers.items():
            if name not in _LAST:
                raise TypeError(f"no modifier `{name}`; there are {', '.join(_LAST)}")
            line += _modifier(name, value)
        self._parsed(line)
        self._lines.append("    " * (1 + len(self._open)) + line)
        return self

    def _parsed(self, line: str) -> None:
        """Raises what is wrong with a line by itself: syntax, or that it is more than one."""
        found = _schedule(Source(f"<schedule {self.name}>", f"{self._head}:\n    {line}\n"))
        if len(found.lines) != 1 or "\n" in line:
            raise NotOneLine(f"`{line}` is not one line of a schedule")

    def _text(self) -> str:
        return "\n".join([f"{self._head}:", *(self._lines or ["    auto"])]) + "\n"

    def __enter__(self) -> Schedule:
        """Opens the nested block of the line made last, a `move` or a `keep`."""
        if not self._lines or self._lines[-1].split()[0] not in ("move", "keep"):
            raise TypeError("only `move` and `keep` have a nested block: with s.move(...): ...")
        self._open.append(len(self._lines) - 1)
        return self

    def __exit__(self, *fault: Any) -> None:
        at = self._open.pop()
        if len(self._lines) > at + 1:
            self._lines[at] += ":"


def _schedule(source: Source) -> syntax.ScheduleDecl:
    declarations = parse(source).declarations
    if len(declarations) != 1 or not isinstance(declarations[0], syntax.ScheduleDecl):
        raise NotOneLine("a name, an op or a condition holds more than one line of text")
    return declarations[0]


# ---------------------------------------------------------------- arguments as text

_SIZE = 'a size: a whole number from 1 on, or text, as "BM" or "auto"'
_VALUE = "a whole number, or text"


def _word(name: str, value: Any) -> str:
    expect(name, value, str, "text")
    return value


def _names(name: str, values: Iterable[Any]) -> list[str]:
    return [_word(name, v) for v in values]


def _words(name: str, values: Any, what: str) -> list[str]:
    expect(name, values, () if isinstance(values, str) else Sequence, f"a list of {what}")
    return _names(name, values)


def _value(name: str, value: Any, what: str = _VALUE) -> str:
    expect(name, value, () if isinstance(value, bool) else (str, Integral), what)
    return str(value)


def _size(name: str, value: Any) -> str:
    """Text is checked as a line of a file is: it may name a parameter."""
    text = _value(name, value, _SIZE)
    if not isinstance(value, str) and value < 1:
        raise ArgumentKind(f"`{name}` is {value}; expected {_SIZE}")
    return text


def _mapping(name: str, value: Any, help: str | None = None) -> Mapping[str, Any]:
    expect(name, value, Mapping, "a mapping of indices to sizes", help)
    _names(name, value)
    return value


def _only(name: str, value: Any, what: str) -> tuple[str, Mapping[str, Any]]:
    """The word and the mapping of a modifier that is written `{word: {index: ...}}`."""
    if not isinstance(value, Mapping) or len(value) != 1 or not isinstance(next(iter(value.values())), Mapping):
        expect(name, value, (), what)
    ((word, indices),) = value.items()
    return _word(name, word), _mapping(name, indices)


def _list(name: str, value: Any, text: Callable[[str, Any], str]) -> str:
    several = isinstance(value, Sequence) and not isinstance(value, str)
    return ", ".join(text(name, v) for v in (value if several else (value,)))


def _modifier(name: str, value: Any) -> str:
    """The text of a modifier, a blank before it; nothing for False and None."""
    if value is None or value is False:
        return ""
    match name:
        case "through" | "peel" | "online" | "carry":
            expect(name, value, bool, "True or False")
            return f" {name}"
        case "unroll" | "swizzle" if value is True:
            return f" {name}"
        case "swizzle":
            return f" swizzle ({_list(name, value, _size)})"
        case "layout" if isinstance(value, Mapping):
            form, digits = _only(name, value, 'a list of axes, or `{"panels": {"n": 16}}`')
            return f" layout {form}({', '.join(f'{i}: {_size(i, n)}' for i, n in digits.items())})"
        case "layout":
            return f" layout ({_list(name, value, _value)})"
        case "order":
            return f" order {_list(name, value, _word)}"
        case "arrange":
            unit, maps = _only(name, value, '`{"u": {"m": "u/2"}}`')
            return f" arrange {unit}: {', '.join(f'{i} = {_value(i, e)}' for i, e in maps.items())}"
        case "with_":
            return f" with {_word(name, value)}"
        case "by" | "within":
            return f" {name} {_word(name, value)}"
    return f" {name} {_size(name, value)}"


__all__ = ["AUTO", "Schedule"]
