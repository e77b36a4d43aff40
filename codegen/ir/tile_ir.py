"""The tile program: what lowering builds, the interpreter runs and the printers print. Its grammar, on one screen:

    Program   = dims, lets, buffers (arguments and workspaces), instrs, launches; needs, instead
    Launch    = name, units (one `Units` a level below the launch), body
    Stmt      = For(var, start, stop, step, body)      one after another
              | Let(var, expr)                         names an index expression for the rest of its block
              | If(conds, body, orelse)                each cond is an index expression, true when >= 0
              | Alloc(buffer, body)                    a local buffer, alive in body
              | Store(buffer, coords, value)
              | Call(instr, operands)                  an instruction, executed by all units below its level together
              | AllReduce(level, kind, cells, ...)     combines a register of lockstep units; every unit gets the result
              | Barrier(level)                         all units below one unit of `level` synchronise
              | Commit(kind)                           asynchronous copies issued since the last one are a group
              | Wait(kind, pending)                    asynchronous copies are complete, but for the latest groups
    value     = dsl.values.Value; loads name buffers, their indices are the buffer's own coordinates
    coords    = index expressions over Vars: unit numbers, loop variables, Lets, dims

A launch is SPMD: its body is executed by every unit of every level at once, from the first statement to the last, in
terms of the variables of `Launch.units` (a unit's number under its parent). There are no unit loops: `tile -> warp` becomes
`Let`s that decode the warp's number, `tile -> core` a `For` that starts at the core's number. Control flow may depend on
units. Lockstep siblings (threads of a warp, lanes of a core) run statement by statement together.

Instances of a buffer: one for each unit of `Buffer.level` (a buffer at the innermost level is private to each innermost
unit: registers). A buffer's linear address, in elements, is sum(coord * stride).

Everything is a frozen dataclass; printing (`print(program)`) shows it as text. A program is a value: equal input, equal output,
and no global counters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ...dsl.index.expr import Expr, Fn, Var, as_expr
from ...dsl.source import Span
from ...dsl.types import DType
from ...dsl.values import Value


@dataclass(frozen=True)
class Buffer:
    """Where elements live.

    kind      input | output (arguments, row-major, in the outermost memory) | workspace (outermost memory, from the host, alive
              during the whole program, not initialised) | local (declared by Alloc)
    memory    the memory the author named (a cache's name for a buffer meant to stay in it; see `Memory.backing`)
    level     the level whose units each own one instance; arguments and workspaces: the outermost level
    shape     extents per coordinate; constant for registers and for memories with a capacity (bounds), symbolic for arguments
    strides   in elements; constant or symbolic
    size      elements to allocate (>= addresses reached), constant or symbolic
    passing   registers that a value passes through on its way; nobody asked for them
    """

    name: str
    dtype: DType
    kind: str
    memory: str
    level: str
    shape: tuple[Expr, ...]
    strides: tuple[Expr, ...]
    size: Expr
    span: Span | None = field(default=None, compare=False, repr=False)
    passing: bool = False

    @staticmethod
    def row_major(
        name: str,
        dtype: DType,
        kind: str,
        memory: str,
        level: str,
        shape: Sequence[Expr | int],
        span: Span | None = None,
        passing: bool = False,
    ) -> Buffer:
        """A buffer without gaps, contiguous in its last coordinate."""
        extents = tuple(map(as_expr, shape))
        strides: tuple[Expr, ...] = ()
        size = as_expr(1)
        for n in reversed(extents):
            strides, size = (size, *strides), size * n
        return Buffer(name, dtype, kind, memory, level, extents, strides, size, span, passing)


@dataclass(frozen=True)
class For:
    """for (var = start; var < stop; var += step). `unroll`: 1 no, n by n, 0 wholly (constant extent).

    `var`'s interval covers all its values. start, stop, step may be symbolic and may depend on unit variables.
    """

    var: Var
    start: Expr
    stop: Expr
    step: Expr
    body: tuple[Stmt, ...]
    unroll: int = 1
    span: Span | None = field(default=None, compare=False, repr=False)

    def known(self) -> tuple[Expr, ...]:
        """What holds (>= 0) in each turn, beyond the variable's interval."""
        ends = self.stop - self.var - 1
        return (ends,) if self.start.constant == 0 else (ends, self.var - self.start)


@dataclass(frozen=True)
class Let:
    """`extent`: when given, 0 <= var < extent is known (a fact for proofs, not a computation)."""

    var: Var
    value: Expr
    extent: Expr | None = None
    span: Span | None = field(default=None, compare=False, repr=False)

    def known(self) -> tuple[Expr, ...]:
        """What holds (>= 0) where it is named, beyond its interval."""
        return () if self.extent is None else (self.extent - self.var - 1,)


@dataclass(frozen=True)
class If:
    """`turns`: the conditions are about turns of loops, not about edges of tensors; no version of the code is without them."""

    conds: tuple[Expr, ...]
    body: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)
    turns: bool = False


