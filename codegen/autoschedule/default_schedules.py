"""The compiler's own schedules for an op, for ranges of sizes in which different facts are provable. All lines are completed.

NARROW_PLACES   argmax of a row has indices of 32 bits if the row has at most 2^31 - 1 elements, else of 64.
FEW             a matrix product has a schedule for many rows and columns, and one each for one, two, up to four, up to one
                vector and up to two vectors of columns, and the same for rows: for few of them the matrix is not packed.
                Several products with one such size have them together.
MADE            operands that are materialised for many rows are read in place for few (`cpu.precompute_operands`), and for few
                columns where both are contiguous in the reduced index.
PASSES          a pass over keys (`gpu.passes.one_pass`) has registers for all features of a result, and rows enough for an
                instruction, or parts of the keys. Where these sizes are open, it has schedules for bounds of them. On cores
                (`cpu.one_pass`) a cache has room for the features, and rows and keys are many; one row has a schedule too.
CONVOLUTIONS    windows of filters that have few points, filters of one element, wide and narrow images
                (`cpu.convolutions.filter_sizes`).
HELD            a row of an intermediate is cached if a cache has room for its elements (`cpu.row_caching`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...dsl import syntax
from ...dsl.device import Device, Level
from ...dsl.index.expr import Expr
from ...dsl.op import Op
from ...dsl.values import is_expensive
from ..lower.reductions.argreduce_index import MOST_NARROW, prefers_i32
from ..plan.group_launches import group_launches
from ..schedule.size_bounds import size_conditions, with_bounds, without_decided_bounds
from .cpu.convolutions.filter_sizes import convolution_sizes
from .cpu.default_nests import ARGUMENTS, cores_and_lanes, row_statistics
from .cpu.matmul import FEW, contiguous_along_k, deserves_few_columns, deserves_few_rows, sample_problem
from .cpu.one_pass import pass_of
from .cpu.precompute_operands import candidate_matmuls, rows_in_place
from .cpu.row_caching import HeldRow, caches_for
from .gpu.passes.one_pass_choice import pass_nests
from .gpu.passes.pass_model import PassModel
from .machine_model import block_machine
from .one_pass.chains import pass_in_one_launch
from .one_pass.converted_operands import widen_operands
from .one_pass.find_pass import one_pass_of
from .op_context import context_of

# columns: up to which a variant for few columns is made; beyond it vectors of columns are as fast [measured: cpu-products;
# test_each_number_of_columns_has_one]
FEW_COLUMNS = 4
# features: up to which a pass has a schedule of its own; its accumulators have registers for all [tried;
# test_features_are_bounded]
FEATURES = (64, 128)


def default_schedules(op: Op, device: Device, known: Mapping[str, int] | None = None) -> Iterator[syntax.ScheduleDecl | None]:
    """In the order in which they are to be tried; together they take all sizes. None: one without conditions. Each is looked
    for when it is asked for.

    known   sizes of the op that are known: passes for other sizes are left out
    """
    levels, (op, _) = cores_and_lanes(device), widen_operands(op, device)
    dims = {v.name for v in op.dims}
    if levels is None:
        yield from _passes(op, device, dims, known or {})
        yield None
        return
    bounds = _narrow_places(op, dims) or _held(op, device, levels[0], dims)
    if bounds:
        yield _auto(op, "", *size_conditions(bounds))
        yield None
        return
    yield from _passes_on_cores(op, device, dims, known or {})
    for suffix, where in convolution_sizes(op, device, known or {}):
        yield _auto(op, suffix, *where)
    yield from _few(op, device, dims) or _made(op, device, dims) or (None,)


def _narrow_places(op: Op, dims: set[str]) -> dict[str, int]:
    """NARROW_PLACES: the most that sizes may be."""
    bounds: dict[str, int] = {}
    for s in op.statements:
        if s.reduction is None or s.reduction.kind not in ARGUMENTS or not prefers_i32(s.value.dtype):
            continue
        extents = [e for i, e in s.ranges if i in s.reduction.indices]
        if len(extents) == 1 and extents[0].interval[1] is None and str(extents[0]) in dims:
            bounds[str(extents[0])] = MOST_NARROW
    return bounds


def _held(op: Op, device: Device, cores: Level, dims: set[str]) -> dict[str, int]:
    """HELD: the most that the size of a row may be, if that changes what is kept."""
    inner = {t.name for t in op.tensors if t.role == "intermediate"}
    dear = [s for s in op.statements if s.target in inner and s.reduction is None and is_expensive(s.value)]
    along = {i for s in op.statements if s.reduction is not None for i in s.reduction.indices}
    open_ = {str(e) for s in dear for i, e in s.ranges if i in along and e.interval[1] is None}
    if len(open_) != 1 or not open_ <= dims:
        return {}
    rows = [HeldRow(s.target, (), s.value, stored=False) for s in dear]
    room = min(max((room for _, room in caches_for(device, cores, x)), default=0) for x in rows)
    bounds = {n: int(room) // 2 // sum(s.value.dtype.bytes for s in dear) for n in open_}
    return bounds if row_statistics(with_bounds(op, size_conditions(bounds)), device) != row_statistics(op, device) else {}


def _passes(op: Op, device: Device, dims: set[str], known: Mapping[str, int]) -> Iterator[syntax.ScheduleDecl]:
    """PASSES, those of few features first; where the number of rows is open, those of few rows last."""

    def is_excluded(*where: syntax.SizeCondition) -> bool:
        return without_decided_bounds(_auto(op, "", *where), known) is None

    computations = pass_in_one_launch(op) if block_machine(device) is not None else None
    found = one_pass_of(computations) if computations is not None else None
    if found is None:
        return
    features = {found.extents[i] for i in found.all_features}
    open_ = sorted(str(e) for e in features if e.interval[1] is None)
    some: list[tuple[str, syntax.SizeCondition, tuple[syntax.SizeCondition, ...]]] = []
    for n, most in enumerate(FEATURES if open_ else (0,)):
        where = size_conditions(dict.fromkeys(open_, most))
        if is_excluded(*where):
            continue
        nest = _nest_of_pass(op, device, where) if {*open_} <= dims else None
        if nest is None:
            break
        suffix = "" if n == 0 else f"_{most}"
        rows = str(nest.found.extents[nest.last_row])
        if nest.few_rows is not None and rows in dims:
            many, few = (syntax.SizeCondition(syntax.Name(rows), x, syntax.Num(nest.few_rows)) for x in (">", "<="))
            some.append((f"_few{suffix}", few, where))
            where = (many, *where)
        if where:
            yield _auto(op, suffix, *where)
    for suffix, few, where in some:
        if not is_excluded(few, *where) and _nest_of_pass(op, device, (few, *where)) is not None:
            yield _auto(op, suffix, few, *where)


def _passes_on_cores(op: Op, device: Device, dims: set[str], known: Mapping[str, int]) -> Iterator[syntax.ScheduleDecl]:
    """PASSES, those of few features first; then, where the number of rows is open, the launches apart for one row."""
    found = pass_of(op, device) if dims else None
    if found is None:
        return

    def is_possible(decl: syntax.ScheduleDecl) -> bool:
        names = {w.left.id for w in decl.where if isinstance(w.left, syntax.Name)}
        return bool(names) and names <= dims and without_decided_bounds(decl, known) is not None

    bounded = all(e.interval[1] is not None for e in found.features)
    most = {"": 0} if bounded else {"" if n == FEATURES[0] else f"_{n}": n for n in FEATURES}
    for suffix, n in most.items():
        decl = _auto(op, suffix, *found.conditions(n))
        if is_possible(decl):
            inside = pass_of(with_bounds(op, decl.where), device)
            if inside is None or inside.memory(device) is None:
                break
            yield decl
    one = size_conditions({str(found.row): 1}, "==")
    for suffix, n in most.items():
        decl = _auto(op, f"_one{suffix}", *one, *found.features_within(n))
        if is_possible(decl):
            yield decl
    if not bounded and is_possible(decl := _auto(op, "_one_any", *one)):
        yield decl


def _nest_of_pass(op: Op, device: Device, where: tuple[syntax.SizeCondition, ...]) -> PassModel | None:
    bounded = with_bounds(op, where)
    together = pass_in_one_launch(bounded)
    return next(iter(pass_nests(context_of(bounded, device), together)), None) if together is not None else None


def _few(op: Op, device: Device, dims: set[str]) -> tuple[syntax.ScheduleDecl | None, ...]:
    """FEW, the usual one first: others are compiled when they are needed."""
    computations = [w for group in group_launches(op, frozenset()) for w in group]
    products = [p for _, p in filter(None, (sample_problem(device, w) for w in computations))]
    columns, rows = (list(filter(f, products)) for f in (deserves_few_columns, deserves_few_rows))
    sizes = _open_sizes(dims, {"": {p.extents[p.n] for p in columns}, "_rows": {p.extents[p.m] for p in rows}})
    if not sizes:
        return ()
    lanes = {suffix: max(FEW_COLUMNS, *(p.lanes for p in these)) for suffix, these in (("", columns), ("_rows", rows)) if these}
    usual = (syntax.SizeCondition(n, ">", syntax.Num(2 * lanes[suffix])) for suffix, n in sizes.items())
    return _auto(op, "", *usual), *(x for suffix, n in sizes.items() for x in _few_of(op, suffix, n, lanes[suffix]))


def _open_sizes(dims: set[str], extents: Mapping[str, set[Expr]]) -> dict[str, syntax.Name]:
    """The open size that is the one extent of each kind; no size twice."""
    out: dict[str, syntax.Name] = {}
    for kind, these in extents.items():
        size = next(iter(these)) if len(these) == 1 else None
        if size is not None and size.interval[1] is None and str(size) in dims - {n.id for n in out.values()}:
            out[kind] = syntax.Name(str(size))
    return out


def _few_of(op: Op, suffix: str, n: syntax.Name, lanes: int) -> Iterator[syntax.ScheduleDecl]:
    """FEW, of one of the sizes."""
    for how, comparison, number in (("one", "==", 1), ("two", "==", 2), ("few", "<=", FEW_COLUMNS)):
        yield _auto(op, f"{suffix}_{how}", syntax.SizeCondition(n, comparison, syntax.Num(number)))
    if lanes > FEW_COLUMNS:
        yield _auto(op, f"{suffix}_narrow", syntax.SizeCondition(n, "<=", syntax.Num(lanes)))
    yield _auto(op, f"{suffix}_twice", syntax.SizeCondition(n, "<=", syntax.Num(2 * lanes)))


def _made(op: Op, device: Device, dims: set[str]) -> tuple[syntax.ScheduleDecl | None, ...]:
    """MADE, the usual one first."""
    found = [p for p, _ in candidate_matmuls(op, device) if p.has_plain_operands]
    along_k = [p for p in found if contiguous_along_k(p)]
    found = along_k or [p for p in found if not p.batch]
    columns = [p for p in along_k if not p.batch]
    sizes = _open_sizes(dims, {"": {p.extents[p.m] for p in found}, "_columns": {p.extents[p.n] for p in columns}})
    if not sizes:
        return ()
    few = {"": min(map(rows_in_place, found)), "_columns": FEW}
    out = [_auto(op, "", *(syntax.SizeCondition(n, ">", syntax.Num(few[suffix])) for suffix, n in sizes.items()))]
    for suffix, n in sizes.items():
        if few[suffix] > 1 and (suffix or not along_k):  # lanes along the reduced index read few rows as well as one
            out.append(_auto(op, f"{suffix}_one", syntax.SizeCondition(n, "==", syntax.Num(1))))
        out.append(_auto(op, f"{suffix}_few", syntax.SizeCondition(n, "<=", syntax.Num(few[suffix]))))
    return tuple(out)


def _auto(op: Op, suffix: str, *where: syntax.SizeCondition) -> syntax.ScheduleDecl:
    return syntax.ScheduleDecl(f"{op.name}_auto{suffix}", op.name, None, (), None, where, (syntax.AutoLine(),))
