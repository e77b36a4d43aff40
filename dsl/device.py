"""A resolved device: levels, memories, limits, instructions. All of it is read from text; no device is known by name.

`dsl.devices.resolve_device.resolve_device(decl, parents) -> Device` builds it.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import Any

from . import syntax
from .index.expr import Expr, Var
from .op import Statement
from .source import Span
from .support.cached import cached_property
from .types import DType
from .values import Apply, Cast, Const, Load, neutral_value


@dataclass(frozen=True)
class Level:
    """A compute level, e.g. block, warp, thread; socket, core, lane.

    units     open: as many as there are tiles; shaped: fixed by the main nest, at most `most`; finite: `most` of them,
              tiles are dealt out.
    siblings  how units under one parent synchronise: nothing | barrier | lockstep.
    most      the largest number of units under one parent (None: unbounded; for finite levels, the number there is).
    width     for shaped lockstep levels: the number of units one instruction of the level above drives (32 lanes), or
              None; `bytes` instead, for vector units whose lane count depends on the type.
    """

    name: str
    units: str
    siblings: str
    most: int | None = None
    width: int | None = None
    bytes: int | None = None

    @property
    def exchanges_registers(self) -> bool:
        """Whether units exchange registers: in lockstep, and a power of two of them. Others pass parts through a memory."""
        width = self.width or 1
        return self.siblings == "lockstep" and width & (width - 1) == 0


@dataclass(frozen=True)
class Memory:
    """A memory and the level that shares it. `backing` names the memory that addresses it (a cache is not addressable).

    capacity in bytes per instance (None: unbounded), bandwidth in bytes/s over the device, banks = (count, bytes),
    transaction in bytes. For register: capacity per unit of `level`; `registers` how many and of how many bytes; `spill` how
    many bytes of memory a unit of the level above has for registers that a compiler spills. `slices`: equal parts of it; each
    serves its own units of the level below alone, those whose numbers leave the same remainder.
    """

    name: str
    level: str
    capacity: int | None = None
    backing: str | None = None
    bandwidth: float | None = None
    transaction: int | None = None
    banks: tuple[int, int] | None = None
    reserve: int = 0
    registers: tuple[int, int] | None = None
    spill: int | None = None
    slices: int = 1
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Operand:
    """One operand of an instruction.

    `coords` are variables with intervals; `map` gives each axis of the operand as an expression of them.
    A register operand has coords (lane, r): `lane` numbers the units one level below the executing one (flattened, if
    several levels are below), `r` the registers of each; a coordinate that does not occur in the map is replicated.
    `lane` may be absent (replicated), `r` may be absent (one register).
    """

    name: str
    dtype: DType
    shape: tuple[int, ...]
    role: str  # input | output | inout
    memory: str
    coords: tuple[Var, ...]
    map: tuple[Expr, ...]
    alignment: int = 0  # bytes, for memory operands
    least: int = 0  # bytes of the tensor it is part of, from which on the instruction pays

    @cached_property
    def register(self) -> Var | None:
        """The coordinate that numbers the registers of a unit."""
        return next((v for v in self.coords if v.name == "r"), None)

    @property
    def registers(self) -> int:
        """How many of a unit's registers it is; of an operand in memory, the neighbours that a unit reads or writes at once."""
        return 1 if self.register is None or self.register.hi is None else self.register.hi + 1


# How the completion of an asynchronous instruction is awaited: the words after `await`, and what they mean.
AWAITED = {
    "group": "those issued since the last commit complete together, groups in order",
    "counter": "they complete in the order of their issue; one counter says how many are under way",
}
GROUPED = ("group",)  # those that a commit closes


_DOES: dict[Hashable, object] = {}


EXTREMES = ("max", "min")  # of two f32, which instructions may compute; NaN propagates


