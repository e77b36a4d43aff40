"""Rows that are expensive and read more than once: computed once, into a cache of the core.

softmax: `e[i, j] = exp(X[i, j] - top[i])` is summed and divided. If no bound on the row is known, it is computed twice, because
its buffer needs a size at compile time. An output that others read is computed once anyway; where it is kept, it is not read
again from where it is stored.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from ....dsl.device import Device, Level
from ....dsl.index.expr import Expr
from ....dsl.op import Op, Statement
from ....dsl.values import is_expensive, loads
from ...plan.computations import plain_index
from ...plan.group_launches import shared_outputs, statements_reading


def cached_rows(op: Op, device: Device, cores: Level, rows: tuple[str, ...], along: Iterable[str]) -> frozenset[str]:
    """Intermediates over `rows` and `along` that are worth caching, and whose rows fit."""
    found = set()
    for s in repeated_rows(op, rows, along):
        extents = [e for i, e in s.ranges if i not in rows]
        if cache_for(device, cores, extents, s.value.dtype.bytes) is not None:
            found.add(s.target)
    return frozenset(found)


def repeated_rows(op: Op, rows: tuple[str, ...], along: Iterable[str]) -> tuple[Statement, ...]:
    """Those that compute rows over `rows` and `along`: outputs that others read, and intermediates which are expensive and read
    more than once."""
    every = {*rows, *along}
    inner, outputs = {t.name for t in op.tensors if t.role == "intermediate"}, shared_outputs(op)
    out = []
    for s in op.statements:
        if s.target not in inner | outputs or s.reduction is not None or set(s.indices) != every:
            continue
        readers = statements_reading(op, s.target)
        reads = [ld for x in readers for ld in loads(x.value) if ld.tensor == s.target]
        of_rows = all(i in every for x in readers for i, _ in x.ranges)
        once = (s.target in outputs and of_rows) or (s.target in inner and len(reads) > 1 and is_expensive(s.value))
        if once and all(plain_index(e) is not None for ld in reads for e in ld.indices):
            out.append(s)
    return tuple(out)


def cache_for(device: Device, cores: Level, extents: Iterable[Expr], bytes_: int) -> str | None:
    """The smallest of a core's caches with room for twice so many elements; None if there is none, or no bound."""
    highest = [e.interval[1] for e in extents]
    if None in highest:
        return None
    size = prod(n or 0 for n in highest) * bytes_
    caches = [m for m in device.memories if m.level == cores.name and m.backing is not None and (m.capacity or 0) >= 2 * size]
    return min(caches, key=lambda m: m.capacity or 0).name if caches else None
