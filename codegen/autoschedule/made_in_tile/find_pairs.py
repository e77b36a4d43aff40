"""Producers that may be made in the tile of what reads them: which pairs of computations these are, and how far a tile reads.

PRODUCTS     a product whose results are a factor of another one is such a producer as well: of a band of rows
             (`one_pass.find_pass.product_of_product`).

    B[i, j] = X[i - 1, j else 0] + X[i, j]                 a tile of 16 x 64 results reads 18 x 64 elements of B
    Y[i, j] = B[i - 1, j else 0] + B[i + 1, j else 0]

ONE_READER   one computation reads the producer, at other elements than its own: at its own, it would be inlined, or ride along.
CONSTANT     what a tile reads has the same extent wherever the tile is: all reads move with it alike, at constant distances.
WINDOWS      reductions have a few terms, a number of them that is known. Products of channels reuse operands: they have nests
             of their own, which keep more in registers than recomputation at the rim saves of memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from ....dsl.index.expr import Expr, as_expr
from ....dsl.op import Op, Statement
from ....dsl.values import loads
from ...plan.computations import Computation, plain_index

WINDOW = 64  # terms: of a reduction of a pair, at most [limit]


def read_beyond(op: Op) -> frozenset[str]:
    """Intermediates that one statement reads, at other elements than its own: what may be the producer of a pair."""
    readers: dict[str, list[Statement]] = {}
    for s in op.statements:
        for t in {ld.tensor for ld in loads(s.value)}:
            readers.setdefault(t, []).append(s)
    inner = {t.name for t in op.tensors if t.role == "intermediate"}
    alone = {t: found[0] for t, found in readers.items() if t in inner and len(found) == 1}
    return frozenset(
        t
        for t, s in alone.items()
        if any(ld.otherwise is not None or None in map(plain_index, ld.indices) for ld in loads(s.value) if ld.tensor == t)
    )


def factors_of_products(op: Op) -> frozenset[str]:
    """Intermediates that depend on a sum, and are a factor of one other sum alone: what may be the producer of a pair."""
    inner = {t.name for t in op.tensors if t.role == "intermediate"}
    reads = [(s, {ld.tensor for ld in loads(s.value)}) for s in op.statements]
    sums: set[str] = set()  # and what is computed of these
    for s, read in reads:
        sums |= {s.target} if s.reduction is not None or not sums.isdisjoint(read) else set()
    readers = {t: [s for s, read in reads if t in read] for t in inner & sums}
    return frozenset(t for t, found in readers.items() if len(found) == 1 and _is_sum_of_products(found[0]))


def _is_sum_of_products(s: Statement) -> bool:
    return s.reduction is not None and s.reduction.kind == "sum" and len({ld.tensor for ld in loads(s.value)}) > 1


@dataclass(frozen=True)
class RimAxis:
    """What a tile of the reader reads along an `index` of the producer: 1 + `beyond`, and `steps` (the reader's index ->
    distance) for each further element of the tile."""

    index: str
    steps: Mapping[str, int]
    beyond: int

    def extent(self, tile: Mapping[str, Any]) -> Any:
        return 1 + self.beyond + sum(c * (tile.get(i, 1) - 1) for i, c in self.steps.items())


@dataclass(frozen=True)
class Pair:
    """The `producer` makes `tensor`, which the `reader` alone reads."""

    producer: Computation
    reader: Computation
    tensor: str


@dataclass(frozen=True)
class MadePair(Pair):
    """Of the tensor, tiles of the reader read so much along each axis."""

    axes: tuple[RimAxis, ...]

    def made(self, tile: Mapping[str, Any]) -> dict[str, Any]:
        """The extents that the producer is made with for a tile of the reader."""
        return {a.index: a.extent(tile) for a in self.axes}


def pair_of(computations: tuple[Computation, ...]) -> MadePair | None:
    """ONE_READER, CONSTANT, WINDOWS. None where the computations of a launch are no such pair."""
    if len(computations) != 2:
        return None
    producer, reader = computations
    if len(producer.targets) != 1 or producer.alias or reader.alias or not producer.indices or not reader.indices:
        return None
    tensor = producer.targets[0]
    reads = [ld for ld in loads(reader.value) if ld.tensor == tensor]
    own = producer.subscripts_of(tensor)
    after = any(ld.tensor == tensor for o in reader.outputs for ld in loads(o.value))
    if not reads or after or not (is_window(producer) and is_window(reader)) or set(own) != set(producer.indices):
        return None
    if all(ld.otherwise is None and tuple(map(plain_index, ld.indices)) == own for ld in reads):
        return None
    axes = [rim_axis(reader, i, [ld.indices[n] for ld in reads]) for n, i in enumerate(own)]
    known = tuple(a for a in axes if a is not None)
    return MadePair(producer, reader, tensor, known) if len(known) == len(axes) else None


def is_window(w: Computation) -> bool:
    """WINDOWS. Argument reductions have accumulators of two parts, which nests for rows are made for."""
    extents = dict(w.extents)
    terms = [extents[i].constant for i in w.reduced]
    argument = w.reduction is not None and w.reduction.kind in ("argmax", "argmin")
    return not argument and None not in terms and 0 < prod(n or 0 for n in terms) <= WINDOW


def rim_axis(reader: Computation, index: str, subscripts: list[Expr]) -> RimAxis | None:
    """CONSTANT. None where it is not."""
    extents = dict(reader.extents)
    ends: list[tuple[Expr, Expr]] = []
    steps: dict[str, int] | None = None
    for e in subscripts:
        rest, low, high, mine = e, 0, 0, {}
        for v in e.variables():
            c = e.coefficient(v)
            if v.name not in reader.all_indices:
                continue
            rest = rest - as_expr(v) * c
            if v.name in reader.indices:
                mine[v.name] = c
            else:
                far = c * ((extents[v.name].constant or 1) - 1)
                low, high = low + min(0, far), high + max(0, far)
        if any(v.name in reader.all_indices for v in rest.variables()) or (steps is not None and mine != steps):
            return None
        steps = mine
        ends.append((rest + low, rest + high))
    first = ends[0][0]
    lows, highs = [(a - first).constant for a, _ in ends], [(b - first).constant for _, b in ends]
    known = [n for n in (*lows, *highs) if n is not None]
    if len(known) < 2 * len(ends) or steps is None:
        return None
    return RimAxis(index, {i: abs(c) for i, c in steps.items()}, max(known) - min(known))
