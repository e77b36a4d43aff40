"""The model of a matrix product on a CPU: the index along the vector, the operand that has it, batched indices.

    C[.., m, n] = sum(k) narrow[.., m, k] * wide[.., k, n]        n: along the lanes of the multiply-add

All of it is read from the computation and the instructions of the device (law: hardware is data); no name is tested.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod

from ....dsl.device import Device, Instr, Level
from ....dsl.index.expr import ONE, ZERO, Expr, Var, as_expr
from ....dsl.support.cached import cached_property
from ....dsl.types import DType
from ....dsl.values import Load, loads
from ...lower.leaves.match_instr import InstrMatch, best_match
from ...plan.computations import Computation, fused_name, plain_index
from ...plan.derived_names import StagedCopy
from ..machine_model import core_level
from ..representative_sizes import TYPICAL, WINDOW, typical_extent

# elements: a side of an image at which convolutions of open sizes are judged [estimate; test_first_candidates]
IMAGE = 56
# elements: channels of an image, and filters, at which convolutions of open sizes are judged [estimate; test_first_candidates]
CHANNELS = 128


@dataclass(frozen=True)
class MatmulModel:
    """One contraction that a multiply-add of the device does, with plain subscripts, one row index and one reduced index."""

    name: str
    match: InstrMatch
    wide: Load
    narrow: Load
    m: str
    n: str
    k: str
    batch: tuple[str, ...]
    extents: dict[str, Expr]
    dtype: DType
    fused: tuple[tuple[str, tuple[str, ...]], ...] = ()  # of m, n, k, those that stand for several indices
    shapes: Mapping[str, tuple[Expr, ...]] = field(default_factory=dict)  # of the tensors, where they are told
    turn: InstrMatch | None = None  # what turns squares of the wide operand in registers, where it lies along k

    @property
    def instr(self) -> Instr:
        return self.match.instr

    @property
    def lanes(self) -> int:
        return self.match.extents()[self.instr.statement.indices[0]]

    @property
    def step(self) -> int:
        """Products that the instruction adds itself: of neighbours along a reduced index."""
        reduction = self.instr.statement.reduction
        return self.match.extents()[reduction.indices[0]] if reduction is not None else 1

    @property
    def scratch_registers(self) -> int:
        """Registers besides those of results and of the wide operand: one element of the narrow operand in all lanes, and for
        an instruction that adds several products itself their sum, before it is added to the result."""
        return 1 if self.step == 1 else 2

    @property
    def rate(self) -> float:
        """Multiplications a cycle."""
        return self.lanes * self.step / (self.instr.cycles or 0.5)

    def plain(self, load: Load) -> bool:
        """Is the operand read by single indices, everywhere inside, or as if it were? Else its elements are gathered."""
        return (not self.fused and _plain(load)) or (load is self.wide and self.flat)

    @cached_property
    def flat(self) -> bool:
        """Are the windows the image itself, its lines one after another? So they are for filters of one element."""
        return self.stride(self.wide, self.n) == 1 and self.windows_lie_inside

    @cached_property
    def windows_lie_inside(self) -> bool:
        """Whether all windows are inside the image, as far as sizes tell."""
        shape = self.shapes.get(self.wide.tensor, ())
        for e, size in zip(self.wide.indices, shape, strict=False):
            ends = {Var(i): n - 1 for i, n in self.extents.items() if Var(i) in e.variables()}
            beyond = (size - e.subs(ends)).interval[0]
            if e.subs(dict.fromkeys(ends, 0)).const < 0 or beyond is None or beyond < 1:
                return False
        return bool(shape)

    def stride(self, load: Load, index: str) -> int | None:
        """The constant number of elements from one value of an index to the next, if it is known."""
        steps: list[tuple[Expr, Expr]] = []
        for part in self.component_indices(index):
            if self.fixed_extent(part) == 1:
                continue
            total, step = ZERO, ONE
            for e, size in reversed(list(zip(load.indices, self.shapes.get(load.tensor, ()), strict=False))):
                total += step * e.coefficient(Var(part))
                step *= size
            steps.append((total, self.extents[part]))
        if any(step != within * n for (step, _), (within, n) in pairwise(steps)):
            return None
        return steps[-1][0].constant or None if steps else 1

    @property
    def has_plain_operands(self) -> bool:
        """Are both operands read by single indices, none of them a window?"""
        return _plain(self.wide) and _plain(self.narrow)

    def is_contiguous_along(self, load: Load, index: str) -> bool:
        """Whether the operand is contiguous in the index."""
        last = dict(self.fused).get(index, (index,))[-1]
        return load.indices[-1].coefficient(Var(last)) == 1

    @property
    def rows_are_windows(self) -> bool:
        """Are the rows windows of the narrow operand, as where channels are last?"""
        return not _plain(self.narrow)

    def axes(self, load: Load) -> tuple[str, ...]:
        """What the axes of a copy of an operand are called: by the indices that it has, or its own where these are windows."""
        return tuple(plain_index(e) or f"{load.tensor}.{d}" for d, e in enumerate(load.indices))

    def fused_axes(self, load: Load) -> tuple[str, ...]:
        """What they are called where some of the indices became one: by the indices of the product."""
        alias = {part: name for name, parts in self.fused for part in parts}
        names = (v.name for e in load.indices for v in sorted(e.variables(), key=str))
        return tuple(dict.fromkeys(alias.get(n, n) for n in names))

    def component_indices(self, index: str) -> tuple[str, ...]:
        """The indices that one stands for."""
        return dict(self.fused).get(index, (index,))

    @property
    def plain_reduced_index(self) -> str | None:
        """The reduced index that both operands have as an axis of its own: it may be cut without cutting windows."""
        both = (self.wide, self.narrow)
        return next((i for i in self.component_indices(self.k) if all(as_expr(Var(i)) in load.indices for load in both)), None)

    @property
    def plain_reduced_extent(self) -> int:
        return self.typical_extents[self.plain_reduced_index] if self.plain_reduced_index is not None else 1

    @cached_property
    def filter_indices(self) -> tuple[str, ...]:
        """The reduced indices of windows: points of a filter."""
        deep = self.plain_reduced_index
        return () if self.has_plain_operands else tuple(i for i in self.component_indices(self.k) if i != deep)

    @property
    def filters_are_bounded(self) -> bool:
        return all(self.largest_extent(i) is not None for i in self.filter_indices)

    @property
    def column_step(self) -> int:
        """By how many columns of the image windows that are neighbours are apart; 0 if that is no number."""
        return self.wide.indices[-1].coefficient(Var(self.component_indices(self.n)[-1]))

    @property
    def windows_are_points(self) -> bool:
        return all(self.fixed_extent(i) == 1 for i in self.filter_indices)

    @property
    def line(self) -> str:
        """The last of the indices that are iterated one by one: the lines, if rows are windows."""
        return self.batch[-1] if self.batch else ""

    @property
    def lines(self) -> int:
        return self.typical_extents[self.line] if self.line else 1

    def elements_read(self, load: Load, tiles: Mapping[str, int]) -> int:
        """Elements of an operand in the box that tiles read; of indices without a tile all if they are reduced, else one. Open
        filters have their typical size."""
        reduced = self.component_indices(self.k)
        extents = {i: tiles.get(i, self.typical_extents[i] if i in reduced else 1) for i in self.extents}
        return prod(1 + sum(abs(c) * (extents.get(str(a), 1) - 1) for a, c in e.terms) for e in load.indices)

    @cached_property
    def image(self) -> tuple[int, int]:
        """Lines, and columns of one line."""
        *others, last = self.component_indices(self.n)
        return self.typical_extents[others[-1]] if others else 1, self.typical_extents[last]

    def window(self, lines: int, columns: int, depth: int | None, filters: Mapping[str, int] | None = None) -> int:
        """Elements of the wide operand that so many lines and columns of results read, and so many of the deep index."""
        *others, last = self.component_indices(self.n)
        tiles = {last: columns, **dict.fromkeys(others[-1:], lines)}
        deep = {self.plain_reduced_index: depth} if self.plain_reduced_index is not None and depth is not None else {}
        if self.windows_are_points and self.column_step > 1:
            return columns * lines * prod(deep.values())
        return self.elements_read(self.wide, {**tiles, **deep, **(filters or {})})

    def largest_window(self, lines: int, columns: int, depth: int | None) -> int:
        """The same with the largest filters."""
        return self.window(lines, columns, depth, {i: self.largest_extent(i) or 1 for i in self.filter_indices})

    def largest_filters(self, rows: int, depth: int) -> int:
        """Elements of so many filters, and of so many channels of each."""
        return rows * depth * prod(self.largest_extent(i) or 1 for i in self.filter_indices)

    @property
    def wide_transposed(self) -> bool:
        return not self.is_contiguous_along(self.wide, self.n)

    def largest_extent(self, index: str) -> int | None:
        """The largest extent of an index that is known."""
        return self.extents[index].interval[1]

    def fixed_extent(self, index: str) -> int | None:
        return self.extents[index].constant

    @cached_property
    def typical_extents(self) -> dict[str, int]:
        """Extents of all indices, at which blockings are priced."""
        if self.has_plain_operands:
            return {i: typical_extent(e) for i, e in self.extents.items()}
        image = (self.line, self.m) if self.rows_are_windows else self.component_indices(self.n)
        side = typical_extent(self.extents[image[-1]], IMAGE)  # images have as many lines as columns
        channels = (self.n if self.rows_are_windows else self.m, self.k)
        typical = dict.fromkeys((part for i in channels for part in self.component_indices(i)), CHANNELS)
        typical |= dict.fromkeys(image, side) | dict.fromkeys(self.filter_indices, WINDOW)
        out = {i: typical_extent(e, typical.get(i, TYPICAL)) for i, e in self.extents.items()}
        return out | {name: prod(out[part] for part in parts) for name, parts in self.fused}


def matmul_of(
    device: Device, computation: Computation, shapes: Mapping[str, tuple[Expr, ...]] | None = None
) -> MatmulModel | None:
    """None for what is no such product.

    shapes      of the tensors, for what strides cost

    Indices of one kind that are several become one: those that only one operand has, and the reduced ones. So a convolution is
    the product of its filters and its windows.
    """
    found = operands_of(device, computation)
    if found is None:
        return None
    m, n, wide, narrow, rows = found
    extents = dict(computation.extents)
    columns = tuple(i for i in computation.indices if i != n and _has(wide, i) and not _has(narrow, i))
    kinds = (rows, (*columns, n), computation.reduced)
    if all(len(kind) == 1 for kind in kinds) and _plain(wide) and _plain(narrow):
        k = computation.reduced[0]
        if not any(wide.indices[-1].coefficient(Var(i)) == 1 for i in (n, k)):
            return None
        batch = tuple(i for i in computation.indices if i not in (n, *rows))
        turn = _turning(device, wide, n, k, extents) if wide.indices[-1].coefficient(Var(k)) == 1 else None
        return MatmulModel(
            computation.result, m, wide, narrow, rows[0], n, k, batch, extents, wide.dtype, (), shapes or {}, turn
        )
    reduced = (fused_name(computation.reduced),)
    if computation.indices[-1] == n and columns == () and _plain(wide) and not _plain(narrow):
        # Windows of the narrow operand: the last of its indices makes rows, others are done one by one.
        extents |= {i: prod((extents[x] for x in computation.reduced), start=ONE) for i in reduced}
        sums = ((reduced[0], computation.reduced),) if len(computation.reduced) > 1 else ()
        batch = tuple(i for i in computation.indices if i not in (n, rows[-1]))
        row = rows[-1]
        return MatmulModel(
            computation.result, m, wide, narrow, row, n, reduced[0], batch, extents, wide.dtype, sums, shapes or {}
        )
    # Results that are neighbours stay so: only the last indices of the result become columns, others are done one by one.
    if computation.indices[-1] != n or len(rows) != 1 or not _plain(narrow):
        return None
    last = len(computation.indices)
    while last and computation.indices[last - 1] in kinds[1]:
        last -= 1
    taken = {wide.tensor, narrow.tensor, computation.name, *extents, *(v.name for e in extents.values() for v in e.variables())}
    taken |= {x.name for x in device.levels} | {x.name for x in device.memories}
    fused: list[tuple[str, tuple[str, ...]]] = []
    names: list[str] = []
    for kind in (rows, computation.indices[last:], computation.reduced):
        name = fused_name(kind)
        if len(kind) > 1:
            if name in taken:
                return None
            fused.append((name, kind))
            extents[name] = prod((extents[i] for i in kind), start=ONE)
        names.append(name)
    batch = tuple(i for i in computation.indices[:last] if i not in rows)
    row, column, k = names
    return MatmulModel(
        computation.result, m, wide, narrow, row, column, k, batch, extents, wide.dtype, tuple(fused), shapes or {}
    )


def _turning(device: Device, wide: Load, n: str, k: str, extents: dict[str, Expr]) -> InstrMatch | None:
    cores = core_level(device)
    copy = Computation(StagedCopy(wide.tensor), (k, n), wide, None, tuple(extents.items()))
    return square_transpose(device, copy, {n, k}, cores) if cores is not None else None


def square_transpose(device: Device, copy: Computation, both: set[str], cores: Level) -> InstrMatch | None:
    """The instruction of a core that transposes a square in registers, for a copy that exchanges two indices."""
    found = [m for i in device.instrs if i.level == cores.name and not i.accumulate and (m := best_match(i, copy)) is not None]
    whole = [
        m for m in found if {x for _, x in m.index} == both and all(device.is_register(o.memory) for o in m.instr.operands)
    ]
    return max(whole, key=lambda m: m.score, default=None)


def operands_of(device: Device, computation: Computation) -> tuple[InstrMatch, str, Load, Load, tuple[str, ...]] | None:
    """The multiply-add, the index along its lanes, the operand that has it, the other one, and the indices of only that one. It
    may add several products to each element of its result, which are neighbours along one reduced index.

    None if there is no such instruction, an operand is computed, or all of it is read once: a matrix by a vector, but not
    windows of it.
    """
    m = fma_of(device, computation)
    if m is None or len(m.instr.statement.indices) != 1 or not computation.reduced:
        return None
    n = dict(m.index)[m.instr.statement.indices[0]]
    values = [v for _, v in m.operands]
    wide = next((v for v in values if _has(v, n)), None)
    narrow = next((v for v in values if not _has(v, n)), None)
    if not isinstance(wide, Load) or not isinstance(narrow, Load):
        return None
    rows = tuple(i for i in computation.indices if i != n and _has(narrow, i) and not _has(wide, i))
    return (m, n, wide, narrow, rows) if rows or not _plain(wide) else None


def fma_of(device: Device, computation: Computation) -> InstrMatch | None:
    """The best multiply-add instruction for a sum of products."""
    if computation.reduction is None or computation.reduction.kind != "sum":
        return None
    found = [m for i in device.instrs if i.accumulate and (m := best_match(i, computation)) is not None]
    return max(found, key=lambda m: m.score, default=None)


def _has(v, index: str) -> bool:
    return any(x.name == index for ld in loads(v) for e in ld.indices for x in e.variables())


def _plain(load: Load) -> bool:
    return load.otherwise is None and all(e.atom is not None for e in load.indices)
