"""Layouts of a staged operand in shared memory: an order, a pad or a swizzle, and accesses of warps without bank conflicts.

A memory of banks serves one word of each bank in a cycle. Lanes that address different words of one bank wait for each other,
so a tile that is read along another axis can take many times as long. The cycles of each layout are counted; none is preferred
by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd, log2, prod

import numpy as np

from ....dsl import syntax
from ....dsl.device import Instr, Operand
from ....dsl.fragment import FragmentLayout
from ....dsl.index.expr import Var, as_expr
from ....dsl.layout import Layout
from ....dsl.support.fast_replace import replace
from ....dsl.values import Load, loads
from ...analysis.bank_conflicts import access_cycles
from ...ir.limits import WIDEST_ACCESS
from ...lower.copies.turned_copy import MOST
from ...lower.leaves.fragment_fit import fragment_values, same_fragment
from ...lower.leaves.match_instr import InstrMatch, all_matches, fragment_map, own_fragment
from ...lower.lowering_context import LoweringContext
from ...plan.computations import Computation, plain_index
from ...plan.derived_names import StagedCopy
from ..access_model import AccessModel
from ..instr_mappings import InstrMapping
from ..machine_model import MachineModel
from .computed_operands import ElementCost

# instructions: of an address calculation that costs no register, because the next differs by a constant [estimate;
# test_first_candidates]
PLAIN = 4

PADS = (4, 8, 16, 32)  # bytes: after a row of a staged copy [tried; test_first_candidates]


@dataclass(frozen=True)
class StagedOperand:
    """One operand. `free`: its axis that is not reduced; `inner`: the axis with neighbours in the staged copy.

    modifiers   of the line that stages it              pad        elements added to each row of the copy
    load        the instruction that loads its fragments to registers, or None
    cycles      of the staging memory that a group takes to read a fragment (of a scalar body: a row of `free`, per element)
    reads       instructions that it takes              calc       instructions for the address of what is copied at once
    vector      elements that the copy loads at once    stored     and that it stores
    copiers     instructions that copy it without registers, with the elements of each, the widest first
    """

    access: AccessModel
    free: str
    inner: str
    modifiers: tuple[syntax.Modifier, ...]
    pad: int
    load: str | None
    cycles: float
    reads: float
    vector: int
    stored: int
    calc: int
    copiers: tuple[tuple[Instr, int], ...]

    @property
    def counted(self) -> tuple:
        """All that its cost follows from, but for the tile."""
        return (
            self.free,
            self.inner,
            self.pad,
            self.cycles,
            self.reads,
            self.calc,
            self.vector,
            self.stored,
            self.asynchronous,
        )

    @property
    def asynchronous(self) -> bool:
        return bool(self.copiers)

    def line(self, memory: str, row: int) -> syntax.Move:
        """The line that stages it, where rows of the copy are that long."""
        run = self.access.fused_run[1] if self.access.fused_run is not None else row
        fits = [(i, n) for i, n in self.copiers if row % n == 0]
        aligned = next((i for i, n in fits if self.pad % n == 0 and run % n == 0), None)  # none goes on in another run
        words: tuple[syntax.Modifier, ...] = ()
        if aligned is not None:  # by the family's name, where that means this one
            words = (
                syntax.Modifier("with", words=(aligned.family or aligned.name if aligned is fits[0][0] else aligned.name,)),
            )
        return syntax.Move(self.access.tensor, memory, modifiers=(*self.modifiers, *words))


# ---------------------------------------------------------------- orders


def staged_axes(computation: Computation, load: Load) -> tuple[str, ...] | None:
    """Names of a staged copy's axes in their natural order; None where one has no name to write (a box of several indices)."""
    alias = computation.alias
    names = [v.name for e in load.indices for v in sorted(e.variables(), key=lambda v: v.name)]
    names = [n for n in names if alias.get(n, n) in computation.all_indices]
    if any(n in alias for n in names):
        return tuple(dict.fromkeys(alias.get(n, n) for n in names))
    plain = [plain_index(e) for e in load.indices]
    return None if None in plain else tuple(p for p in plain if p is not None)


def _modifiers(natural: tuple[str, ...] | None, outer: str, inner: str) -> tuple[syntax.Modifier, ...] | None:
    """The modifiers that order a copy so that `inner` is last and `outer` before it; None if that cannot be written."""
    if natural is None:
        return None
    order = (*(a for a in natural if a not in (outer, inner)), *(a for a in (outer, inner) if a in natural))
    if order == natural:
        return ()
    return (syntax.Modifier("layout", tuple(syntax.Name(a) for a in order)),)


# ---------------------------------------------------------------- choosing