@dataclass(frozen=True)
class Staging:
    """The first `copy` statements of an Alloc's body fill its buffer, the others read it.

    depth    buffers that rotate over the loop of `loop`: depth - 1 copies are made ahead
    loop     None: no loop changes what is copied
    through  the first copies of that loop are made before the turn of the loop around it ends that comes before
    """

    copy: int
    depth: int = 1
    loop: Var | None = None
    through: bool = False


@dataclass(frozen=True)
class Alloc:
    """`staging`: what lowering knows of a `move`, until `pipeline_copies` has seen to it.

    `outlined`: text that a compiler of registers sees has the body as a function of its own, which is not inlined; it writes no
    register that is declared around it.
    """

    buffer: Buffer
    body: tuple[Stmt, ...]
    span: Span | None = field(default=None, compare=False, repr=False)
    staging: Staging | None = None
    outlined: bool = False


PIECE = Var("#", 0)  # in a `Contribution`: which element of a piece


@dataclass(frozen=True)
class Contribution:
    """What a statement does to the accumulator of a reduction, as lowering says it. `check_contributions` checks it.

    result   the tensor that the reduction computes
    role     start: the identity          add: one point, or as many as an instruction has      resume: what was stored before
             scale: multiplied            combine: the parts of several units                   result: stored from there
             part, restart, gather: the parts of several units through a memory that they share (`stride`, `count`)
             carry: the total of the tiles so far, which the next tile goes on from
             of argmax and argmin the step of the index; that of the value is a `start value`, `add value` and so on
    free     where the element is: the coordinate of each index that the result has
    reduced  which points: the first coordinate of each reduced index, how many from there on, and the index's extent
    indices  the reduced indices
    domain   conditions on the indices that have such coordinates, which hold for the points that count
    neutral  whether a point beyond the extent adds the identity
    padded   whether the op itself has something else in place of some elements
    parts    indices of the stored result that number parts, which a later launch combines
    indexed  whether a step of argmax and argmin, each of which has a `value` too
    """

    result: str
    role: str
    free: tuple[tuple[str, Expr], ...] = ()
    reduced: tuple[tuple[Expr, int, Expr], ...] = ()
    indices: tuple[str, ...] = ()
    domain: tuple[Expr, ...] = ()
    neutral: bool = False
    padded: bool = False
    parts: tuple[str, ...] = ()
    indexed: bool = False
    level: str = ""
    stride: int = 1
    count: int = 0


@dataclass(frozen=True)
class Store:
    """buffer[coords] = value, rounded to the buffer's dtype. `atomic` (sum, max, min): combined with what is there.

    `using`: an instruction, or a family, that stores what registers hold; a printer takes it for what it fits.
    """

    buffer: str
    coords: tuple[Expr, ...]
    value: Value
    atomic: str | None = None
    span: Span | None = field(default=None, compare=False, repr=False)
    using: str | None = None
    contribution: Contribution | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Piece:
    """An instruction's operand: `extent` elements of `buffer` from `coords` on, one after another along its last coordinate;
    one that is longer than that, or whose coordinates are digits of one number, goes on in the rows that follow, which lie
    right behind.

    For a register operand these are the executing unit's registers r = 0, 1, ...; for a memory operand the address that
    this unit passes.
    """

    buffer: str
    coords: tuple[Expr, ...]
    extent: int = 1


