"""Rows that are expensive and read more than once: computed once, into a cache.

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
from ....dsl.values import Value, is_expensive, loads
from ...plan.computations import plain_index
from ...plan.group_launches import shared_outputs, statements_reading
from ..access_model import calls
from ..machine_model import core_machine
from .nest_cost import OPERATION


def cached_rows(op: Op, device: Device, cores: Level, rows: tuple[str, ...], along: Iterable[str]) -> frozenset[str]:
    """Intermediates over `rows` and `along` that are worth caching, and whose rows fit."""
    outputs = shared_outputs(op)
    found = set()
    for s in repeated_rows(op, rows, along):
        extents = [e for i, e in s.ranges if i not in rows]
        if cache_for(device, cores, extents, s.value, stored=s.target in outputs) is not None:
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


def cache_for(device: Device, cores: Level, extents: Iterable[Expr], value: Value, *, stored: bool) -> str | None:
    """The smallest cache with room for twice so many values; None if there is none, or no bound.

    stored   readers find it in memory if it is not kept; otherwise they compute it again
    """
    highest = [e.interval[1] for e in extents]
    if None in highest:
        return None
    size = prod(n or 0 for n in highest) * value.dtype.bytes
    fits = [(room, name) for name, room in caches_for(device, cores, value, stored=stored) if room >= 2 * size]
    return min(fits)[1] if fits else None


def caches_for(device: Device, cores: Level, value: Value, *, stored: bool = False) -> list[tuple[str, float]]:
    """Caches worth keeping a row of such values in, with the bytes that one core has of each.

    SHARED   what a core has of a cache of all cores, if a vector is there, written and read, sooner than computed again.
    """
    mine = [(m.name, float(m.capacity or 0)) for m in device.memories if m.level == cores.name and m.backing is not None]
    cpu, lane = core_machine(device), device.levels[-1]
    if stored or cpu is None or not lane.bytes:
        return mine
    cycles = OPERATION * sum(c.operations for c in calls(value, {})) / lane.bytes  # for a byte
    shared = zip(cpu.shared, cpu.caches[len(cpu.private) :], strict=False)
    return [*mine, *((m.name, room) for m, (room, rate) in shared if 2 / rate < cycles)]