Orders = dict[str, "tuple[tuple[StagedOperand, Operand | None], ...]"]  # tensor -> its layouts, the same for all depths


def best_staging(
    ctx: LoweringContext,
    machine: MachineModel,
    mapping: InstrMapping,
    access: AccessModel,
    depth: int,
    orders: Orders,
    made: ElementCost | None = None,
    inner: str | None = None,
) -> StagedOperand | None:
    """The best layout of a staged operand with tiles `depth` deep along k; None if it cannot be staged.

    `inner`: the axis with neighbours, where the layout is another reader's, too.

    `made`: it is computed where it is staged, so that no instruction copies it. What is only converted, or made of windows, is
    loaded and stored by vectors along its source's neighbours; anything else element by element.
    """
    if access.tensor not in orders:
        orders[access.tensor] = tuple(_orders(ctx, machine, mapping, access))
    found = [_deep(machine, mapping, s, o, depth) for s, o in orders[access.tensor] if inner in (None, s.inner)]
    along, by_vectors = _near(mapping, access), False
    if made is not None and (
        made.converted or made.in_vectors
    ):  # no unit turns it (`turned_copy`): along another axis its stores are single
        best = min(found, key=lambda s: (s.cycles, s.inner != along, _effort(s)), default=None)
        by_vectors = best is not None and best.inner == along
    else:
        best = min(found, key=_effort, default=None)
    if best is None or made is None:
        return best
    return replace(best, copiers=()) if by_vectors else replace(best, copiers=(), vector=1, stored=1)


def _orders(
    ctx: LoweringContext, machine: MachineModel, mapping: InstrMapping, access: AccessModel
) -> Iterator[tuple[StagedOperand, Operand | None]]:
    """The ways to order a staged operand, and the operand of a group's instruction that it is: then how it is read is open."""
    computation = mapping.computation
    frees = [a for a in (mapping.m, mapping.n) if a in access.axes]
    if mapping.k not in access.axes or len(frees) != 1 or not access.can_be_staged:
        return
    load = next(ld for ld in loads(computation.value) if ld.tensor == access.tensor)
    natural, operand = staged_axes(computation, load), _operand(mapping, access)
    loaders = [] if operand is None else _loaders(ctx, machine, mapping, access, load, operand)
    for inner in (mapping.k, frees[0]):
        outer = frees[0] if inner == mapping.k else mapping.k
        order = _modifiers(natural, outer, inner)
        if order is None:  # as it lies
            if inner != access.fast:
                continue
            order = ()
        staged = _ordered(ctx, machine, mapping, access, frees[0], inner, order)
        if operand is None:
            size, along_k = access.dtype.bytes, inner == mapping.k
            yield _read(staged, *_scalar(machine, mapping, size, along_k, _near(mapping, access) == inner)), None
        else:
            yield replace(staged, load=_loader(loaders, inner)), operand


def _effort(s: StagedOperand) -> float:
    """The cost of an order: cycles and instructions to read, and those of the copy, spread over several reads."""
    copy = (s.calc + 1) / s.vector + 1 / s.stored
    return 8 * (s.cycles + s.reads) + 0.5 * copy + (0 if s.asynchronous else 0.5)


def _near(mapping: InstrMapping, access: AccessModel) -> str | None:
    """The axis along which the operand is contiguous, if that is one of its own, or a fused one with runs of it."""
    if access.fused_run is not None:
        return access.fast
    fused = {name for name, _ in mapping.computation.fused}
    return access.fast if access.fast not in fused and access.plain(access.fast or "") else None


def _ordered(
    ctx: LoweringContext,
    machine: MachineModel,
    mapping: InstrMapping,
    access: AccessModel,
    free: str,
    inner: str,
    order: tuple[syntax.Modifier, ...],
) -> StagedOperand:
    """How it is copied."""
    fused = {name for name, _ in mapping.computation.fused}
    fast = _near(mapping, access)
    size = access.dtype.bytes
    vector = _at_once(ctx, access, size)
    in_runs = access.fused_run is not None
    load = next(ld for ld in loads(mapping.computation.value) if ld.tensor == access.tensor)
    digits = in_runs and not _is_linear(ctx, mapping.computation, load)
    if fast != inner:  # units turn rectangles, in which both sides are vectors
        side = 1 << int(log2(MOST / size)) // 2
        vector = min(vector, side) if fast is not None and not in_runs else 1
    calc = PLAIN if fast is not None and not digits else 6 if not fused & access.axes else 24
    copiers = tuple((i, n) for i, dtype, n in machine.asynchronous if dtype == access.dtype) if fast == inner else ()
    if access.fused_run is not None and not any(access.fused_run[1] % n == 0 for _, n in copiers):
        copiers = ()
    return StagedOperand(access, free, inner, order, 0, None, 0.0, 0.0, vector, vector, calc, copiers)


