"""The syntax tree of a `.sched` file, which the parser builds and the formatter prints.

Frozen dataclasses; spans take no part in equality, so `parse(format(x)) == parse(x)` compares meaning. Nothing here is
resolved: names are strings, sizes are expressions. Shapes of the four declarations are in `grammar/sched.lark`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from .expression_nodes import Access as Access
from .expression_nodes import Binary as Binary
from .expression_nodes import Call as Call
from .expression_nodes import DomainCondition as DomainCondition
from .expression_nodes import Expr as Expr
from .expression_nodes import Name as Name
from .expression_nodes import Node as Node
from .expression_nodes import Num as Num
from .expression_nodes import Reduce as Reduce
from .expression_nodes import Unary as Unary
from .source import Source

# ---------------------------------------------------------------- op


@dataclass(frozen=True)
class TensorDecl(Node):
    """`A: f16[M, K]` (an input, an output, an instruction operand); `format` is the word after `as` (sparse, later)."""

    name: str
    dtype: str
    shape: tuple[Expr, ...]
    format: str | None = None


@dataclass(frozen=True)
class IntParam(Node):
    """`stride: int = 1`: a compile-time constant of an op."""

    name: str
    default: Expr | None = None


@dataclass(frozen=True)
class SizeCondition(Node):
    """`P = expr` (defines a size: op is `=`) or a condition `N <= 4096` (op is a comparison)."""

    left: Expr
    op: str
    right: Expr


@dataclass(frozen=True)
class Assign(Node):
    """`T[i, j] = value` or, in instructions, `+=`. A scalar is `T[] = value`, or `T = value`.

    `where`: conditions of the elements that there are, `T[i, j] where j <= i = value`.

    `extents` is empty, or gives each index the extent written after it, or None: `T[i, j: N] = value`, for an index whose
    range no shape tells.
    """

    target: str
    indices: tuple[str, ...]
    value: Expr
    accumulate: bool = False
    where: tuple[DomainCondition, ...] = ()
    extents: tuple[Expr | None, ...] = ()


@dataclass(frozen=True)
class OpDecl(Node):
    name: str
    dims: tuple[str, ...]
    inputs: tuple[TensorDecl | IntParam, ...]
    outputs: tuple[TensorDecl, ...]
    where: tuple[SizeCondition, ...]
    body: tuple[Assign, ...]


# ---------------------------------------------------------------- device


@dataclass(frozen=True)
class Quantity(Node):
    """A number with its unit as written: `163 KiB`, `1.41 GHz`, `19.4 TB/s`, `32 x 4 B` (count 32).

    Units are B, bit, Hz, FLOP, OP with a prefix (k K M G T P, Ki Mi Gi Ti Pi) and perhaps `/s` or `/cycle`, and s, ms, us, ns.
    Any other word after a number, `threads` or `cycles`, is a word of the fact.
    """

    value: int | float
    unit: str = ""
    count: int | None = None


@dataclass(frozen=True)
class Fact(Node):
    """One comma-separated fact: words and quantities in the order written.

    `at most 1024 threads` is ("at", "most", Quantity(1024), "threads"); a word may hold hyphens, as in `unit-quarter`.
    """

    parts: tuple[str | Quantity, ...]


@dataclass(frozen=True)
class LevelDecl(Node):
    """`level block: open, siblings nothing, at most 1024 threads`, outermost level first."""

    name: str
    facts: tuple[Fact, ...]


@dataclass(frozen=True)
class MemoryDecl(Node):
    """`memory shared of block: 163 KiB, banks 32 x 4 B, reserve 1 KiB`."""

    name: str
    level: str
    facts: tuple[Fact, ...]


@dataclass(frozen=True)
class LimitDecl(Node):
    """`units 108, clock 1.41 GHz, f32 180 GFLOP/s per unit`: a line of plain facts."""

    facts: tuple[Fact, ...]


@dataclass(frozen=True)
class OperandPlace(Node):
    """`A in register at (lane, r): m = lane/4, k = 2*r`: where element (m, k) of an operand lives.

    `coords` are the coordinates bound in parentheses; `maps` gives each operand axis as an expression of them. An
    operand in an addressable memory states, with the same form, which unit passes which address.
    """

    operand: str
    memory: str
    coords: tuple[str, ...]
    maps: tuple[tuple[str, Expr], ...]


@dataclass(frozen=True)
class Emit(Node):
    """`emit cuda: "text"`: the body of the instruction's inline function in that dialect."""

    dialect: str
    text: str


@dataclass(frozen=True)
class KindValue(Node):
    """`W = 16`, `V = uint4` or `REGS = "{%0, %1}"`: what a name stands for in one kind of an instruction."""

    name: str
    value: int | float | str
    quoted: bool = False


@dataclass(frozen=True)
class Kind(Node):
    """What an instruction comes for: `f32 x 4`, a type and how many elements of it; `16 B`, every type, as many elements as
    fill 16 bytes (no `dtype`, `count` 16). A line `for 16 B: V = uint4, W = 16` has values for the names that differ.
    """

    dtype: str | None
    count: int | None
    values: tuple[KindValue, ...] = ()


@dataclass(frozen=True)
class InstrDecl(Node):
    """An instruction: `instr NAME on LEVEL [in FAMILY] [for KINDS]:` with `op (...)`, places, emits, facts, `await KIND ...`.

    `kinds` stand in its first line, or in a line of their own each, where they have values.
    """

    name: str
    level: str
    family: str | None
    operands: tuple[TensorDecl, ...]
    results: tuple[TensorDecl, ...]
    body: tuple[Assign, ...]
    places: tuple[OperandPlace, ...]
    emits: tuple[Emit, ...]
    facts: tuple[Fact, ...]  # cost, latency
    awaits: Fact | None = None  # `await group`, `await counter 16`, ...
    kinds: tuple[Kind, ...] = ()


