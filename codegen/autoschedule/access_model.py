"""The axes of a launch with their extents, and the footprint of each access under a tile.

A tile gives every axis an extent. The footprint of an access under it is a product over the tensor's dimensions of
`sum |c| (t - 1) + 1` for a subscript `sum c * axis`: a polynomial of the tile's extents, evaluated for arrays of tiles at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ...dsl.index.expr import Expr
from ...dsl.support.cached import cached_property
from ...dsl.types import DType
from ...dsl.values import Apply, Cast, Load, Value, loads, walk
from ..plan.computations import Computation, computation_extents, plain_index, unheld_indices
from .tile_space import ceil_div

_FREE = {"and", "or", "not", "where", "lt", "le", "gt", "ge", "eq", "ne"}
# operations: a call of the function, where an addition is one [measured: cycle-model-2026-11; test_slow_functions]
_SLOW = {
    "div": 6,
    "exp": 16,
    "exp2": 16,
    "expm1": 17,
    "log": 26,
    "log2": 29,
    "log1p": 41,
    "pow": 65,
    "sqrt": 4,
    "rsqrt": 7,
    "tanh": 35,
    "sigmoid": 26,
    "gelu": 46,
    "silu": 27,
    "erf": 34,
    "sin": 25,
    "cos": 25,
    "floor": 6,
    "ceil": 6,
    "round": 3,
}
# operations: of f32, where the device computes the functions that stand first [measured: cycle-model-2026-11;
# test_functions_of_a_device_cost_less]
_COMPOSED = (
    (frozenset({"exp2"}), {"exp": 6, "exp2": 5, "erf": 21}),
    (frozenset({"exp2", "rcp"}), {"tanh": 19, "sigmoid": 10, "silu": 13, "gelu": 29}),
)
# operations: a conversion to a type, where it is integer arithmetic [measured: triton-2026-11; test_conversions_have_a_cost]
_ROUNDED = {"tf32": 5, "bf16": 5}


@dataclass(frozen=True)
class AccessModel:
    """One tensor as it is read or written: each dimension as ((axis, coefficient), ...).

    `once`: it is read at one subscript only, so that a copy of its footprint under a tile has one shape. `fused_run`: a fused
    index whose last component is the whole last subscript, and the extent of that component: so many elements along the index
    are neighbours in memory, then the next so many. `one_fill`: outside of the tensor there is one value for each element of a
    copy, so that a copy may stand for it.
    """

    tensor: str
    dtype: DType
    dims: tuple[tuple[tuple[str, int], ...], ...]
    once: bool = True
    fused_run: tuple[str, int] | None = None
    one_fill: bool = True

    @property
    def can_be_staged(self) -> bool:
        """Does one copy of a box, or of a view, hold what is read?"""
        return self.once and self.one_fill

    @cached_property
    def axes(self) -> frozenset[str]:
        return frozenset(a for d in self.dims for a, _ in d)

    @cached_property
    def fast(self) -> str | None:
        """The axis along which the tensor is contiguous, at least in runs."""
        if self.fused_run is not None:
            return self.fused_run[0]
        return next((a for a, c in self.dims[-1] if c == 1), None) if self.dims else None

    @cached_property
    def view(self) -> bool:
        """Does an axis stand in several dimensions?"""
        return sum(len(d) for d in self.dims) > len(self.axes)

    @cached_property
    def spread(self) -> tuple[tuple[tuple[str, int], ...], ...]:
        """For each dimension, the distance of neighbours along its axes; inside quotients and remainders 1."""
        return tuple(tuple((a, max(1, abs(c))) for a, c in d) for d in self.dims)

    def plain(self, axis: str) -> bool:
        """Is some dimension just this axis?"""
        return ((axis, 1),) in self.dims

    def stride(self, axis: str) -> int | None:
        """Elements between neighbours along an axis; 0: the same element for all of them, None: no constant distance."""
        return self._strides.get(axis, 0)

    @cached_property
    def _strides(self) -> dict[str, int | None]:
        near = {a: max(1, abs(c)) for a, c in self.dims[-1]} if self.dims else {}
        return near | {a: None for d in self.dims[:-1] for a, _ in d}

    def coalesced(self, axis: str, run: Any, transaction: int) -> Any:
        """Bytes moved for a byte requested, with lanes along an axis and `run` contiguous elements.

        If lanes leave parts of a transaction unused, later lanes find half of them.
        """
        run = run * self.dtype.bytes
        whole = ceil_div(run, transaction) * transaction / np.maximum(run, 1)
        return whole if self.stride(axis) is not None else (whole + transaction / self.dtype.bytes) / 2

    def path(self, axis: str, transaction: int) -> float:
        """Bytes that a load path moves for each element, with lanes along an axis."""
        size, stride = self.dtype.bytes, self.stride(axis)
        return transaction if stride is None else min(stride * size, transaction) if stride else size / 8

    def footprint(self, tile: Mapping[str, Any]) -> Any:
        """Elements that it spans under a tile (axes without extent there: 1).

        An axis in several dimensions is a fused one: what is read then is a view over the axes.
        """
        spans = (tile.get(a, 1) for a in self.axes) if self.view else self.reach(tile)
        return prod(spans, start=1.0)  # of the largest tensors there are more bytes than integers count

    def reach(self, tile: Mapping[str, Any]) -> tuple[Any, ...]:
        """Elements from the first to the last that the subscript of each dimension reaches under a tile."""
        return tuple(
            tile.get(d[0][0], 1) if len(d) == 1 and d[0][1] == 1 else 1 + sum(c * (tile.get(a, 1) - 1) for a, c in d)
            for d in self.spread
        )

    def run(self, tile: Mapping[str, Any]) -> Any:
        """Elements in one run of memory."""
        along = tile.get(self.fast, 1) if self.fast is not None else 1
        return np.minimum(along, self.fused_run[1]) if self.fused_run is not None else along


def different_accesses(accesses: Iterable[AccessModel]) -> tuple[AccessModel, ...]:
    """One of those that read a tensor at a constant distance from each other: a cache has what the first one read."""
    return tuple({(a.tensor, a.dims): a for a in reversed(tuple(accesses))}.values())[::-1]


@dataclass(frozen=True)
class Call:
    """A call of a function that takes so many operations, and the axes that its result depends on."""

    operations: int
    axes: frozenset[str]


@dataclass(frozen=True)
class AccessProblem:
    """One computation of a launch. `operations` and `inner` (its reads) are for each point of the whole iteration space.
    `calls` are what `operations` adds up. `finishing`: operations where a result is stored, for each; what is the same along
    the last index is one.
    """

    computation: Computation
    free: tuple[str, ...]
    reduced: tuple[str, ...]
    extents: Mapping[str, Expr]
    reads: tuple[AccessModel, ...]
    writes: tuple[AccessModel, ...]
    operations: float
    calls: tuple[Call, ...]
    inner: tuple[AccessModel, ...] = ()
    finishing: int = 0

    @staticmethod
    def of(computation: Computation, dtypes: Mapping[str, DType], own: frozenset[str] = frozenset()) -> AccessProblem:
        """`own`: what the device computes by itself (`Device.computes`), where operations count."""
        key = ("problem", own, *(dtypes.get(t, computation.value.dtype) for t in computation.targets))
        if key not in computation.found:
            computation.found[key] = _problem(computation, dtypes, own)
        return computation.found[key]

    @property
    def axes(self) -> tuple[str, ...]:
        return self.free + self.reduced

    @cached_property
    def guarded(self) -> frozenset[str]:
        """Tensors that may be read out of bounds."""
        return frozenset(ld.tensor for ld in loads(self.computation.value) if ld.otherwise is not None)

    def sizes(self, env: Mapping[str, int]) -> dict[str, int]:
        """Extents for given sizes, at least 1."""
        key = tuple(env.items())
        if key not in self._sizes:
            self._sizes[key] = {a: max(1, int(self.extents[a].evaluate(env))) for a in self.axes}
        return self._sizes[key]

    @cached_property
    def _sizes(self) -> dict[tuple, dict[str, int]]:
        return {}


def _problem(computation: Computation, dtypes: Mapping[str, DType], own: frozenset[str]) -> AccessProblem:
    value = [computation.value]
    after = [o.value for o in computation.outputs]
    inner = tuple(_reads(value, computation))
    reads = inner + tuple(a for a in _reads(after, computation) if a.tensor != computation.name)
    named = [(o.tensor, o.indices) for o in computation.outputs] or [
        (computation.name, computation.subscripts or computation.indices)
    ]
    alias = computation.alias
    writes = tuple(
        AccessModel(t, dtypes.get(t, computation.value.dtype), tuple(((alias.get(i, i), 1),) for i in at)) for t, at in named
    )
    every = calls(computation.value, computation.alias, own)
    if computation.reduction is not None:
        every = (*every, Call(1, frozenset(computation.all_indices)))
    counted = max(1, _counted(every, computation))
    return AccessProblem(
        computation,
        computation.indices,
        computation.reduced,
        computation_extents(computation),
        reads,
        writes,
        counted,
        every,
        inner,
        sum(_counted_along(calls(v, alias, own), computation.indices[-1:]) for v in after),
    )


def calls(value: Value, alias: Mapping[str, str], own: frozenset[str] = frozenset()) -> tuple[Call, ...]:
    """The operations on scalars in a value.

    alias  index -> the fused one that stands for it
    own    what the device computes by itself (`Device.computes`)
    """
    found = []
    for v in walk(value):
        if count := _operations_of(v, own):
            read = {alias.get(x.name, x.name) for ld in loads(v) for e in ld.indices for x in e.variables()}
            found.append(Call(count, frozenset(read)))
    return tuple(found)


def _operations_of(v: Value, own: frozenset[str]) -> int:
    """Of the outermost function of a value alone."""
    if isinstance(v, Apply) and v.fn not in _FREE:
        composed = [costs[v.fn] for of, costs in _COMPOSED if of <= own and v.fn in costs and v.dtype.compute.name == "f32"]
        return composed[0] if composed else _SLOW.get(v.fn, 1)
    if not isinstance(v, Cast) or v.arg.dtype == v.dtype:
        return 0
    return 1 if v.dtype.name in own else _ROUNDED.get(v.dtype.name, 0)


def operations(value: Value, computation: Computation, own: frozenset[str] = frozenset()) -> int:
    """Operations on scalars for one element. What does not change in the innermost loop, as the logarithm of a row, is one."""
    return _counted(calls(value, computation.alias, own), computation)


def _counted(made: tuple[Call, ...], computation: Computation) -> int:
    return _counted_along(made, computation.reduced or computation.indices[-1:])


def _counted_along(made: tuple[Call, ...], inner: tuple[str, ...]) -> int:
    return sum(1 if c.axes.isdisjoint(inner) else c.operations for c in made)


def _reads(values: list, computation: Computation) -> list[AccessModel]:
    """Accesses of the values, one for each tensor and subscript."""
    alias = computation.alias
    found: dict[tuple, Load] = {}
    for v in values:
        for ld in loads(v):
            found.setdefault((ld.tensor, ld.indices, ld.otherwise), ld)
    out = []
    for ld in found.values():
        dims = tuple(_dim(e, alias, computation.all_indices) for e in ld.indices)
        once = sum(x.tensor == ld.tensor for x in found.values()) == 1
        one_fill = unheld_indices([ld], alias).isdisjoint(dict(computation.extents))
        out.append(AccessModel(ld.tensor, ld.dtype, dims, once, _fused_run(ld, computation), one_fill))
    return out


def _fused_run(ld: Load, computation: Computation) -> tuple[str, int] | None:
    """None also where the extent of the last component is open: nothing says what divides it then."""
    last = plain_index(ld.indices[-1]) if ld.indices else None
    fused = next(((name, parts) for name, parts in computation.fused if parts[-1][0] == last), None)
    if fused is None or fused[0] in computation.alias:
        return None
    extent = fused[1][-1][1].constant
    return None if extent is None else (fused[0], max(1, extent))


def _dim(e: Expr, alias: Mapping[str, str], axes: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    """A subscript as axes with coefficients; 0: the axis stands inside a quotient or a remainder."""
    out: dict[str, int] = {}
    for v in sorted(e.variables(), key=lambda v: v.name):
        name = alias.get(v.name, v.name)
        if name in axes:
            out[name] = out.get(name, 0) or (e.coefficient(v) if name == v.name else 0)
    return tuple(out.items())
