"""The state that all parts of the printer share while they print one launch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from ...dsl.errors import InternalError
from ...dsl.index.expr import Expr, Var, as_expr, maximum, minimum
from ...dsl.types import DType
from ..ir.program import Program
from ..ir.tile_ir import Buffer
from .c.c_expr import ATOM, ELEMENTS, SCALARS, CExpr, Helper, storage
from .c.c_tree import Declaration, Directive, For
from .c.text_builder import SourceText
from .known_facts import KnownFacts
from .lane_analysis import LaneInfo
from .lane_loop import LaneLoop
from .partial_lanes import FirstLanes, LaneMask


@dataclass
class PrintedLoop:
    """A loop that is being printed.

    step   0 if it is not a number
    stop   its variable is less than that
    names  its variable and the names computed from it
    read   what the first of the loops inside it walked over, and its variable
    next   constants of an iteration: the elements to what the next one reads, by buffer and number
    """

    var: Var
    step: int
    stop: Expr
    names: set[Var]
    read: dict[tuple[str, Expr], Var] = field(default_factory=dict)
    next: dict[tuple[str, Expr], str] = field(default_factory=dict)


@dataclass
class EmissionContext:
    """What the launch consists of, and where its printing is.

    program, lanes, buffers  what is printed           text, needs        what it becomes: statements, helper functions
    emitted_names            of buffers, in the text   cells              of register buffers: variables by coordinates
    constants                of the launch, by key     stream_limits      of stores past the caches (`streaming_stores`), and
                                                                          whether sizes decide them
    known                    of index expressions      loops              that are being printed
    sub_vector               of the lanes, where one is printed by itself
    mask                     the lanes that take part, where not all do
    lane_loop                where lanes are printed one at a time, and all is scalar
    copies_only              inside a statement that stores what it loads
    ready                    values that have been computed, by `id`: `steps_of_vectors`
    """

    program: Program
    lanes: LaneInfo
    text: SourceText
    buffers: dict[str, Buffer]
    needs: dict[Helper, None]
    emitted_names: dict[str, str] = field(default_factory=dict)
    cells: dict[str, dict[tuple[int, ...], str]] = field(default_factory=dict)
    constants: dict[tuple, str] = field(default_factory=dict)
    stream_limits: dict[str, bool] = field(default_factory=dict)
    known: KnownFacts = field(default_factory=KnownFacts)
    loops: list[PrintedLoop] = field(default_factory=list)
    sub_vector: int | None = None
    mask: LaneMask | None = None
    lane_loop: LaneLoop | None = None
    copies_only: bool = False
    ready: dict[int, CExpr] = field(default_factory=dict)

    @property
    def overflow_wraps(self) -> bool:
        """Compilers of the text are told that signed integers wrap. Elsewhere arithmetic on values is by functions that do."""
        return True

    # ------------------------------------------------------------ index expressions

    def substitute(self, e: Expr) -> Expr:
        """The expression with known values substituted, the lane counted within the sub-vector. Never applied twice."""
        if not e.terms:
            return e
        e = self.known.substitute(e)
        return e if self.sub_vector is None else self.known.substitution(e, self.lanes.counted[self.sub_vector])

    @property
    def lane(self) -> Var | None:
        """The lane's number within the vector that is being printed, which has `width` lanes."""
        return self.lanes.var if self.sub_vector is None else self.lanes.part

    @property
    def in_lane(self) -> bool:
        """Whether one lane is printed, where all is scalar."""
        return self.lane_loop is not None

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
        return e if self.lane is None else self.known.substitution(e, {self.lane: as_expr(lane)})

    def need(self, name: str, element: str = "", vector: bool = False) -> None:
        self.needs[Helper(name, element, self.width if vector else 1)] = None

    def constant(self, key: tuple, kind: str, name: str, value: Callable[[], str], note: str) -> str:
        """The name of a constant of the launch, which is declared at its top when it is first asked for."""
        if key not in self.constants:
            self.constants[key] = self.text.fresh(name, 0)
            self.text.declare(Declaration(kind, self.constants[key], value(), True, note=note), 0)
        return self.constants[key]

    def name_in_loops(self, v: Var, e: Expr) -> None:
        """`v` is a name of what is computed from names of loops."""
        for loop in self.loops:
            if not loop.names.isdisjoint(e.variables()):
                loop.names.add(v)

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
            if (hi is not None and hi < 0) or e in self.known.false:
                return [as_expr(-1)]
            if (lo is None or lo < 0) and e not in out:
                out.append(e)
        return out

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

    def declare_register(self, buffer: Buffer) -> None:
        self.emitted_names[buffer.name] = self.text.fresh(buffer.name)
        self.cells[buffer.name] = {}

    def cell(self, name: str, coords: Sequence[Expr]) -> str:
        """The variable that is this cell of a named register buffer."""
        where = [self.substitute(e) for e in coords]
        if any(e.terms for e in where):
            raise InternalError(f"the index {', '.join(map(str, coords))} of register {name} is not constant")
        return self._named(name, tuple(e.const for e in where))

    def word_and_part(self, name: str, coords: Sequence[Expr]) -> tuple[str, str] | None:
        """The variable that contains a cell of a register buffer, and which part of it; None where cells share none."""
        return None

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
    def each_lane(self, *unset: str) -> Iterator[None]:
        """`for (l = 0; l < W; l++) { ... }` with all scalar inside. `unset`: vectors without a value, which all lanes write."""
        var, body = self.lane, self.text.body
        assert var is not None
        assert not self.in_lane
        mark = len(body)
        self.lane_loop = LaneLoop(unset=set(unset))
        # edges only: unrolled, they would cost far more to compile than they could gain
        self.need("unroll")
        self.text.add(Directive("m_unroll(1)"))
        with self.text.block(lambda: partial(For, "int64_t", self.lane_text(), "0", str(self.width), "1"), var.name, var):
            yield
        body[mark:] = self.lane_loop.with_copies(body[mark:])
        self.lane_loop = None

    @contextmanager
    def one_lane(self, lane: int) -> Iterator[None]:
        """All scalar, for one lane whose number is known."""
        assert self.lanes.var is not None
        loop, values, share = self.lane_loop, self.known.values, self.sub_vector
        if self.sub_vectors > 1:
            self.sub_vector = share or 0
        self.lane_loop = LaneLoop(lane)
        here = {self.lanes.var: as_expr((self.sub_vector or 0) * self.width + lane)}
        # names stand for what the lane is part of
        self.known.values = {v: self.known.substitution(e, here) for v, e in values.items()} | here
        yield
        self.lane_loop, self.known.values, self.sub_vector = loop, values, share

    def lane_text(self) -> str:
        """The number of the lane, in a loop over lanes."""
        assert self.lane is not None
        assert self.lane_loop is not None
        fixed = self.lane_loop.fixed
        return self.text.index.atom(self.lane, 0) if fixed is None else str(fixed)

    def lane_of(self, vector: str, kind: str, write: bool = False) -> str:
        """An element of a vector variable, in a loop over lanes."""
        assert self.lane_loop is not None
        return self.lane_loop.element(vector, kind, self.lane_text(), write)