@dataclass(frozen=True)
class DeviceDecl(Node):
    name: str  # may hold one colon: cpu:avx2
    extends: str | None
    items: tuple[LevelDecl | MemoryDecl | LimitDecl | InstrDecl, ...]


# ---------------------------------------------------------------- schedule


@dataclass(frozen=True)
class Auto(Node):
    """`auto` where a size, a memory or an instruction could stand."""


Size = Expr | Auto


@dataclass(frozen=True)
class Modifier(Node):
    """A modifier at the end of a line.

    name          what it holds
    unroll        values: () or (count,)
    vector        values: (width,)
    pipeline      values: (depth,); words: () or ("through",)
    order         words: index names, outermost first
    raster        values: (width,)
    arrange       words: (unit name,); maps: (index, expression of the unit) pairs
    within        words: (memory,)
    pad           values: (elements,)
    swizzle       values: () or (bits,) or (bits, elements of a chunk)
    layout        `layout (k, m)` has values (k, m), outermost first, each an expression of indices;
                  `layout panels(n: 16)` has words ("panels",) and maps (("n", 16),)
    peel          nothing; so `persistent`, `online` and `carry`
    by            words: (atomic | workspace | shuffle | ...,)
    with          words: (instruction or family,), or values: (Auto(),); on `compute` it becomes `Compute.instr`
    multicast     words: index names
    """

    name: str
    values: tuple[Size, ...] = ()
    words: tuple[str, ...] = ()
    maps: tuple[tuple[str, Expr], ...] = ()


@dataclass(frozen=True)
class TileAxis(Node):
    """`m: 4 every 32`; a plain `m: 128` has `every` None."""

    index: str
    size: Size
    every: Expr | None = None


@dataclass(frozen=True)
class Tile(Node):
    axes: tuple[TileAxis, ...]
    level: str | None = None  # None: one after another
    modifiers: tuple[Modifier, ...] = ()


@dataclass(frozen=True)
class Move(Node):
    """`move A -> shared [as (...)] [modifiers]:` and the nested schedule of the copy (None: completed)."""

    tensor: str
    memory: str | None  # None: auto
    view: tuple[str, ...] | None = None
    modifiers: tuple[Modifier, ...] = ()
    block: tuple[Line, ...] | None = None


@dataclass(frozen=True)
class Keep(Node):
    """`keep m, l, o in register [modifiers]:` and the nested schedule of the write-back."""

    tensors: tuple[str, ...]
    memory: str | None
    modifiers: tuple[Modifier, ...] = ()
    block: tuple[Line, ...] | None = None


@dataclass(frozen=True)
class Inline(Node):
    tensors: tuple[str, ...]


@dataclass(frozen=True)
class Fuse(Node):
    """`fuse n, p, q as m`, outermost first."""

    indices: tuple[str, ...]
    name: str


@dataclass(frozen=True)
class Compute(Node):
    """`compute`, or `compute with INSTR` (instruction or family; Auto for `compute with auto`)."""

    instr: str | Auto | None = None
    modifiers: tuple[Modifier, ...] = ()


@dataclass(frozen=True)
class Apply(Node):
    strategy: str
    args: tuple[Expr, ...] = ()
    named: tuple[tuple[str, Expr], ...] = ()


@dataclass(frozen=True)
class Param(Node):
    """`param BM in 64, 128, 256 [= 128]`; without a default the first value is it. `schedule` gives its default."""

    name: str
    values: tuple[Expr, ...]
    default: Expr | None = None


@dataclass(frozen=True)
class AutoLine(Node):
    """A line that says `auto`."""


Line = Tile | Move | Keep | Inline | Fuse | Compute | Apply | Param | AutoLine


def block_of(line: Line) -> tuple[Line, ...]:
    """The lines that are nested in a line."""
    return line.block or () if isinstance(line, Move | Keep) else ()


def all_lines(lines: Iterable[Line]) -> Iterator[Line]:
    """Lines, and those that are nested in each, in the order of the text."""
    for line in lines:
        yield line
        yield from all_lines(block_of(line))


def tensors_of(line: Line) -> tuple[str, ...]:
    """The tensors that a line moves or keeps."""
    return (line.tensor,) if isinstance(line, Move) else line.tensors if isinstance(line, Keep) else ()


@dataclass(frozen=True)
class ScheduleDecl(Node):
    """`schedule NAME for OP [as ROLE(A = X, ...)] [on DEVICE] [where N <= 16384, ...]:`."""

    name: str
    op: str  # an op's name, or `contraction`
    role: str | None
    bindings: tuple[tuple[str, str], ...]  # A = X of the `as`
    device: str | None
    where: tuple[SizeCondition, ...]
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class StrategyDecl(Node):
    """`strategy NAME(T, depth = 3):` lines in which the parameters stand for names or sizes."""

    name: str
    params: tuple[tuple[str, Expr | None], ...]
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Import(Node):
    """`import "common/ops.sched"` (relative to the importing file) or `import std.ops.gemm`."""

    path: str
    std: bool


@dataclass(frozen=True)
class Language(Node):
    """`language 1`: the version of the language in which a text is written."""

    version: int


Decl = OpDecl | DeviceDecl | ScheduleDecl | StrategyDecl | Import


@dataclass(frozen=True)
class File(Node):
    declarations: tuple[Decl, ...]
    source: Source = field(compare=False, repr=False)
    language: Language | None = None  # None: the text states no version
