"""The state that all parts of the printer share while they print one launch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from ...dsl.device import Instr
from ...dsl.errors import InternalError
from ...dsl.index.expr import Expr, Var, as_expr, maximum, minimum
from ...dsl.types import DType
from ..ir.program import Program
from ..ir.tile_ir import Buffer
from .c.c_expr import ATOM, ELEMENTS, SCALARS, CExpr, Helper, storage
from .c.c_tree import Assign, Block, Declaration, Directive, ExprStatement, For, If, Statement
from .c.memo_substitution import MemoSubstitution
from .c.text_builder import SourceText, TextScope
from .lane_analysis import LaneInfo
from .partial_lanes import FirstLanes, LaneMask


@dataclass
class PrintedLoop:
    """A loop that is being printed; `names`: its variable and the names computed from it. `step` is 0 if it is not a number."""

    var: Var
    step: int
    names: set[Var]


@dataclass
class EmissionContext:
    """`env`: what unrolled loops and plain Lets stand for. `in_lane`: inside a loop over lanes, where all is scalar."""

    program: Program
    lanes: LaneInfo
    text: SourceText
    buffers: dict[str, Buffer]
    needs: dict[Helper, None]
    env: dict[Var, Expr] = field(default_factory=dict)
    sub_vector: int | None = None  # which one, while that is so
    in_lane: bool = False
    fixed_lane: int | None = None  # with in_lane: not a loop, this one lane
    mask: LaneMask | None = None  # the lanes that take part, where not all do
    cells: dict[str, dict[tuple[int, ...], str]] = field(default_factory=dict)
    substitution: MemoSubstitution = field(default_factory=MemoSubstitution)
    emitted_names: dict[str, str] = field(default_factory=dict)  # buffer -> its name in the text
    copies: dict[str, tuple[str, str]] = field(default_factory=dict)  # vector -> (its copy in the lane loop, type)
    false: tuple[Expr, ...] = ()  # conditions that are known not to hold here
    unset: set[str] = field(default_factory=set)  # temporaries, which every lane writes
    written: set[str] = field(default_factory=set)  # vectors whose copies are written
    pays: dict[str, str] = field(default_factory=dict)  # what tells where instructions that store are taken
    caches: int = 0  # bytes that the largest cache of a core holds, where memory is asked ahead for what it does not hold
    loops: list[PrintedLoop] = field(default_factory=list)  # that are being printed
    copies_only: bool = False  # inside a statement that stores what it loads
    prefetched: dict[str, str] = field(default_factory=dict)  # what tells how far ahead
    stored_with: set[str] = field(default_factory=set)  # such instructions
    packed: dict[str, int] = field(default_factory=dict)  # register buffer -> elements that share a 32-bit variable

    # ------------------------------------------------------------ index expressions

    def substitute(self, e: Expr) -> Expr:
        """The expression with known values substituted, the lane counted within the sub-vector. Never applied twice."""
        if not e.terms:
            return e
        e = self.substitution(e, self.env)
        return e if self.sub_vector is None else self.substitution(e, self.lanes.counted[self.sub_vector])

    @property
    def lane(self) -> Var | None:
        """The lane's number within the vector that is being printed, which has `width` lanes."""
        return self.lanes.var if self.sub_vector is None else self.lanes.part

    @property
    def sub_vectors(self) -> int:
        """Hardware vectors that the lanes take."""
        return self.lanes.sub_vectors

    @property
    def width(self) -> int:
        """Lanes of one vector; of all, where no share is being printed."""
        return self.lanes.width if self.sub_vector is None else self.lanes.width // self.sub_vectors

    @contextmanager
    def in_sub_vector(self, share: int) -> Iterator[None]:
        before, self.sub_vector = self.sub_vector, share
        yield
        self.sub_vector = before

    @contextmanager
    def masked(self, mask: LaneMask) -> Iterator[None]:
        """Where only some lanes take part."""
        before, self.mask = self.mask, mask
        try:
            yield
        finally:
            self.mask = before

    @property
    def first_lanes(self) -> CExpr | None:
        """The number of lanes that take part, if it is the first ones and not all do."""
        return self.mask.count if isinstance(self.mask, FirstLanes) else None

    def index_text(self, e: Expr) -> str:
        """An index expression as an operand."""
        return self.text.index.text(self.substitute(e), ATOM)

    def varies(self, e: Expr) -> bool:
        return not self.in_lane and self.lane in e.variables()

    def at_lane(self, e: Expr, lane: int) -> Expr:
        return e if self.lane is None else self.substitution(e, {self.lane: as_expr(lane)})

    def need(self, name: str, element: str = "", vector: bool = False) -> None:
        self.needs[Helper(name, element, self.width if vector else 1)] = None

    def storing(self, using: str, dtype: DType) -> Instr | None:
        """The instruction of that name or family that stores one vector of `dtype`."""
        for i in self.program.instrs:
            target = i.operand(i.statement.target)
            if using in (i.name, i.family) and target.dtype == dtype and target.shape == (self.width,):
                self.need(f"instr:{i.name}", "", True)
                self.need(f"put:{i.name}", "", True)
                self.stored_with.add(i.name)
                return i
        return None

    def fence(self) -> Statement:
        """The statement after which others see what such instructions stored."""
        told = all(i.operand(i.statement.target).least for i in self.program.instrs if i.name in self.stored_with)
        low = " & ".join(self.pays.values())
        fence = ExprStatement("__atomic_thread_fence(__ATOMIC_SEQ_CST)", "others see what went past the caches")
        taken = f"{f'({low})' if len(self.pays) > 1 else low} != UINTPTR_MAX"
        return If(taken, [fence], short=True) if told else fence

    # ------------------------------------------------------------ types

    def int_type(self, var: Var, e: Expr) -> str:
        """The C type of `var`, whose values are those of `e`."""
        return "int64_t"

    def element(self, element: str, vector: bool) -> str:
        """The C type of plain elements (`storage` names), a vector of which has one a lane."""
        if not vector:
            return ELEMENTS[element]
        self.need("vector", element, True)
        return f"{element}x{self.width}"

    def ctype(self, dtype: DType, vector: bool, mask: int = 0) -> str:
        """The C type of a value of a compute type."""
        if mask:
            return self.element(f"i{mask}", True)
        if dtype.kind == "bool":
            return "bool"
        return self.element(dtype.name, vector) if vector else SCALARS[dtype.name]

    def register_type(self, buffer: Buffer, vector: bool) -> str:
        """Of one cell: as in memory, but bools are masks (a lane each) or `bool`."""
        if buffer.dtype.kind == "bool":
            return self.element("i32", True) if vector else "bool"
        return self.element(storage(buffer.dtype), vector)

    # ------------------------------------------------------------ conditions

    def live(self, conds: Sequence[Expr]) -> list[Expr]:
        """Conditions that are not plainly true; [-1] stands for false."""
        out: list[Expr] = []
        for c in conds:
            e = self.substitute(c)
            lo, hi = e.interval
            if (hi is not None and hi < 0) or e in self.false:
                return [as_expr(-1)]
            if (lo is None or lo < 0) and e not in out:
                out.append(e)
        return out

    @contextmanager
    def assuming_false(self, conds: Sequence[Expr]) -> Iterator[None]:
        """Where not all of the conditions hold."""
        before = self.false
        self.false = (*before, *conds) if len(conds) == 1 else before
        yield
        self.false = before

    @contextmanager
    def assuming_unknown(self, var: Var) -> Iterator[None]:
        """Where a variable takes another value."""
        before = self.false
        self.false = tuple(e for e in before if var not in e.variables())
        yield
        self.false = before

    def condition(self, conds: Sequence[Expr]) -> str:
        return " && ".join([self.text.index.once(e, self._compare) for e in conds]) if conds else "true"

    def _compare(self, e: Expr) -> str:
        if not e.terms:
            return "true" if e.const >= 0 else "false"
        plus = [(a, c) for a, c in e.terms if c > 0]
        minus = [(a, -c) for a, c in e.terms if c < 0]
        show, k = self.text.index.terms, e.const
        if not minus:
            return f"{show(plus, 0)} > {-k - 1}" if k == -1 else f"{show(plus, 0)} >= {-k}"
        if not plus:
            return f"{show(minus, 0)} <= {k}"
        if k == -1:
            return f"{show(minus, 0)} < {show(plus, 0)}"
        return f"{show(minus, -k)} <= {show(plus, 0)}" if k < 0 else f"{show(minus, 0)} <= {show(plus, k)}"

    def in_all_lanes(self, conds: Sequence[Expr]) -> list[Expr] | None:
        """Conditions, the same for all lanes, that hold when `conds` hold in every lane; None if there is no simple one."""
        var, last = self.lane, self.width - 1
        out: list[Expr] = []
        for e in conds:
            if var is None or not self.varies(e):
                out.append(e)
                continue
            worst = self.at_lane(e, last if e.coefficient(var) < 0 else 0)
            linear = e - e.coefficient(var) * var
            if var in linear.variables():
                return None
            out.append(worst)
        return self.live(out)

    def prefix(self, conds: Sequence[Expr]) -> Expr | None:
        """How many lanes, the first ones, conditions hold in (it may be negative or exceed the width); None if not so."""
        var = self.lane
        counts = []
        for e in conds:
            step = e.coefficient(var) if var is not None else 0
            rest = e if var is None else e - step * var
            if step >= 0 or var in rest.variables():
                return None
            counts.append(rest // -step + 1)
        return minimum(*counts) if counts else None

    def lane_interval(self, conds: Sequence[Expr]) -> tuple[Expr, Expr] | None:
        """The first lane that conditions hold in, and the one after the last (either may lie outside); None if not so."""
        var = self.lane
        first, stop = [as_expr(0)], [as_expr(self.width)]
        for e in conds:
            step = e.coefficient(var) if var is not None else 0
            rest = e if var is None else e - step * var
            if not step or var in rest.variables():
                return None
            (first if step > 0 else stop).append(-(rest // step) if step > 0 else rest // -step + 1)
        return maximum(*first), minimum(*stop)

    # ------------------------------------------------------------ registers

    def declare_register(self, buffer: Buffer, scope: TextScope) -> None:
        self.emitted_names[buffer.name] = self.text.fresh(buffer.name)
        self.cells[buffer.name] = {}

    def cell(self, name: str, coords: Sequence[Expr]) -> str:
        """The variable that is this cell of a named register buffer."""
        return self._named(name, self._numbers(name, coords))

    def word(self, name: str, coords: Sequence[Expr]) -> str:
        """The variable that contains a cell of a packed register buffer."""
        raise InternalError(f"the elements of {name} share words, which have no names here")

    def part_of_word(self, name: str, coords: Sequence[Expr]) -> str:
        """Which part of that variable it is."""
        raise InternalError(f"the elements of {name} share words, which have no names here")

    def _numbers(self, name: str, coords: Sequence[Expr]) -> tuple[int, ...]:
        """The coordinates of a named register buffer, as numbers."""
        env = self.env
        out: list[int] = []
        for e in coords:
            n = e.const
            for a, c in e.terms:
                if type(a) is not Var or a not in env or env[a].terms:
                    e = self.substitute(e)
                    if e.terms:
                        raise InternalError(f"the index {', '.join(map(str, coords))} of register {name} is not constant")
                    n = e.const
                    break
                n += c * env[a].const
            out.append(n)
        return tuple(out)

    def _named(self, name: str, where: tuple[int, ...]) -> str:
        cells = self.cells[name]
        shared = self.sub_vectors > 1 and not self.lanes.registers[name].uniform
        if shared:
            if self.sub_vector is None:
                raise InternalError(f"register {name} differs between lanes, but no lane is selected")
            where = (*where, self.sub_vector)
        found = cells.get(where)
        if found is None:
            suffix = "".join([f"_{c}" if c >= 0 else f"_m{-c}" for c in where])
            single = self.lanes.registers[name].buffer.size.constant == 1 and not shared
            found = cells[where] = self.emitted_names[name] + ("" if single else suffix)
        return found

    # ------------------------------------------------------------ loops over lanes

    @contextmanager
    def each_lane(self) -> Iterator[str]:
        """`for (l = 0; l < W; l++) { ... }` with all scalar inside.

        A vector that is indexed by a variable must live in memory, for gcc through its whole life; so lanes are read and
        written in copies, and the vectors proper stay in registers.
        """
        var, width = self.lane, self.width
        assert var is not None
        assert not self.in_lane
        body = self.text.body
        mark = len(body)
        self.in_lane, self.copies, self.written = True, {}, set()

        def name() -> str:
            return self.text.index.atom(var, 0)

        # edges only: unrolled, they would cost far more to compile than they could gain
        self.need("unroll")
        self.text.add(Directive("m_unroll(1)"))
        with self.text.block(lambda: partial(For, "int64_t", name(), "0", str(width), "1"), var.name, var):
            yield name()
        if self.copies:
            before = [
                Declaration(kind, copy, None if vector in self.unset else vector)
                for vector, (copy, kind) in self.copies.items()
            ]
            after = [Assign(vector, copy) for vector, (copy, _) in self.copies.items() if vector in self.written]
            body[mark:] = [Block([*before, *body[mark:], *after])]
        self.in_lane, self.copies = False, {}

    @contextmanager
    def one_lane(self, lane: int) -> Iterator[None]:
        """All scalar, for one lane whose number is known."""
        assert self.lanes.var is not None
        share = self.sub_vector
        if self.sub_vectors > 1:
            self.sub_vector = share or 0
        self.in_lane, self.fixed_lane = True, lane
        before, here = self.env, {self.lanes.var: as_expr((self.sub_vector or 0) * self.width + lane)}
        self.env = {v: self.substitution(e, here) for v, e in before.items()} | here  # names stand for what the lane is part of
        yield
        self.env = before
        self.in_lane, self.fixed_lane = False, None
        self.sub_vector = share

    def declare_lane_register(self, name: str) -> None:
        """A register whose life is inside the loop over lanes: its copies are all there is of it."""
        cells = set(self.cells[name].values())
        self.unset |= cells
        self.written -= cells

    def lane_of(self, vector: str, kind: str, write: bool = False) -> str:
        """An element of a vector variable, in a loop over lanes."""
        assert self.lane is not None
        if self.fixed_lane is not None:
            return f"{vector}[{self.fixed_lane}]"
        copy, _ = self.copies.setdefault(vector, (f"{vector}_l", kind))
        if write:
            self.written.add(vector)
        return f"{copy}[{self.text.index.atom(self.lane, 0)}]"