def goes_on_in_next_row(coords: tuple[Expr, ...], d: int, row: Expr) -> bool:
    """Whether coordinate `d` counts up to the extent of its dimension, and then anew, in the row that follows.

    It is a remainder, or the one before it a quotient: `% row` is left out where a piece begins within a row. The one
    coordinate of a dimension of extent 1 counts anew at each step.
    """
    if (row.constant == 1 and coords[d].constant == 0) or any(
        [type(a) is Fn and a.kind == "mod" and a.args[1] * k == row for a, k in coords[d].terms]
    ):
        return True
    quotients = [a for a, _ in coords[d - 1].terms if type(a) is Fn and a.kind == "div"] if d > 0 else ()
    return any([_counts_rows(a, coords[d], row) for a in quotients])


def _counts_rows(quotient: Fn, c: Expr, row: Expr) -> bool:
    """Whether the quotient may be that by `row`, beside the remainder `c`. What divides both the number and the row divides the
    remainder too, and may be left out of the quotient: of 4*i, rows of 6 are counted by (2*i)/3."""
    by = quotient.args[1]
    if by == row:
        return True
    if not by.constant or not row.constant or row.constant % by.constant:
        return False
    common = row.constant // by.constant
    return all([k % common == 0 for k in (c.const, *[k for _, k in c.terms])])


@dataclass(frozen=True)
class Call:
    """`pieces` in the order of `Instr.operands`; `instr` names one of Program.instrs."""

    instr: str
    pieces: tuple[Piece, ...]
    span: Span | None = field(default=None, compare=False, repr=False)
    contribution: Contribution | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class AllReduce:
    """Combines registers across lockstep units of `level`: units whose numbers differ only in the digit
    `number // stride % count` form a group; afterwards each has the combination of the group's values.

    `cells` names (buffer, coords) of one register; for argmax/argmin two: the value, then its index (i64; the smaller index
    wins a tie).
    """

    level: str
    kind: str
    stride: int
    count: int
    cells: tuple[tuple[str, tuple[Expr, ...]], ...]
    span: Span | None = field(default=None, compare=False, repr=False)
    contribution: Contribution | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Barrier:
    """Every unit below one unit of `level` waits for the others; their writes are visible after it. `why` is for people."""

    level: str
    why: str = ""
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Commit:
    """The asynchronous copies of `kind` that this unit issued since its last Commit are one group, which may be empty.

    Only of kinds that complete in groups (`dsl.device.GROUPED`).
    """

    kind: str
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Wait:
    """Until at most the latest `pending` groups of asynchronous copies of `kind` that this unit committed are under way.

    Of a kind that does not complete in groups each copy is one.
    """

    kind: str
    pending: int
    span: Span | None = field(default=None, compare=False, repr=False)


Stmt = For | Let | If | Alloc | Store | Call | AllReduce | Barrier | Commit | Wait


@dataclass(frozen=True)
class Units:
    """The units of one level in a launch. `count` per parent: constant for shaped levels; symbolic for open ones; for
    finite levels a variable that the launcher binds (how many take part). `var`: the unit's number under its parent."""

    level: str
    var: Var
    count: Expr


@dataclass(frozen=True)
class Launch:
    """One launch: all of it is complete before the next one starts."""

    name: str
    units: tuple[Units, ...]  # outermost first; levels without a choice (one unit) are left out
    body: tuple[Stmt, ...]


@dataclass(frozen=True)
class Needs:
    """What a program takes for granted of a call: index expressions over the sizes that are >= 0, and arguments whose first
    element is at a multiple of so many bytes."""

    conds: tuple[Expr, ...] = ()
    aligned: tuple[tuple[str, int], ...] = ()
