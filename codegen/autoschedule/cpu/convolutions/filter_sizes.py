"""The sizes of filters and of images for which a convolution has a schedule of its own, where they are open.

FILTERS   windows are copied as they are (`windows`) where filters have at most so many points along each index.
POINTS    filters of one element are a matrix product, or read each second column and line.
WIDTHS    a register tile has a line of the results, or part of it, so wide images and narrow ones have different ones. Where
          lines are so short that most lanes would have nothing, windows are gathered.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import reduce

from .....dsl import syntax
from .....dsl.device import Device
from .....dsl.op import Op
from .....dsl.ops.specialise import bind_params, specialise
from ....plan.group_launches import group_launches
from ....schedule.size_bounds import size_conditions
from ..matmul import sample_problem
from ..matmul_model import MatmulModel

# points: of a filter along an index, up to which a block of the image has room for all that it reads [tried;
# test_open_sizes_of_filters]
MOST = 7

Where = tuple[syntax.SizeCondition, ...]


def convolution_sizes(op: Op, device: Device, known: Mapping[str, int]) -> Iterator[tuple[str, Where]]:
    """The name of each case, and its conditions, in the order in which they are to be tried; what is left is the general case.

    known   sizes and parameters of the op that are known
    """
    p = _convolution(op, device, known)
    if p is None:
        return
    names = {v.name for v in (*op.dims, *(v for v, _ in op.derived))}
    filters = [str(p.extents[i]) for i in p.filter_indices if p.largest_extent(i) is None]
    columns = p.extents[p.component_indices(p.n)[-1]]
    width = str(columns) if columns.interval[1] is None else ""
    if not {*filters, *filter(None, (width,))} <= names:
        return
    few, points = size_conditions(dict.fromkeys(filters, MOST)), size_conditions(dict.fromkeys(filters, 1), "==")
    wide, narrow, short = _widths(width, p.lanes)
    may_be_points = bool(filters) or p.windows_are_points
    found: list[tuple[str, Where]] = []
    if filters or not p.windows_are_points:
        found += [("", (*_some_window(filters), *few, *wide)), ("_narrow", (*few, *narrow))]
    if may_be_points and p.column_step == 1:
        longer = size_conditions({x.left.id: p.lanes // 2 for x in short if isinstance(x.left, syntax.Name)}, ">")
        found[1:1] = [("_points", (*points, *longer)), ("_points_short", (*points, *short))]
    elif may_be_points:
        found[1:1] = [("_points", (*points, *wide)), ("_points_narrow", (*points, *narrow))]
    found += [("_short", short)]
    seen: set[Where] = {()}
    for suffix, where in found:
        if where not in seen:
            seen.add(where)
            yield suffix, where


def _convolution(op: Op, device: Device, known: Mapping[str, int]) -> MatmulModel | None:
    """The only product of an op whose wide operand is read in windows."""
    if not any(s.reduction is not None and s.reduction.kind == "sum" for s in op.statements):
        return None
    parameters = {name for name, _ in op.params}
    if any(default is None and name not in known for name, default in op.params):
        return None
    bound = bind_params(op, {n: x for n, x in known.items() if n in parameters})
    sizes = {v.name for v in op.dims}
    special = specialise(bound, {n: x for n, x in known.items() if n in sizes})
    computations = [w for group in group_launches(special, frozenset()) for w in group]
    shapes = {t.name: t.shape for t in special.tensors}
    found = [x[1] for w in computations if (x := sample_problem(device, w, shapes)) is not None]
    if len(found) != 1 or not found[0].filter_indices or found[0].rows_are_windows or found[0].column_step < 1:
        return None
    return found[0]


def _some_window(filters: list[str]) -> Where:
    """More than one element: `R + S > 2`."""
    names: list[syntax.Expr] = [syntax.Name(n) for n in filters]
    if not names:
        return ()
    return (syntax.SizeCondition(reduce(lambda a, b: syntax.Binary("+", a, b), names), ">", syntax.Num(len(filters))),)


def _widths(name: str, lanes: int) -> tuple[Where, Where, Where]:
    """Of wide images, of narrow ones, and of those whose lines are short."""
    if not name:
        return (), (), ()
    half = lanes // 2
    narrow = (*size_conditions({name: lanes}), *size_conditions({name: half}, ">"))
    return size_conditions({name: lanes}, ">"), narrow, size_conditions({name: half})
