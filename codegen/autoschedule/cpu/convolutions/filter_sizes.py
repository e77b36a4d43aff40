"""The sizes of filters and of images for which a convolution has a schedule of its own, where they are open.

FILTERS   windows are copied as they are (`windows`, `depthwise`) where filters have at most so many points along each index.
POINTS    filters of one element are a matrix product, or read each second column and line.
USUAL     filters themselves are copied where channels are last, all that the copy has room for: filters of the usual size have
          a copy of that size.
WIDTHS    a register tile has a line of the results, or part of it, so wide images and narrow ones have different ones. Where
          lines are so short that most lanes would have nothing, windows of products are gathered.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import reduce

from .....dsl import syntax
from .....dsl.device import Device
from .....dsl.index.expr import Expr
from .....dsl.op import Op
from .....dsl.ops.specialise import bind_params, specialise
from ....plan.group_launches import group_launches
from ....schedule.size_bounds import size_conditions
from ..matmul_model import MatmulModel, matmul_of
from ..precompute_operands import candidate_matmuls
from .depthwise import DepthwiseModel, depthwise_of

# points: of a filter along an index, up to which a block of the image has room for all that it reads [tried;
# test_open_sizes_of_filters]
MOST = 7
# points: of a filter along an index, as most have; copies of filters with so many points have no others [tried;
# test_open_sizes_of_filters]
USUAL = 3

Where = tuple[syntax.SizeCondition, ...]


def convolution_sizes(op: Op, device: Device, known: Mapping[str, int]) -> Iterator[tuple[str, Where]]:
    """The name of each case, and its conditions, in the order in which they are to be tried; what is left is the general case.

    known   sizes and parameters of the op that are known
    """
    special = _specialised(op, known)
    found = _convolution(special, device) if special is not None else None
    if found is None:
        return
    names = {v.name for v in (*op.dims, *(v for v, _ in op.derived))}
    last = found.component_indices(found.n)[-1] if isinstance(found, MatmulModel) else found.last
    filter_indices = found.filter_indices if isinstance(found, MatmulModel) else found.filters
    filters, width = _open(found.extents, filter_indices), _open(found.extents, (last,))
    if isinstance(found, MatmulModel) and found.rows_are_windows:
        cases, width = _channels_last_cases(filters), []
    elif isinstance(found, MatmulModel):
        cases = _product_cases(found, filters, width)
    else:
        cases = _depthwise_cases(found, filters, width)
    if not {*filters, *width} <= names:
        return
    seen: set[Where] = {()}
    for suffix, where in cases:
        if where not in seen:
            seen.add(where)
            yield suffix, where


def _product_cases(p: MatmulModel, filters: list[str], width: list[str]) -> Iterator[tuple[str, Where]]:
    few, points = size_conditions(dict.fromkeys(filters, MOST)), size_conditions(dict.fromkeys(filters, 1), "==")
    wide, narrow = _between(width, p.lanes, None), _between(width, p.lanes // 2, p.lanes)
    short = _between(width, None, p.lanes // 2)
    if filters or not p.windows_are_points:
        yield "", (*_some_window(filters), *few, *wide)
    if (filters or p.windows_are_points) and p.column_step == 1:
        yield "_points", (*points, *_between(width, p.lanes // 2, None))
        yield "_points_short", (*points, *short)
    elif filters or p.windows_are_points:
        yield "_points", (*points, *wide)
        yield "_points_narrow", (*points, *narrow)
    if filters or not p.windows_are_points:
        yield "_narrow", (*few, *narrow)
    yield "_short", short


def _channels_last_cases(filters: list[str]) -> Iterator[tuple[str, Where]]:
    yield "", size_conditions(dict.fromkeys(filters, USUAL), "==")
    yield "_points", size_conditions(dict.fromkeys(filters, 1), "==")
    yield "_large", size_conditions(dict.fromkeys(filters, MOST))


def _depthwise_cases(p: DepthwiseModel, filters: list[str], width: list[str]) -> Iterator[tuple[str, Where]]:
    few = size_conditions(dict.fromkeys(filters, MOST))
    yield "", (*few, *_between(width, 2 * p.lanes, None))
    yield "_narrow", (*few, *_between(width, p.lanes, 2 * p.lanes))
    yield "_short", (*few, *_between(width, None, p.lanes))


def _specialised(op: Op, known: Mapping[str, int]) -> Op | None:
    """None for an op without sums, or with parameters that are not known."""
    sums = any(s.reduction is not None and s.reduction.kind == "sum" for s in op.statements)
    if not sums or any(default is None and name not in known for name, default in op.params):
        return None
    parameters, sizes = {name for name, _ in op.params}, {v.name for v in op.dims}
    bound = bind_params(op, {n: x for n, x in known.items() if n in parameters})
    return specialise(bound, {n: x for n, x in known.items() if n in sizes})


def _convolution(op: Op, device: Device) -> MatmulModel | DepthwiseModel | None:
    """The only computation of an op that reads windows of an image, if it is a product or depthwise."""
    shapes = {t.name: t.shape for t in op.tensors}
    computations = [w for group in group_launches(op, frozenset()) for w in group if w.reduction is not None]
    products = [p for w in computations if (p := matmul_of(device, w, shapes)) is not None]
    products = products or [p for p, _ in candidate_matmuls(op, device)]  # of what is converted first
    products = [p for p in products if p.filter_indices and (p.rows_are_windows or p.column_step > 0)]
    depthwise = [p for w in computations if (p := depthwise_of(device, w)) is not None]
    found = [*products, *depthwise]
    return found[0] if len(found) == 1 else None


def _open(extents: Mapping[str, Expr], indices: tuple[str, ...]) -> list[str]:
    """The sizes, of the extents of indices, that have no bound."""
    return [str(extents[i]) for i in indices if extents[i].interval[1] is None]


def _some_window(filters: list[str]) -> Where:
    """More than one element: `R + S > 2`."""
    names: list[syntax.Expr] = [syntax.Name(n) for n in filters]
    if not names:
        return ()
    return (syntax.SizeCondition(reduce(lambda a, b: syntax.Binary("+", a, b), names), ">", syntax.Num(len(filters))),)


def _between(names: list[str], least: int | None, most: int | None) -> Where:
    """More than `least`, up to `most`."""
    above = size_conditions(dict.fromkeys(names, least), ">") if least is not None else ()
    return (*above, *(size_conditions(dict.fromkeys(names, most)) if most is not None else ()))
