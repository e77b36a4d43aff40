"""Rows that are expensive and read more than once: computed once, into a cache.

softmax: `e[i, j] = exp(X[i, j] - top[i])` is summed and divided. If no bound on the row is known, it is computed twice, because
its buffer needs a size at compile time. An output that others read is computed once anyway; where it is kept, it is not read
again from where it is stored.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import NamedTuple

from ....dsl.device import Device, Level
from ....dsl.index.expr import Expr
from ....dsl.op import Op, Statement
from ....dsl.values import Value, is_expensive, loads
from ...plan.computations import plain_index
from ...plan.group_launches import shared_outputs, statements_reading
from ..access_model import calls
from ..machine_model import core_machine
from .nest_cost import OPERATION


class HeldRow(NamedTuple):
    """What is made of each row: elements of these extents. `stored`: readers find it in memory if it is not kept; else they
    compute it again."""

    name: str
    extents: tuple[Expr, ...]
    value: Value
    stored: bool


def cached_rows(op: Op, device: Device, cores: Level, rows: tuple[str, ...], along: Iterable[str]) -> frozenset[str]:
    """Intermediates over `rows` and `along` that are worth caching, and whose rows fit together."""
    outputs = shared_outputs(op)
    made = [
        HeldRow(s.target, tuple(e for i, e in s.ranges if i not in rows), s.value, s.target in outputs)
        for s in repeated_rows(op, rows, along)
    ]
    return frozenset(caches_of(device, cores, made))


def caches_of(device: Device, cores: Level, rows: Iterable[HeldRow]) -> dict[str, str]:
    """The memory of each row for which there is room beside those before it: the smallest cache with twice the bytes of all of
    these. What is stored comes first. None of a row without a bound."""
    found, held = {}, 0
    for row in sorted(rows, key=lambda x: (not x.stored, x.name)):
        highest = [e.interval[1] for e in row.extents]
        size = prod(n or 0 for n in highest) * row.value.dtype.bytes
        fits = [(room, name) for name, room in caches_for(device, cores, row) if room >= 2 * (held + size)]
        if fits and None not in highest:
            found[row.name], held = min(fits)[1], held + size
    return found


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


def caches_for(device: Device, cores: Level, row: HeldRow) -> list[tuple[str, float]]:
    """Caches worth keeping such a row in, with the bytes that one core has of each.

    SHARED   what a core has of a cache of all cores, if a vector is there, written and read, sooner than computed again.
    """
    mine = [(m.name, float(m.capacity or 0)) for m in device.memories if m.level == cores.name and m.backing is not None]
    cpu, lane = core_machine(device), device.levels[-1]
    if row.stored or cpu is None or not lane.bytes:
        return mine
    cycles = OPERATION * sum(c.operations for c in calls(row.value, {})) / lane.bytes  # for a byte
    shared = zip(cpu.shared, cpu.caches[len(cpu.private) :], strict=False)
    return [*mine, *((m.name, room) for m, (room, rate) in shared if 2 / rate < cycles)]
