"""The modifiers that each kind of line takes.

A text tells a `move` from a `keep`, and loop tiles from tiles of units. Lowering tells what a `move` or `keep` is for: an
accumulator, an intermediate, a copy. So a line may be of several kinds at first. `refused_modifiers` takes these, and reports
what none of them takes, with all other mistakes of the text. `check_modifiers` takes the one that lowering knows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ...dsl import syntax
from ...dsl.device import Device
from ...dsl.errors import UserError
from ...dsl.errors.schedule import BadLayout, MisplacedModifier
from ...dsl.ops.index_syntax import word_span
from ...dsl.source import Span

LAYOUT = ("layout", "pad", "swizzle")


@dataclass(frozen=True)
class LineKind:
    """What a line is.

    statement   its first word                  what      in messages, as in "`pad` does not apply to WHAT"
    takes       names of modifiers, and `as`    registers whether its tensor lies in registers; None: it has none, or either
    ways        the way out for some modifiers that it does not take; for others it is to leave them out
    """

    statement: str
    what: str
    takes: frozenset[str]
    registers: bool | None = None
    ways: Mapping[str, str] = field(default_factory=dict)


def _kind(statement: str, what: str, takes: str, registers: bool | None = None, **ways: str) -> LineKind:
    return LineKind(statement, what, frozenset(takes.split()), registers, {k.rstrip("_"): v for k, v in ways.items()})


_OWN = "leave it out: units hold the elements that they read"
_MADE = "leave it out: `compute with` names the instruction that computes it"
_STORES = "leave it out: the units that hold the elements store them"
_BELOW = "write it on the tile in the block that distributes the reduction"

LOOP_TILE = _kind("tile", "loop tiles", "unroll vector pipeline order peel online carry")
UNIT_TILE = _kind("tile", "tiles that go to units", "vector order raster arrange within by online")
# `by producer` and `by consumer` are words of all copies, and refused as not lowered yet. `vector` of copies and results gets a
# note (`complete`): accesses are as wide as addresses allow.
COPY = _kind("move", "a copy", "layout pad swizzle pipeline with as by vector", False)
COPY_TO_REGISTERS = _kind("move", "a copy to registers", "pipeline with by vector", True, as_=_OWN)
STORED_REGISTERS = _kind(
    "move", "a copy of what registers hold", "layout pad swizzle pipeline by vector", False, with_=_STORES, as_=_STORES
)
# A product's schedule serves products of computed operands: what it says of copies is a note then.
COMPUTED_COPY = _kind(
    "move",
    "a tensor that is computed where it is moved",
    "layout pad swizzle pipeline with by vector",
    False,
    as_="leave it out",
)
ACCUMULATOR = _kind("keep", "an accumulator", "layout pad swizzle by with vector", False)
ACCUMULATOR_IN_REGISTERS = _kind("keep", "an accumulator in registers", "by with vector", True)
RESULT = _kind("keep", "a result without a reduction", "layout pad swizzle with vector", False)
RESULT_IN_REGISTERS = _kind("keep", "a result without a reduction", "with vector", True)
INTERMEDIATE = _kind("keep", "an intermediate", "layout pad swizzle vector", False, with_=_MADE)
INTERMEDIATE_IN_REGISTERS = _kind("keep", "an intermediate in registers", "vector", True, with_=_MADE)
REDUCTION = _kind("keep", "an intermediate", "layout pad swizzle by vector", False, with_=_MADE)
REDUCTION_IN_REGISTERS = _kind("keep", "an intermediate in registers", "by vector", True, with_=_MADE)
REDUCTION_BY_BLOCK = _kind("keep", "an intermediate with a block", "layout pad swizzle vector", False, with_=_MADE, by=_BELOW)
OWN_LAUNCH = _kind(
    "keep",
    "a tensor with a launch of its own",
    "",
    False,
    by=_BELOW,
    with_="write `compute with` in its block",
    **dict.fromkeys(LAYOUT, "leave it out: `move` the tensor where it is read, and lay out the copy"),
)
LEAF = _kind("compute", "a leaf", "unroll vector order with")

KINDS = (
    LOOP_TILE, UNIT_TILE, COPY, COPY_TO_REGISTERS, STORED_REGISTERS, COMPUTED_COPY, ACCUMULATOR, ACCUMULATOR_IN_REGISTERS,
    RESULT, RESULT_IN_REGISTERS, INTERMEDIATE, INTERMEDIATE_IN_REGISTERS, REDUCTION, REDUCTION_IN_REGISTERS, REDUCTION_BY_BLOCK,
    OWN_LAUNCH, LEAF,
)  # fmt: skip
_KNOWN = frozenset().union(*(k.takes for k in KINDS))  # others wait for their lowering


def kinds_of(line: syntax.Line, registers: frozenset[str]) -> tuple[LineKind, ...]:
    """What a line may be, by its words alone. `registers`: the memories that are registers."""
    if isinstance(line, syntax.Tile):
        return (LOOP_TILE if line.level is None else UNIT_TILE,)
    memory = getattr(line, "memory", None)
    word = type(line).__name__.lower()
    kinds = (k for k in KINDS if k.statement == word)
    return tuple(k for k in kinds if memory is None or k.registers in (None, memory in registers))


def keep_kind(has_block: bool, read: bool, reduced: bool, registers: bool) -> LineKind:
    """What a `keep` is for: others of its focus `read` its tensor, or it is stored; a reduction computes it, or none."""
    if not read:
        kinds = (ACCUMULATOR, ACCUMULATOR_IN_REGISTERS) if reduced else (RESULT, RESULT_IN_REGISTERS)
    elif reduced:
        kinds = REDUCTION_BY_BLOCK if has_block else REDUCTION, REDUCTION_IN_REGISTERS
    else:
        kinds = INTERMEDIATE, INTERMEDIATE_IN_REGISTERS
    return kinds[registers]


def move_kind(computed: bool, registers: bool, held: bool) -> LineKind:
    """What a `move` is for, of a tensor that is `computed` here, or that registers hold, to registers or to a memory."""
    if computed:
        return COMPUTED_COPY
    return COPY_TO_REGISTERS if registers else STORED_REGISTERS if held else COPY


def asks_for_registers(device: Device, line: syntax.Move | syntax.Keep) -> bool | None:
    """Whether what a line says beside its memory is for registers: they have no layout, and instructions write to one memory.
    None: it may be for either."""
    if any(m.name in LAYOUT for m in line.modifiers):
        return False
    named = [w for m in line.modifiers if m.name == "with" for w in m.words] if isinstance(line, syntax.Move) else []
    into = {i.operand(i.statement.target).memory for w in named for i in device.instrs_named(w)}
    registers = {device.is_register(m) for m in into}
    return registers.pop() if len(registers) == 1 else None


def refused_modifiers(line: syntax.Line, kinds: tuple[LineKind, ...], inner: str) -> Iterator[UserError]:
    """A mistake for each modifier that none of the kinds takes. `inner`: the innermost level of the device."""
    for name, span in _modifiers(line):
        if name in _KNOWN and not any(name in k.takes for k in kinds):
            yield _refused(line, name, span, kinds, inner)


def check_modifiers(line: syntax.Line, kind: LineKind) -> None:
    """Raises MisplacedModifier, or BadLayout, for a modifier that the line does not take."""
    for error in refused_modifiers(line, (kind,), ""):
        raise error


def _modifiers(line: syntax.Line) -> Iterator[tuple[str, Span | None]]:
    for m in getattr(line, "modifiers", ()):
        yield m.name, m.span or line.span
    if getattr(line, "view", None) is not None:
        yield "as", word_span(line.span, "as")


def _refused(line: syntax.Line, name: str, span: Span | None, kinds: tuple[LineKind, ...], inner: str) -> UserError:
    word = type(line).__name__.lower()
    statements = tuple(dict.fromkeys(k.statement for k in KINDS if name in k.takes))
    if word not in statements:
        help = f"it belongs on {' and '.join(f'`{x}`' for x in statements)}"
        return MisplacedModifier(f"`{name}` does not apply to a `{word}`", span, help=help)
    if isinstance(line, syntax.Tile) and line.level is not None:
        message = f"`{name}` is for loops; these tiles go to units of `{line.level}`"
        return MisplacedModifier(message, span, help="leave it out")
    if isinstance(line, syntax.Tile):
        help = f"distribute them, `-> {inner}`, or leave it out"
        return MisplacedModifier(f"`{name}` is for tiles that go to units; these are loop tiles", span, help=help)
    if name in LAYOUT and all(k.registers for k in kinds):
        return BadLayout(f"registers have no `{name}`", span, help="their layout follows from the tiles below")
    what = " or ".join(dict.fromkeys(k.what for k in kinds))
    error = BadLayout if name == "as" else MisplacedModifier
    return error(f"`{name}` does not apply to {what}", span, help=kinds[0].ways.get(name, "leave it out"))