def _deep(machine: MachineModel, mapping: InstrMapping, s: StagedOperand, operand: Operand | None, depth: int) -> StagedOperand:
    """In tiles that deep."""
    if operand is None:
        return s
    size, along_k = s.access.dtype.bytes, s.inner == mapping.k
    if s.load is not None:
        if not along_k or depth * size >= 2 * WIDEST_ACCESS:
            s = replace(s, modifiers=(*s.modifiers, syntax.Modifier("swizzle")))
        return _read(s, 0, max(1.0, prod(operand.shape) * size / machine.bank_bytes), 1.0)
    assert mapping.instr is not None
    order = mapping.match.order if mapping.match is not None else None
    whole = along_k and _near(mapping, s.access) == s.inner  # not turned, so that rows are stored as they lie
    asked = mapping.instr.name, operand.name, size, along_k, depth, order, whole  # of the device alone: counted once
    if asked not in machine.reading:
        machine.reading[asked] = _fragment(machine, mapping, operand, size, along_k, depth, whole)
    pad, cycles, reads = machine.reading[asked]
    if pad is None:
        s = replace(s, modifiers=(*s.modifiers, syntax.Modifier("swizzle")))
    return _read(s, pad or 0, cycles, reads)


def _read(s: StagedOperand, pad: int, cycles: float, reads: float) -> StagedOperand:
    """With rows padded so, and read at that cost."""
    if not pad:
        return replace(s, cycles=cycles, reads=reads)
    padded = (*s.modifiers, syntax.Modifier("pad", (syntax.Num(pad),)))
    return replace(s, modifiers=padded, pad=pad, cycles=cycles, reads=reads, stored=gcd(s.stored, pad))


def _is_linear(ctx: LoweringContext, computation: Computation, load: Load) -> bool:
    """Whether the address grows by one along a fused index: its components are the last subscripts, of whole dimensions."""
    for _, parts in computation.fused:
        if [plain_index(e) for e in load.indices[-len(parts) :]] == [name for name, _, _ in parts]:
            shape = ctx.shapes[load.tensor][-len(parts) :] if load.tensor in ctx.shapes else ()
            return list(shape[1:]) == [extent for _, extent, _ in parts[1:]]
    return False


