"""Products whose results another product reads, at their own elements or at the neighbours of a window: what each tile of the
reader may make for itself, whole along the index that the reader reduces.

    D[n, p, q, k] = relu(sum(r, s, c) I[n, p + r - 1, q + s - 1, c else 0] * F[r, s, c, k])
    Y[n, p, q, o] = sum(u, v, k) D[n, p + u - 1, q + v - 1, k else 0] * G[u, v, k, o]        rows n, p, q; key k; windows u, v
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ....dsl.values import loads
from ...plan.computations import Computation, computation_extents, plain_index
from .find_pairs import Pair, RimAxis, rim_axis


@dataclass(frozen=True)
class ProductPair(Pair):
    """`key`: what the reader reduces of the producer. `axes`: of its other indices, in order."""

    key: str
    axes: tuple[RimAxis, ...]

    @property
    def rows(self) -> tuple[str, ...]:
        """The reader's indices along `axes`."""
        return tuple(i for a in self.axes for i in a.steps)

    @property
    def has_rim(self) -> bool:
        return any(a.beyond for a in self.axes)

    @property
    def windows(self) -> tuple[str, ...]:
        return tuple(i for i in self.reader.reduced if i != self.key)

    def made(self, tile: dict[str, Any]) -> dict[str, Any]:
        """What a tile of the rows reads along each axis."""
        return {a.index: a.extent(tile) for a in self.axes}


def product_pair_of(computations: tuple[Computation, ...]) -> ProductPair | None:
    """None where the computations of a launch are something else, or sizes that tiles of constant size need are open."""
    if len(computations) != 2:
        return None
    first, second = computations
    if any(w.reduction is None or w.reduction.kind != "sum" or w.domain or w.fused or not w.indices for w in computations):
        return None
    if len(first.targets) != 1:
        return None
    tensor = first.targets[0]
    own = first.subscripts_of(tensor)
    read = [ld for ld in loads(second.value) if ld.tensor == tensor]
    after = any(ld.tensor == tensor for o in second.outputs for ld in loads(o.value))
    if len(read) != 1 or after or set(own) != set(first.indices):
        return None
    subscripts = dict(zip(own, read[0].indices, strict=True))
    keys = [i for i in own if plain_index(subscripts[i]) in second.reduced]
    if len(keys) != 1 or plain_index(subscripts[keys[0]]) != keys[0]:
        return None
    (key,) = keys
    found = [rim_axis(second, i, [subscripts[i]]) for i in own if i != key]
    axes = tuple(a for a in found if a is not None and list(a.steps.values()) == [1])
    if not axes or len(axes) < len(found) or len({i for a in axes for i in a.steps}) < len(axes):
        return None
    pair = ProductPair(first, second, tensor, key, axes)
    if pair.rows != tuple(i for i in second.indices if i in pair.rows) or len(pair.rows) != len(second.indices) - 1:
        return None
    mine, extents = computation_extents(first), computation_extents(second)
    if any(extents.get(i, e) != e for i, e in mine.items()):
        return None  # an index of two extents
    extents |= mine
    bounded = (key, *first.reduced, *second.reduced, *(i for i in second.indices if i not in pair.rows))
    return pair if all(extents[i].constant for i in bounded) else None