@dataclass(frozen=True)
class Instr:
    """An instruction: what it computes, where its operands live, the text it is, what it costs.

    `awaits`: an asynchronous one's word of `AWAITED` (and what follows it); None: complete when the next statement begins.
    `error`: of one that is a function of numbers, in units in the last place; None: its result is that of its statement.
    `restricted`: the device's instruction that does the same, of the terms that an operand more says.
    """

    name: str
    level: str  # the level a unit of which executes it, with all the units below
    family: str | None
    operands: tuple[Operand, ...]
    statement: Statement  # `accumulate` when the target is an inout operand: C += ...
    accumulate: bool
    emits: tuple[tuple[str, str], ...]  # dialect -> text of the inline function's body
    cycles: float | None = None
    latency: float | None = None
    awaits: tuple[str, ...] | None = None
    error: float | None = None
    span: Span | None = field(default=None, compare=False, repr=False)
    restricted: Instr | None = field(default=None, compare=False, repr=False)

    def operand(self, name: str) -> Operand:
        return self._operands[name]

    @cached_property
    def condition(self) -> Load | None:
        """The operand of truth values that says which of its terms count: `C[m, n] += sum(k) where(M[m, k], ..., 0)`."""
        value, reduction = self.statement.value, self.statement.reduction
        if reduction is None or not isinstance(value, Apply) or value.fn != "where":
            return None
        cond, _, other = value.args
        return cond if isinstance(cond, Load) and other == neutral_value(reduction.kind, value.dtype) else None

    def restricts(self, other: Instr) -> bool:
        """Whether it does what another one does, of the terms for which its condition holds."""
        s, value, condition = self.statement, self.statement.value, self.condition
        if condition is None or not isinstance(value, Apply) or value.args[1] != other.statement.value:
            return False
        theirs = other.statement
        operands = tuple(o for o in self.operands if o.name != condition.tensor)
        mine = (self.level, self.accumulate, operands, s.target, s.indices, s.reduction)
        return mine == (other.level, other.accumulate, other.operands, theirs.target, theirs.indices, theirs.reduction)

    @cached_property
    def _operands(self) -> dict[str, Operand]:
        return {o.name: o for o in self.operands}

    @cached_property
    def function(self) -> str | None:
        """The function that it is, if its statement is one of f32: `Y[] = exp2(X[])`, `Y[] = 1 / X[]` (rcp), `Q[] = X[] / D[]`
        (div)."""
        value = self.statement.value
        if not isinstance(value, Apply) or self.accumulate or self.statement.reduction is not None:
            return None
        fn, args = value.fn, value.args
        if fn == "div" and isinstance(args[0], Const) and args[0].value == 1:
            fn, args = "rcp", args[1:]
        whole = all(isinstance(x, Load) for x in args) and len(args) == len(self.operands) - 1
        return fn if whole and self._of_scalars and all(o.dtype.name == "f32" for o in self.operands) else None

    @cached_property
    def conversion(self) -> str | None:
        """The type that it converts an f32 to, if its statement is `Y[] = bf16(X[])`."""
        value = self.statement.value
        if not isinstance(value, Cast) or self.accumulate or self.statement.reduction is not None or not self._of_scalars:
            return None
        alike = isinstance(value.arg, Load) and value.arg.dtype.name == "f32"
        return value.dtype.name if alike and value.dtype == self.operand(self.statement.target).dtype else None

    @cached_property
    def used_everywhere(self) -> str | None:
        """What always uses it, so that no schedule names it: calls of a function with a stated error, of max or of min, or
        conversions."""
        if self.conversion is not None:
            return f"every conversion of an f32 to {self.conversion} uses it"
        if self.error is not None:
            return f"it is part of `{self.function}`, which every call of it uses"
        return f"every {self.function} of f32 uses it" if self.function in EXTREMES else None

    @cached_property
    def _of_scalars(self) -> bool:
        return not any(o.shape or o.coords for o in self.operands)

    @cached_property
    def found(self) -> dict[Any, Any]:
        """What was found out of it, by what was asked."""
        return {}

    @cached_property
    def does(self) -> object:
        """The same object for all instructions that do the same, with tiles of whatever sizes, and no other."""
        s = self.statement
        same = (s.target, s.indices, s.reduction, s.value, tuple((o.name, o.dtype.name) for o in self.operands))
        return _DOES.setdefault(same, object())


@dataclass(frozen=True)
class Device:
    """`limits` holds plain figures by name ("clock" in Hz, "units", "f32" in FLOP/s per unit, ...)."""

    name: str
    levels: tuple[Level, ...]  # outermost first
    memories: tuple[Memory, ...]  # outermost first; the first is where arguments live
    instrs: tuple[Instr, ...]
    limits: tuple[tuple[str, float], ...] = ()
    decl: syntax.DeviceDecl | None = field(default=None, compare=False, repr=False)

    def level(self, name: str) -> Level:
        return self._levels[name][1]

    def depth(self, name: str) -> int:
        """0 for the outermost level."""
        return self._levels[name][0]

    def memory(self, name: str) -> Memory:
        return self._memories[name]

    def is_register(self, memory: str) -> bool:
        """Whether a memory is private to the innermost units."""
        return self.memory(memory).level == self.levels[-1].name

    def limit(self, name: str, default: float | None = None) -> float | None:
        return self._limits.get(name, default)

    def function(self, name: str) -> Instr | None:
        """What it states of a function of f32: an instruction with an error."""
        return self._functions.get(name)

    @cached_property
    def computes(self) -> frozenset[str]:
        """The functions of an f32 that it has an instruction for, and the types that it converts one to."""
        exact = {i.conversion or i.function for i in self.instrs if i.error is None and i.used_everywhere}
        return frozenset(self._functions) | {name for name in exact if name is not None}

    def instrs_named(self, name: str) -> tuple[Instr, ...]:
        """The instruction of that name, or the members of that family."""
        key = f"instructions named {name}"
        if key not in self.found:
            self.found[key] = tuple(i for i in self.instrs if name in (i.name, i.family))
        return self.found[key]

    @cached_property
    def _levels(self) -> dict[str, tuple[int, Level]]:
        return {x.name: (depth, x) for depth, x in enumerate(self.levels)}

    @cached_property
    def _memories(self) -> dict[str, Memory]:
        return {x.name: x for x in self.memories}

    @cached_property
    def _functions(self) -> dict[str, Instr]:
        return {i.function: i for i in self.instrs if i.function is not None and i.error is not None}

    @cached_property
    def _limits(self) -> dict[str, float]:
        return dict(self.limits)

    @cached_property
    def found(self) -> dict[str, Any]:
        """What others worked out from it alone, by name: it stays true."""
        return {}

    def taking_part(self, units: int) -> Device:
        """The device of which no more than so many units of a finite level take part, as if it had no others."""
        known = f"{units} units taking part"
        if known not in self.found:
            levels = tuple(replace(x, most=min(x.most or units, units)) if x.units == "finite" else x for x in self.levels)
            self.found[known] = self if levels == self.levels else replace(self, levels=levels)
        return self.found[known]