def _at_once(ctx: LoweringContext, access: AccessModel, size: int) -> int:
    """Elements of the widest load: fewer where the rows of a tensor, or runs along a fused index, are known to begin at no
    multiple of it."""
    row = ctx.shapes[access.tensor][-1].constant if len(access.dims) > 1 and access.tensor in ctx.shapes else None
    run = access.fused_run[1] if access.fused_run is not None else 0
    return gcd(max(1, WIDEST_ACCESS // size), row or 0, run)


def _operand(mapping: InstrMapping, access: AccessModel) -> Operand | None:
    """The operand of a group's instruction that the access is."""
    if mapping.instr is None or mapping.match is None or len(mapping.match.instr.operands) < 3:
        return None
    for name, value in mapping.match.operands:
        if any(ld.tensor == access.tensor for ld in loads(value)):
            o = mapping.instr.operand(name)
            return o if len(o.shape) == 2 else None
    return None


def _scalar(machine: MachineModel, mapping: InstrMapping, size: int, along_k: bool, natural: bool) -> tuple[int, float, float]:
    """Lanes read chunks of `free`: rows along it need a pad only if the copy transposes them; rows along k an odd stride."""
    leaf = mapping.leaf[2]
    if along_k:  # each element, or run of k that the leaf takes, by itself
        return max(leaf, 4 // size), size / machine.bank_bytes, 1.0 / leaf
    wide = max(1, WIDEST_ACCESS // size)
    return 0 if natural else wide, size / machine.bank_bytes, 1.0 / wide


def _fragment(
    machine: MachineModel, mapping: InstrMapping, operand: Operand, size: int, along_k: bool, depth: int, whole: bool
) -> tuple[int | None, float, float]:
    """Pad, cycles and instructions to read an operand's fragment from rows along k (or along its free axis). No pad but a
    swizzle (None) where `whole` rows are stored, and these meet more banks then."""
    at = _k_axis(mapping, operand)
    table = _table(mapping, operand)
    fine, coarse = (table[..., at], table[..., 1 - at]) if along_k else (table[..., 1 - at], table[..., at])
    run = 1
    most = max(1, WIDEST_ACCESS // size)
    registers = table.shape[1]
    while run < most and registers % (2 * run) == 0 and _runs(fine, coarse, 2 * run):
        run *= 2
    banks = machine.staging.banks or (machine.lanes, 4)
    rows, row, column = int(coarse.max()) + 1, Var("row"), Var("column")
    plain = Layout.row_major([("row", as_expr(rows)), ("column", as_expr(depth))])

    def cycles(layout: Layout, coarse: np.ndarray, fine: np.ndarray, width: int) -> int:
        """Of accesses of that many elements: [lane, access]."""
        at = np.asarray(layout.address({"row": row, "column": column}).evaluate({"row": coarse, "column": fine})) * size
        return sum(access_cycles(addresses, width * size, banks) for addresses in at.T)

    def read(layout: Layout) -> int:
        return cycles(layout, coarse[:, ::run], fine[:, ::run], run)

    def stored(layout: Layout) -> int:
        first = most * np.arange(machine.lanes)[:, None]
        return cycles(layout, first // depth, first % depth, most)

    pads = sorted({0, *(p // size for p in PADS if p % size == 0 and p // size % run == 0 and p >= size)})
    taken = min((plain.padded(pad) for pad in pads), key=read)
    swizzled = plain.swizzled(size) if whole and depth % most == 0 else taken
    if read(swizzled) <= read(taken) and stored(swizzled) < stored(taken):
        return None, float(read(swizzled)), registers / run
    return taken.pad, float(read(taken)), registers / run


def _table(mapping: InstrMapping, operand: Operand) -> np.ndarray:
    """The elements of an operand's registers: [lane, register, axis]."""
    if mapping.match is None or mapping.match.order is None:
        return FragmentLayout.of(operand).table()
    f = fragment_map(mapping.match, operand.name)
    return np.stack([fragment_values(f, e) for _, _, e in f.maps], -1)


def _k_axis(mapping: InstrMapping, operand: Operand) -> int:
    """Which axis of an operand is the reduced one."""
    assert mapping.instr is not None
    s = mapping.instr.statement
    reduced = s.reduction.indices if s.reduction else ()
    ld = next(x for x in loads(s.value) if x.tensor == operand.name)
    return next(n for n, e in enumerate(ld.indices) if any(v.name in reduced for v in e.variables()))


def _runs(fine: np.ndarray, coarse: np.ndarray, run: int) -> bool:
    f = fine.reshape(len(fine), -1, run)
    c = coarse.reshape(len(coarse), -1, run)
    return bool((f == f[:, :, :1] + np.arange(run)).all() and (c == c[:, :, :1]).all() and (f[:, :, 0] % run == 0).all())


# ---------------------------------------------------------------- instructions that copy


def _loaders(
    ctx: LoweringContext, machine: MachineModel, mapping: InstrMapping, access: AccessModel, load: Load, operand: Operand
) -> list[InstrMatch]:
    """Instructions with which a group loads this operand's fragment from rows along either axis."""
    assert mapping.match is not None
    assert mapping.instr is not None
    if not any(isinstance(v, Load) and v.tensor == access.tensor for _, v in mapping.match.operands):
        return []  # it is converted on the way
    alias = mapping.computation.alias
    names = (alias.get(v.name, v.name) for e in load.indices for v in sorted(e.variables(), key=str))
    indices = tuple(i for i in dict.fromkeys(names) if i in mapping.computation.all_indices)
    copy = Computation(StagedCopy(access.tensor), indices, load, None, (), fused=mapping.computation.fused)
    wanted = fragment_map(mapping.match, operand.name)
    fitting = []
    for i in machine.loaders.get((mapping.instr.level, access.dtype), ()):
        filled = own_fragment(i, i.statement.target)
        if (filled.lanes, filled.registers) != (wanted.lanes, wanted.registers):
            continue
        fits = [m for m in all_matches(i, copy) if same_fragment(wanted, fragment_map(m, i.statement.target))]
        fitting += [max(fits, key=lambda m: m.score)] if fits else []
    return fitting


def _loader(fitting: list[InstrMatch], inner: str) -> str | None:
    """The family (or the name) of one that loads from rows along `inner`."""
    right = [m for m in fitting if _along(m.instr, dict(m.index)) == inner]
    if not right:
        return None
    taken = max(fitting, key=lambda m: m.score)  # as the lowering does for a family
    return right[0].instr.name if taken not in right or not taken.instr.family else taken.instr.family


def _along(i: Instr, index: dict[str, str]) -> str | None:
    """The computation's index along which the instruction reads contiguous elements of its source."""
    (ld,) = loads(i.statement.value)
    source = i.operand(ld.tensor)
    for e, x in zip(source.map, ld.indices, strict=True):
        if source.register is not None and e.coefficient(source.register) == 1:
            return index[next(iter(x.variables())).name]
    return None
