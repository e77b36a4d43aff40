"""The state of one lowering: the device, the launch's units, fresh names, buffers, register shapes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from ...dsl import syntax
from ...dsl.device import Device, Instr
from ...dsl.errors import did_you_mean
from ...dsl.index.expr import Expr, Var, as_expr
from ...dsl.source import Span
from ...dsl.support.fast_replace import replace
from ...dsl.types import DType
from ..ir.free_names import numbered_name
from ..ir.schedule_tree import Materialise, Node
from ..ir.tile_ir import Buffer, Launch, Stmt
from ..plan.computations import Computation
from ..plan.derived_names import tensor_of
from ..schedule.build_tree import schedule_tree
from ..schedule.candidate import Candidate
from ..schedule.schedule_fallback import ScheduleAttempts
from ..schedule.synthetic_spans import with_spans
from .schedule_trace import ScheduleTrace


@dataclass
class UnalignedVariant:
    """State of the program for sizes for which the copies' runs are not aligned: the names that it allocated, and the copies in
    which it differs from the aligned one (buffer -> the statements that fill it there, and those that do so here)."""

    names: set[str]
    copies: dict[str, tuple[tuple[Stmt, ...], tuple[Stmt, ...]]] = field(default_factory=dict)


@dataclass
class LoweringContext:
    """Mutable, one per program. `units` and `numbers` belong to the launch being lowered."""

    device: Device
    op_name: str
    dtypes: dict[str, DType]  # of every tensor, accumulator and copy by name
    shapes: dict[str, tuple[Expr, ...]]  # of every tensor of the op
    derived: tuple[tuple[Var, Expr], ...] = ()  # sizes of the op that follow from others
    has_statistics: bool = False  # whether the op has reductions of rows, or others that are no contractions
    second_names: Mapping[str, str] = field(default_factory=dict)  # of tensors, under which lines may stage them
    nameable: frozenset[str] = frozenset()  # tensors that lines may name: none that lowering adds
    units: dict[str, Expr] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)  # given out, or not to be given out: indices, sizes, levels
    buffers: list[Buffer] = field(default_factory=list)
    launches: list[Launch] = field(default_factory=list)
    cells: dict[str, tuple[int, ...]] = field(default_factory=dict)
    owners: dict[str, tuple[object, ...]] = field(default_factory=dict)  # buffer in registers -> which unit has what of it
    first_uses: dict[str, tuple[Node, ...]] = field(default_factory=dict)  # buffer in registers -> what is above its first use
    lines_above: list[Node] = field(default_factory=list)  # what is being lowered, and the lines above it, outer ones first
    # buffer in registers that a fragment lays out -> the tiles that number registers, (index, extent, stride) of each, and the
    # units that tiles were dealt to, (index, unit, digit, stride)
    register_tiles: dict[str, tuple[tuple, tuple]] = field(default_factory=dict)
    combined_in_turn: set[str] = field(default_factory=set)  # statistics whose parts lanes combine in each iteration
    combining: frozenset[str] = frozenset()  # lockstep levels to which parts of a reduction are dealt in this launch
    reduced: dict[str, set] = field(default_factory=dict)  # accumulator -> unit digits of its reduced indices
    instrs: dict[str, Instr] = field(default_factory=dict)
    without_instr: set[Span] = field(default_factory=set)  # lines for which an instruction was chosen that cannot be used
    planned: tuple[tuple[Computation, ...], ...] = ()  # the computations of each launch, as the lines have them
    read_by_launches: frozenset[str] = frozenset()  # what launches of these read that others of them compute
    preceding_launches: list[tuple[Computation, ...]] = field(default_factory=list)  # of split reductions, as the next
    following_launches: list[tuple[Computation, ...]] = field(default_factory=list)
    filled_lines: dict[object, tuple] = field(default_factory=dict)  # key of a node -> the block that completion gives it
    filled_trees: dict[object, Node] = field(default_factory=dict)  # the same as trees, of copies
    shared_out: dict[object, Node] = field(default_factory=dict)  # key of a `keep` -> how units share out what its block leaves
    synthetic_line_numbers: Iterator[int] = field(default_factory=count)  # numbers of lines that are filled in
    notes: list[str] = field(default_factory=list)
    choices: list[Any] = field(default_factory=list)  # why completion chose what it did, a launch each
    alternatives: list[Any] = field(default_factory=list)  # what was compared: the launches of one plan with those of another
    ranked_passes: dict[tuple[Computation, ...], Any] = field(default_factory=dict)  # the candidates of launches as one pass
    whole_passes: dict[tuple[Computation, ...], list[Candidate]] = field(default_factory=dict)  # those that fit, slow ones too
    attempts: ScheduleAttempts = field(
        default_factory=ScheduleAttempts
    )  # the candidates left where a choice cannot be compiled
    online: set[object] = field(default_factory=set)  # keys of `online` tiles in which some reduction follows another one
    carrying: set[object] = field(default_factory=set)  # keys of `carry` tiles in which some reduction goes on
    paired_tiles: set[object] = field(default_factory=set)  # keys of tiles whose loops change what some `move` copies
    rotating: dict[str, int] = field(default_factory=dict)  # buffer -> how many of it there are
    trace: ScheduleTrace = field(default_factory=ScheduleTrace)  # what each line did, for people
    # Whether what is lowered is for calls whose sizes are not as vector loads of copies ask, or for the others; None: for both.
    unaligned: bool | None = None
    unaligned_variant: UnalignedVariant | None = None  # what the program for unaligned sizes has of its own, where there is one

    def copy(self, **changes: Any) -> LoweringContext:
        """For a part that is lowered once more: without what is for people."""
        mine = {name: x.copy() for name, x in self.__dict__.items() if isinstance(x, dict | set | list)}
        mine |= {"reduced": {name: digits.copy() for name, digits in self.reduced.items()}}
        mine |= {"filled_lines": {}, "filled_trees": {}, "shared_out": {}, "paired_tiles": set()}
        mine |= {"notes": [], "choices": [], "trace": ScheduleTrace()}
        return replace(self, **(mine | changes))

    def fill(self, node: Node, lines: tuple[syntax.Line, ...]) -> Node:
        """The tree of the lines that are chosen for the node's block.

        Several nests may lower one node, each with indices of its own. No block serves them all, so none is printed.
        """
        lines = with_spans(lines, self.synthetic_line_numbers)
        self.filled_lines[node.key] = lines if self.filled_lines.get(node.key, lines) == lines else ()
        tree = self.filled_trees[node.key] = schedule_tree(lines)
        return tree

    def units_to_combine(self, accumulator: str) -> list[tuple[str, int, int]]:
        """The unit digits that have partial results, inner levels first, in one order: level, stride, number of units."""
        return sorted(self.reduced.get(accumulator, ()), key=lambda x: (-self.device.depth(x[0]), *x))

    def reserve(self, name: str) -> None:
        """The name is not to be given out."""
        self.names.add(name)
        if self.unaligned_variant is not None:
            self.unaligned_variant.names.add(name)

    def forget(self, names: frozenset[str], instrs: frozenset[str]) -> None:
        """As before a part was lowered in vain: only these names are given out, and only these instructions are used."""
        for given in (self.names, *((self.unaligned_variant.names,) if self.unaligned_variant is not None else ())):
            given &= names
        for name in self.instrs.keys() - instrs:
            del self.instrs[name]

    def fresh(self, base: str) -> str:
        """A name not given out before in this program, or in both: base, base1, base2, ..."""
        apart = self.unaligned_variant.names if self.unaligned_variant is not None else set()
        name = numbered_name(base.replace(".", "_"), self.names | apart)
        self.reserve(name)
        return name

    def var(self, base: str, extent: Expr) -> Var:
        """A fresh variable for 0 .. extent-1."""
        hi = extent.interval[1]
        return Var(self.fresh(base), 0, None if hi is None else max(0, hi - 1))

    def note(self, text: str) -> None:
        """Something the author should know, once."""
        if text not in self.notes:
            self.notes.append(text)

    @property
    def size_names(self) -> frozenset[str]:
        """The names of sizes, which subscripts may have beside indices."""
        of_shapes = {v.name for shape in self.shapes.values() for e in shape for v in e.variables()}
        return frozenset(of_shapes | {v.name for v, _ in self.derived})

    def did_you_mean(self, name: str, tensors: Iterable[str]) -> str | None:
        """The help for a tensor that is none of these: one of them, where lines may name it."""
        return did_you_mean(name, self.nameable.intersection(map(tensor_of, tensors)))

    # ------------------------------------------------------------ levels

    @property
    def outermost(self) -> str:
        return self.device.levels[0].name

    @property
    def innermost(self) -> str:
        return self.device.levels[-1].name

    def below(self, outer: str, inner: str) -> tuple[str, ...]:
        """Levels strictly below `outer` down to `inner`, outermost first."""
        lo, hi = self.device.depth(outer) + 1, self.device.depth(inner)
        return tuple(level.name for level in self.device.levels[lo : hi + 1])

    def unit_var(self, level: str) -> Var:
        """The number of a unit of `level` under its parent."""
        count = self.units.get(level)
        kind = self.device.level(level)
        if kind.units == "finite":
            return Var(level, 0, None)
        hi = None if count is None or count.interval[1] is None else max(0, count.interval[1] - 1)
        return Var(level, 0, hi)

    def finite_count(self, level: str) -> Var:
        """How many units of a finite level take part (the launcher says)."""
        return Var(f"{level}s", 1, None)

    def number(self, levels: tuple[str, ...]) -> tuple[Expr, int | None]:
        """The flattened number of a unit over `levels`, and how many there are (None when symbolic)."""
        number: Expr = as_expr(0)
        total: int | None = 1
        for level in levels:
            count = self.units.get(level)
            if count is None:
                continue  # one unit
            number = number * count + self.unit_var(level)
            total = None if total is None or count.constant is None else total * count.constant
        return number, total

    def register(self, memory: str) -> bool:
        """Is this memory private to the innermost units?"""
        return self.device.is_register(memory)

    def in_registers(self, node: Materialise) -> bool:
        """Does the node hold its tile there? It does where its line names no memory."""
        return node.memory is None or self.register(node.memory)
