"""Statements of one thread of a block, for all dialects of GPUs.

Every unit below the block is a thread, so values are scalars and registers are arrays (`register_arrays`). The differences from
the walk that dialects share: integers that fit are `int`; several elements that are narrower than an instruction's register are
in one variable (PACKED); lockstep units combine registers by shuffles; instructions may be asynchronous.

PACKED      An instruction's register operand of 8- or 16-bit elements is passed as 32-bit words, element 0 in the lowest bits.
ONE_BY_ONE  Where no instruction may load a whole operand, for its address is not aligned, a function loads its elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod

from ....dsl.device import Operand
from ....dsl.errors import InternalError
from ....dsl.index.expr import ZERO, Expr, Var, as_expr
from ....dsl.types import DType
from ....dsl.values import Load
from ...analysis.loop_nest import first_and_step
from ...analysis.register_buffers import register_memories
from ...ir.limits import INT_END
from ...ir.program import Program
from ...ir.tile_ir import Alloc, AllReduce, Barrier, Buffer, Call, Commit, For, Let, Piece, Stmt, Store, Wait
from ..addressing import address, lane_pointer, pointer_text
from ..c.c_expr import ATOM, COMPARE, storage
from ..c.c_tree import Assign, Binary, Declaration, Directive, ExprStatement, If, Statement
from ..c.range_tests import range_test, with_range_tests
from ..c.text_builder import TextScope
from ..c.unrolling import trip_count
from ..cpu.cpp_prelude import has_helper
from ..emission_context import EmissionContext
from ..instr_operands import element_coords
from ..lane_analysis import LaneRegister
from ..load_store import load
from ..statements import StatementPrinter
from .counters import Counter, counted_by, has_counters, with_counters
from .instr_wrapper import RegisterOperand, register_operand
from .int32_index import GpuIndex
from .register_arrays import RegisterArray, over_words, without_clearing
from .unroll_limit import unroll_limit

_VARIABLE = RegisterArray((), ())
_INFIX = {"sum": "+", "prod": "*", "any": "|", "all": "&"}  # of reductions
_WRAPPING = {"sum": "m_add", "prod": "m_mul"}  # of integers


@dataclass(frozen=True)
class DialectSpelling:
    """The names of a dialect. `shuffle` is a format of x (a value), d (a distance), mask (lanes that take part)."""

    dialect: str
    block: str
    thread: str
    barrier: str
    lockstep: str
    shuffle: str
    bounds: str  # a format of name, the constant that holds the threads of a block
    unroll: str = "#pragma unroll"


@dataclass
class GpuContext(EmissionContext):
    """`arrays`: what registers are whose cells are known. `packed`: of register buffers, the elements that share a variable
    (PACKED). `stored`: buffers with single stores."""

    arrays: dict[str, RegisterArray] = field(default_factory=dict)
    packed: dict[str, int] = field(default_factory=dict)
    stored: set[str] = field(default_factory=set)

    @property
    def overflow_wraps(self) -> bool:
        return False  # NVRTC has no option for it

    def int_type(self, var: Var, e: Expr) -> str:
        index = self.text.index
        assert isinstance(index, GpuIndex)
        found = [index.bound(e), None if var.lo is None or var.hi is None else max(abs(var.lo), abs(var.hi))]
        bound = min((b for b in found if b is not None), default=None)
        if bound is None or bound >= INT_END:
            index.learn({var: None})
            return "int64_t"
        index.learn({var: bound})
        return "int"

    def live(self, conds: Sequence[Expr]) -> list[Expr]:
        found = with_range_tests(super().live(conds))
        return [as_expr(-1)] if any(e in self.known.false for e in found) else found

    def _compare(self, e: Expr) -> str:
        """The last element that is touched is below the size; where a whole tile is inside, its end is at most the size. Two
        bounds are one comparison without a sign."""
        if (inside := range_test(e)) is not None:
            return "false" if inside[1] == ZERO else self._compare_unsigned(*inside)
        plus, minus = [t for t in e.terms if t[1] > 0], [(a, -c) for a, c in e.terms if c < 0]
        show, k = self.text.index.terms, e.const
        if minus and not plus:
            nothing = k == 0 and all(a.interval[0] == 0 for a, _ in minus)
            return f"{show(minus, 0, COMPARE + 1)} == 0" if nothing else f"{show(minus, 0)} < {k + 1}"
        if minus and k < -1 and -k % max(c for _, c in minus):
            return f"{show(minus, -k - 1)} < {show(plus, 0)}"
        return super()._compare(e)

    def _compare_unsigned(self, x: Expr, n: Expr) -> str:
        """0 <= x < n, see `range_tests`."""
        index = self.text.index
        assert isinstance(index, GpuIndex)
        kind = "uint32_t" if index.fits(x) and index.fits(n) else "uint64_t"
        end = index.text(n) if not n.terms else f"({kind}){index.text(n, ATOM)}"
        return f"({kind}){index.text(x, ATOM)} < {end}"

    def register_type(self, buffer: Buffer, vector: bool) -> str:
        return "uint32_t" if buffer.name in self.packed else super().register_type(buffer, vector)

    def cell(self, name: str, coords: Sequence[Expr]) -> str:
        return self._element(name, [self.substitute(e) for e in coords])

    def word_and_part(self, name: str, coords: Sequence[Expr]) -> tuple[str, str] | None:
        if name not in self.packed:
            return None
        part = self.substitute(coords[-1]) % self.packed[name]
        return self._element(name, self._word_coords(name, coords)), self.text.index.text(part)

    def _word_coords(self, name: str, coords: Sequence[Expr]) -> list[Expr]:
        where = [self.substitute(e) for e in coords]
        return [*where[:-1], where[-1] // self.packed[name]] if name in self.packed else where

    def _element(self, name: str, where: Sequence[Expr]) -> str:
        return self._at(name, self.arrays[name].indices(where))

    def _at(self, name: str, indices: Sequence[Expr]) -> str:
        emitted = self.cells[name][()] = self.emitted_names[name]
        return emitted + "".join([f"[{self.text.index.text(e)}]" for e in indices])

    def registers_of(self, name: str, coords: Sequence[Expr], r: RegisterOperand) -> str:
        """An operand that is `r.count` elements of an array, one after another, as an array."""
        if name not in self.arrays:
            return f"({r.kind} (&)[{r.count}]){load(self, name, coords)[0]}"
        array = self.arrays[name]
        indices = array.indices(self._word_coords(name, coords))
        if array.shape[-1] == r.count and indices[-1].constant == 0:
            return self._at(name, indices[:-1])
        return f"({r.kind} (&)[{r.count}]){self._at(name, indices)}"


def _adjacent(register: LaneRegister, count: int) -> bool:
    """Whether cells along the last coordinate are elements of the array one after another."""
    return register.named or count == 1 or register.buffer.strides[-1].constant == 1


def packed_buffers(program: Program, everything: Sequence[Stmt]) -> dict[str, int]:
    """PACKED: register buffers of these statements with several elements in a variable, and how many."""
    registers = register_memories(program.device)
    instrs = {i.name: i for i in program.instrs}
    local = {s.buffer.name: s.buffer for s in everything if type(s) is Alloc and s.buffer.memory in registers}
    found: dict[str, int] = {}
    apart: set[str] = set()
    for s in everything:
        if type(s) is Call:
            for piece, o in zip(s.pieces, instrs[s.instr].operands, strict=True):
                share = register_operand(o, piece.extent).share if o.memory in registers else 1
                if share > 1 and piece.buffer in local:
                    found[piece.buffer] = share
                    last = piece.coords[-1] if piece.coords else as_expr(0)
                    if piece.extent % share or any(c % share for _, c in last.terms) or last.const % share:
                        apart.add(piece.buffer)
    return {name: n for name, n in found.items() if name not in apart}


class GpuBody(StatementPrinter):
    ctx: GpuContext

    def __init__(
        self,
        ctx: GpuContext,
        spelling: DialectSpelling,
        barrier: Callable[[Barrier], list[Statement]],
        local: Callable[[Alloc], None],
        parts: frozenset[int],
    ) -> None:
        super().__init__(ctx, barrier, local)
        self.spelling, self.parts = spelling, parts
        self.units: dict[str, Var] = {}  # of the lockstep levels that have several
        self.word_loops: dict[Var, int] = {}  # loops over parts of words, see `register_arrays`
        self._over_words: set[Var] = set()
        self._cleared: set[str] = set()  # arrays that are declared as zeros
        self._counters: dict[Var, list[Counter]] = {}  # of loops that are being printed

    # ------------------------------------------------------------ loops over registers

    def _for(self, s: For) -> None:
        trips = trip_count(self.ctx, s)
        if trips is not None and (loaded := self._one_by_one(s, trips)) is not None:
            return self.ctx.text.add(loaded)
        if s.var in self.word_loops and trips is not None:
            words = over_words(s, trips, self.word_loops[s.var])
            if words is not None:
                self._over_words.add(words.var)
                s = words
        ctx, body = self.ctx, self.ctx.text.body
        mark = len(body)
        if s.var not in ctx.lanes.unrolled and has_counters(s, self._instrs, ctx.program.device.levels[-1].name):
            self._counters[s.var] = []
        super()._for(s)
        if counters := self._counters.pop(s.var, None):
            body[mark:] = with_counters(ctx, body[mark:], s, counters)

    def _let(self, s: Let) -> None:
        ctx, text = self.ctx, self.ctx.text
        e = ctx.substitute(s.value)
        if (found := counted_by(ctx, self._counters, e)) is None:
            return super()._let(s)
        loop, end = found
        ctx.known.values.pop(s.var, None)
        counters = self._counters[loop]
        counter = next((c for c in counters if c.value == e), None)
        if counter is None:
            name = text.fresh(s.var.name, text.depth(as_expr(loop)) - 1)
            counters.append(counter := Counter(name, ctx.int_type(s.var, e), e, end))
        ctx.name_in_loops(s.var, e)
        text.name_again(s.var, counter.name)
        return None

    def _one_by_one(self, s: For, trips: int) -> ExprStatement | None:
        """ONE_BY_ONE: the loop as a call; None if it does anything else."""
        ctx = self.ctx
        match s.body:
            case (Store(coords=(place,), value=Load() as read, atomic=None) as to,) if to.buffer in ctx.packed:
                array = ctx.lanes.registers[to.buffer].buffer
            case _:
                return None
        filled = place == as_expr(s.var) and s.start.constant == 0 and s.step.constant == 1 and array.size.constant == trips
        if not filled or read.dtype != array.dtype or read.tensor in ctx.lanes.registers:
            return None
        found = first_and_step(address(ctx, ctx.buffers[read.tensor], read.indices), s.var, s.start, trips)
        if found is None or found[1] != 1:
            return None
        element = storage(array.dtype)
        ctx.need("load_each", element)
        first = lane_pointer(ctx, ctx.buffers[read.tensor], found[0])
        return ExprStatement(f"m_load_each_{element}({first}, {self._whole(to.buffer)})")

    def _whole(self, name: str) -> str:
        """All words of an array, as an array without rows."""
        shape = self.ctx.arrays[name].shape
        emitted = self.ctx.cells[name][()] = self.ctx.emitted_names[name]
        return emitted if len(shape) == 1 else f"(uint32_t (&)[{prod(shape)}]){emitted}{'[0]' * len(shape)}"

    def _is_written_out(self, s: For) -> bool:
        return s.var in self.word_loops

    def _unroll_count(self, s: For) -> int | None:
        if s.var in self.ctx.lanes.unrolled or s.var in self._over_words:
            return 0
        return super()._unroll_count(s) or unroll_limit(self.ctx, s, self.ctx.packed)

    def _unroll_directive(self, count: int) -> Directive:
        return Directive(f"{self.spelling.unroll} {min(count, 64)}" if count else self.spelling.unroll)

    def _register(self, s: Alloc, register: LaneRegister) -> None:
        if self.ctx.arrays.get(s.buffer.name, _VARIABLE).shape and (rest := without_clearing(s)) is not None:
            self._cleared.add(s.buffer.name)
            s = rest
        super()._register(s, register)

    def _declare_cells(self, name: str, scopes: Sequence[TextScope]) -> None:
        ctx, shape = self.ctx, self.ctx.arrays[name].shape
        if not shape:
            return super()._declare_cells(name, scopes)
        if not ctx.cells[name]:
            return None
        kind = ctx.register_type(ctx.lanes.registers[name].buffer, False)
        cleared = name in self._cleared or (name in ctx.packed and name in ctx.stored)  # parts are put in one by one
        made = Declaration(kind, ctx.emitted_names[name], "{}" if cleared else None, sizes=tuple(map(str, shape)))
        scopes[0].decls.insert(0, made)
        return None

    def _seen_through(self, s: Let, e: Expr) -> bool:
        """Not what has 32 bits by its name alone (`counts`)."""
        index = self.ctx.text.index
        assert isinstance(index, GpuIndex)
        narrower = s.extent is None and s.var.hi is not None and s.var.hi < INT_END and not index.fits(e)
        return super()._seen_through(s, e) and not narrower

    # ------------------------------------------------------------ instructions

    def _commit(self, s: Commit) -> None:
        self.ctx.need(f"m_commit_{s.kind}")
        self.ctx.text.add(ExprStatement(f"m_commit_{s.kind}()"))

    def _wait(self, s: Wait) -> None:
        self.ctx.need(f"m_wait_{s.kind}")
        self.ctx.text.add(ExprStatement(f"m_wait_{s.kind}<{s.pending}>()"))

    def _arguments(self, piece: Piece, operand: Operand, after: list[Statement]) -> list[str]:
        ctx, o = self.ctx, operand
        if o.memory not in register_memories(ctx.program.device):
            return [pointer_text(ctx, piece.buffer, piece.coords)]
        r = register_operand(o, piece.extent)
        register = ctx.lanes.registers.get(piece.buffer)
        if register is not None and r.kind == ctx.register_type(register.buffer, False) and _adjacent(register, r.count):
            return [ctx.registers_of(piece.buffer, piece.coords, r)]
        elements = element_coords(ctx, piece)
        words = [elements[i : i + r.share] for i in range(0, piece.extent, r.share)]
        cells = [[load(ctx, piece.buffer, p)[0] for p in word] for word in words]
        given = None
        if o.role != "output":
            given = f"{{{', '.join([self._word(r, texts, o.dtype) for texts in cells])}}}"
        t = ctx.text.temp()
        ctx.text.add(Declaration(r.kind, t, given, const=o.role == "input", sizes=(str(r.count),)))
        if o.role != "input":
            for w, texts in enumerate(cells):
                after += [Assign(cell, self._unpacked(f"{t}[{w}]", i, r, o.dtype)) for i, cell in enumerate(texts)]
        return [t]

    def _word(self, r: RegisterOperand, texts: list[str], dtype: DType) -> str:
        """Elements as one variable of an operand."""
        ctx, element = self.ctx, storage(dtype)
        if r.kind != "uint32_t":
            return texts[0]
        if element == "f32":
            ctx.need("bits", "f32")
            return f"(uint32_t)bits({texts[0]})"
        ctx.need("pack", element)
        return f"m_pack_{element}({', '.join(texts + ['0'] * (r.share - len(texts)))})"

    def _unpacked(self, word: str, i: int, r: RegisterOperand, dtype: DType) -> str:
        ctx, element = self.ctx, storage(dtype)
        if r.kind != "uint32_t":
            return word
        if element == "f32":
            ctx.need("flt", "f32")
            return f"flt((int32_t){word})"
        ctx.need("part", element)
        return f"m_part_{element}({word}, {i})"

    # ------------------------------------------------------------ reductions over lockstep units

    def _all_reduce(self, s: AllReduce) -> None:
        if s.count == 1 or s.level not in self.units:
            return
        if s.stride & (s.stride - 1) or s.count & (s.count - 1):
            raise InternalError(f"a reduction over {s.count} units at a stride of {s.stride}")
        mask = self._mask(s)
        cells = [load(self.ctx, name, coords)[0] for name, coords in s.cells]  # of an array, where they are too many for names
        dtypes = [self.ctx.lanes.registers[name].buffer.dtype for name, _ in s.cells]
        distance = s.stride
        while distance < s.stride * s.count:
            self._combine(s.kind, cells, dtypes, distance, mask)
            distance *= 2

    def _mask(self, s: AllReduce) -> str:
        """The units that take part: those of the subgroup, unless all of them come here."""
        if id(s) not in self.parts:
            return "0xffffffffu"
        group = sum(1 << (j * s.stride) for j in range(s.count))
        lane = as_expr(self.units[s.level])
        first = lane - (lane // s.stride) % s.count * s.stride
        return f"{group:#x}u << {self.ctx.text.index.text(first, 10)}"

    def _combine(self, kind: str, cells: list[str], dtypes: list, distance: int, mask: str) -> None:
        ctx = self.ctx
        elements = [storage(d) for d in dtypes]
        if has_helper("m_shuffle_xor", self.spelling.dialect):
            for d in dtypes:  # an overload for the very type that a register has: conversions would be ambiguous
                ctx.need("m_shuffle_xor", d.name if d.kind == "bool" else storage(d))
        others = [self.spelling.shuffle.format(x=c, d=distance, mask=mask) for c in cells]
        if kind in ("argmax", "argmin"):
            t, i = ctx.text.temp(), ctx.text.temp()
            types = [ctx.element(e, False) for e in elements]
            ctx.text.add(Declaration(types[0], t, others[0], const=True))
            ctx.text.add(Declaration(types[1], i, others[1], const=True))
            sign = "max" if kind == "argmax" else "min"
            ctx.need(f"m_better_{sign}", elements[0])
            better = f"m_better_{sign}({t}, {i}, {cells[0]}, {cells[1]})"
            ctx.text.add(If(better, [ctx.text.here(Assign(cells[0], t)), ctx.text.here(Assign(cells[1], i))]))
            return
        if dtypes[0].compute != dtypes[0]:
            raise InternalError(f"a reduction over units of {dtypes[0]}; it must be in {dtypes[0].compute}")
        a, b = cells[0], others[0]
        function = _WRAPPING.get(kind) if dtypes[0].kind == "int" else None
        if function is None and kind in _INFIX:
            ctx.text.add(Assign(a, Binary(a, _INFIX[kind], b)))
            return
        ctx.need(function or f"m_{kind}", dtypes[0].name)
        ctx.text.add(Assign(a, f"{function or f'm_{kind}'}({a}, {b})"))
