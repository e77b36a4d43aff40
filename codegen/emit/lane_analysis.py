"""A launch as a machine with vector lanes executes it: which values differ between lanes, and which registers are named.

The body of a launch is written for one lane. The printer writes each statement once for all lanes: values that are the same in
every lane are scalars (UNIFORM), the others vectors. A register buffer becomes

    named    one variable per cell, when all its coordinates are constants once `unroll = 0` loops are unrolled (a scalar when
             UNIFORM, else a vector of lanes): compilers keep those in registers
    array    otherwise, and where unrolled loops within one another would make too long a text (TEXT)

TEXT: loops over the elements of two named buffers, one within the other, make a statement for each pair of elements. Then the
buffer with the most elements is an array, and its loops stay loops. Operands of which several elements share a word stay named.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from ...dsl.device import Level, Operand
from ...dsl.index.expr import Expr, Var, as_expr
from ...dsl.support.cached import cached_property
from ...dsl.values import COMPARISONS, Apply, IndexValue, Load, Masked, Value, loads, walk
from ..analysis.register_buffers import is_register
from ..ir.program import Program
from ..ir.tile_ir import Alloc, AllReduce, Buffer, Call, For, If, Launch, Let, Stmt, Store
from ..ir.tile_visitors import statements

MOST_CELLS = 256  # elements: of a buffer whose elements are analysed one by one [limit]

# statements: that unrolled loops within one another may become for named registers, for each hardware vector; g++ takes
# a minute for 2000 [limit]
MOST_NAMED = 512
WORD = 4  # bytes: of a register operand, which narrower elements share [fact: `codegen/emit/gpu/instr_wrapper.py`]


@dataclass(frozen=True)
class LaneRegister:
    buffer: Buffer
    named: bool
    uniform: bool


@dataclass(frozen=True)
class LaneInfo:
    """`var`, `width`: the lane's number and how many there are (None, 1: no vectors). `varying`: variables that differ
    between lanes. `unrolled`: loops (by variable) that must be unrolled by the printer. `sub_vectors`: hardware vectors that
    the lanes take; each statement is printed for one share of the lanes at a time."""

    var: Var | None
    width: int
    varying: frozenset[Var]
    registers: dict[str, LaneRegister]
    unrolled: frozenset[Var]
    sub_vectors: int = 1

    @cached_property
    def part(self) -> Var | None:
        """The lane's number within one hardware vector."""
        return None if self.var is None else Var(self.var.name, 0, self.width // self.sub_vectors - 1)

    @cached_property
    def counted(self) -> list[dict[Var, Expr]]:
        """What the lane's number is in each hardware vector."""
        var, part, width = self.var, self.part, self.width // self.sub_vectors
        return [{} if var is None or part is None else {var: part + n * width} for n in range(self.sub_vectors)]

    def printed_size(self, s: Stmt) -> int:
        """The statements of the text that a store, or another statement without a body, becomes."""
        return _printed_size(s, self.varying, self.registers.keys(), self.width, self.sub_vectors)


def analyse_lanes(
    program: Program, launch: Launch, var: Var | None, width: int, sub_vectors: int = 1, most: float = MOST_NAMED
) -> LaneInfo:
    """`most`: statements that loops may become (TEXT)."""
    everything = statements(launch.body)
    varying = _varying_variables(everything, var)
    buffers = {s.buffer.name: s.buffer for s in everything if type(s) is Alloc and is_register(s.buffer, program.device)}
    candidates = _unrollable(everything)
    accesses: dict[str, list[tuple[Expr, ...]]] = {name: [] for name in buffers}
    for name, coords in _accesses(everything):
        if name in accesses:
            accesses[name].append(coords)
    lets = {s.var: s.value for s in everything if type(s) is Let}
    sources = {c: _sources(c, lets) for c in {c for used in accesses.values() for coords in used for c in coords}}
    everywhere = {
        name
        for name, b in buffers.items()
        if (n := b.size.constant) is not None
        and n <= MOST_CELLS
        and all(sources[c] <= candidates for coords in accesses[name] for c in coords)
    }
    loops = {name: frozenset(v for coords in accesses[name] for c in coords for v in sources[c]) for name in everywhere}
    size = partial(_printed_size, varying=varying, registers=buffers.keys(), width=width, sub_vectors=sub_vectors)
    named = _within_text(launch.body, everything, {name: buffers[name] for name in everywhere}, loops, size, most)
    unrolled = frozenset(v for name in named for v in loops[name])
    differs = _varying_registers(program, launch.body, varying, set(buffers)) if var is not None else set()
    registers = {n: LaneRegister(b, n in named, n not in differs) for n, b in buffers.items()}
    return LaneInfo(var, width, varying, registers, _with_bounds(everything, unrolled, lets), sub_vectors)


def _within_text(
    body: tuple[Stmt, ...],
    everything: list[Stmt],
    buffers: dict[str, Buffer],
    loops: dict[str, frozenset[Var]],
    size: Callable[[Stmt], int],
    most: float,
) -> set[str]:
    """Those of the buffers that are named (TEXT). `loops`: those that are unrolled for each; `size`: of a statement's text."""
    named = set(buffers)
    operands = {p.buffer for s in everything if type(s) is Call for p in s.pieces}
    free = [name for name in named if loops[name] and (name not in operands or buffers[name].dtype.bytes >= WORD)]
    free.sort(key=lambda name: (buffers[name].size.constant or 0, name))
    while free and _longest_text(body, frozenset(v for name in named for v in loops[name]), size) > most:
        named.discard(free.pop())
    return named


def _longest_text(body: tuple[Stmt, ...], unrolled: frozenset[Var], size: Callable[[Stmt], int]) -> int:
    """The statements that the longest of the outermost unrolled loops becomes."""
    longest = 0
    for s in body:
        if type(s) is For and s.var in unrolled:
            longest = max(longest, _unrolled_count((s,), unrolled, size))
        else:
            for inner in _bodies(s):
                longest = max(longest, _longest_text(inner, unrolled, size))
    return longest


def _unrolled_count(body: tuple[Stmt, ...], unrolled: frozenset[Var], size: Callable[[Stmt], int]) -> int:
    """Statements of the text, declarations among them, where other loops stay. What compilers make of it is counted after that
    (`c.unrolling.statement_count`), when it is known which loops are unrolled."""
    total = 0
    for s in body:
        inner = sum(_unrolled_count(x, unrolled, size) for x in _bodies(s))
        if type(s) is For and s.var in unrolled:
            trips = (s.stop - s.start).interval[1]
            inner *= 1 if trips is None else max(0, -(-trips // (s.step.constant or 1)))
        total += inner if _bodies(s) else size(s)
    return total


def _printed_size(s: Stmt, varying: frozenset[Var], registers: Collection[str], width: int, sub_vectors: int) -> int:
    """Statements that one becomes: one for each hardware vector of the lanes, or for each lane that has an address of its own,
    because the address has a quotient or a remainder of what differs between lanes."""
    if type(s) is not Store:
        return 1
    at = [s.coords] if s.buffer not in registers else []
    at += [ld.indices for ld in loads(s.value) if ld.tensor not in registers]
    atoms = [Expr(((a, 1),)) for coords in at for e in coords for a, _ in e.terms if not isinstance(a, Var)]
    return width if any(not varying.isdisjoint(a.variables()) for a in atoms) else sub_vectors


def _bodies(s: Stmt) -> tuple[tuple[Stmt, ...], ...]:
    return (s.body, s.orelse) if isinstance(s, If) else (s.body,) if isinstance(s, For | Alloc) else ()


def sub_vector_count(launch: Launch, level: Level, width: int) -> int:
    """The number of hardware vectors that the lanes need. A vector of the widest type in use must not exceed the hardware's:
    gcc keeps such in memory. An instruction takes whole operands."""
    everything = statements(launch.body)
    if level.bytes is None or any(isinstance(s, Call) for s in everything):
        return 1
    types = [s.buffer.dtype for s in everything if isinstance(s, Alloc)]
    bound = {s.var for s in everything if isinstance(s, (For, Let))} | {u.var for u in launch.units}
    single = {id(x) for s in everything if isinstance(s, If) and _of_one(s, launch, level) for x in statements(s.body)}
    values = [v for s in everything if isinstance(s, Store) and id(s) not in single for v in walk(s.value)]
    compared = {id(a) for v in values if isinstance(v, Apply) and compares_indices(v) for a in v.args}  # by fewer bits
    # a size is a number, the same in all lanes
    types += [
        v.dtype for v in values if not isinstance(v, IndexValue) or (v.expr.variables() & bound and id(v) not in compared)
    ]
    # a vector of one element is no vector to compilers
    fit = max(2, level.bytes * 8 // max((t.compute.bits for t in types), default=32))
    return width // fit if fit < width and width % fit == 0 and not (width // fit) & (width // fit - 1) else 1


def compares_indices(v: Apply) -> bool:
    """Whether it compares two sums of indices, as a causal mask does: 64 bits each, but their difference needs fewer."""
    return v.fn in COMPARISONS and all(isinstance(a, IndexValue) and a.dtype.name == "i64" for a in v.args)


def _of_one(s: If, launch: Launch, level: Level) -> bool:
    """Whether lane 0 does it for all: then it is no matter of vectors."""
    lane = next((u.var for u in launch.units if u.level == level.name), None)
    return lane is not None and not s.orelse and any(c == -as_expr(lane) for c in s.conds)


def value_varies(value: Value, varying: frozenset[Var], differs: set[str]) -> bool:
    """Whether a value may differ between lanes."""
    for v in walk(value):
        match v:
            case IndexValue():
                exprs: tuple[Expr, ...] = (v.expr,)
            case Load():
                if v.tensor in differs:
                    return True
                exprs = v.indices
            case Masked():
                exprs = v.conds
            case _:
                continue
        if any(not varying.isdisjoint(e.variables()) for e in exprs):
            return True
    return False


def _varying_variables(everything: list[Stmt], lane: Var | None) -> frozenset[Var]:
    if lane is None:
        return frozenset()
    found = {lane}
    grown = True
    while grown:
        grown = False
        for s in everything:
            exprs = (s.start, s.step) if isinstance(s, For) else (s.value,) if isinstance(s, Let) else ()
            if exprs and s.var not in found and any(not found.isdisjoint(e.variables()) for e in exprs):  # type: ignore[union-attr]
                found.add(s.var)  # type: ignore[union-attr]
                grown = True
    return frozenset(found)


def _varying_registers(program: Program, body: tuple[Stmt, ...], varying: frozenset[Var], buffers: set[str]) -> set[str]:
    """By growing from none until nothing changes."""
    instrs = {i.name: i for i in program.instrs}
    differs: set[str] = set()

    def visit(stmts: tuple[Stmt, ...], guarded: bool) -> None:
        for s in stmts:
            match s:
                case For():
                    bounds = s.start.variables() | s.stop.variables() | s.step.variables()
                    visit(s.body, guarded or not varying.isdisjoint(bounds))
                case Alloc():
                    visit(s.body, guarded)
                case If():
                    inner = guarded or any_varies(s.conds, varying)
                    visit(s.body, inner)
                    visit(s.orelse, inner)
                case Store():
                    if s.buffer in buffers and (
                        guarded or value_varies(s.value, varying, differs) or any_varies(s.coords, varying)
                    ):
                        differs.add(s.buffer)
                case Call():
                    for piece, operand in zip(s.pieces, instrs[s.instr].operands, strict=True):
                        if piece.buffer in buffers and operand.role != "input" and has_lane(operand):
                            differs.add(piece.buffer)
                case AllReduce():
                    differs.update(name for name, _ in s.cells)

    before = -1
    while len(differs) != before:
        before = len(differs)
        visit(body, False)
    return differs


def any_varies(exprs: Iterable[Expr], varying: frozenset[Var]) -> bool:
    """Whether some of the expressions may differ between lanes."""
    return any(not varying.isdisjoint(e.variables()) for e in exprs)


def has_lane(operand: Operand) -> bool:
    """Whether the operand is spread over the units below the executing one."""
    return any(v.name == "lane" for e in operand.map for v in e.variables())


def _unrollable(everything: list[Stmt]) -> frozenset[Var]:
    """Variables all of whose loops can be unrolled by the printer: constant trip counts, given those around."""
    bounds: dict[Var, set[Var] | None] = {}  # what the bounds of its loops depend on; None where one stays a loop
    for s in everything:
        if type(s) is For:
            once = s.start.constant is not None and s.stop.constant == s.start.constant + 1 and s.step.constant == 1
            used = bounds.setdefault(s.var, set())
            if used is None or not (s.unroll == 0 or once):
                bounds[s.var] = None
            else:
                used |= s.start.variables() | s.stop.variables() | s.step.variables()
    found: set[Var] = set()
    while more := {v for v, used in bounds.items() if v not in found and used is not None and used <= found}:
        found |= more
    return frozenset(found)


def _accesses(everything: list[Stmt]) -> Iterator[tuple[str, tuple[Expr, ...]]]:
    for s in everything:
        match s:
            case Store():
                yield s.buffer, s.coords
                for v in walk(s.value):
                    if isinstance(v, Load):
                        yield v.tensor, v.indices
            case Call():
                for p in s.pieces:
                    yield p.buffer, p.coords
            case AllReduce():
                yield from s.cells


def _sources(e: Expr, lets: dict[Var, Expr]) -> frozenset[Var]:
    """Variables of an expression, with Lets substituted."""
    out: set[Var] = set()
    todo = list(e.variables())
    while todo:
        v = todo.pop()
        if v in lets:
            todo += lets[v].variables()
        else:
            out.add(v)
    return frozenset(out)


def _with_bounds(everything: list[Stmt], unrolled: frozenset[Var], lets: dict[Var, Expr]) -> frozenset[Var]:
    """With the loops that bounds of unrolled loops depend on."""
    loops = {s.var: s for s in everything if type(s) is For}
    todo = list(unrolled)
    out = set(unrolled)
    while todo:
        s = loops.get(todo.pop())
        for e in (s.start, s.stop, s.step) if s else ():
            for v in _sources(e, lets):
                if v not in out:
                    out.add(v)
                    todo.append(v)
    return frozenset(out)
