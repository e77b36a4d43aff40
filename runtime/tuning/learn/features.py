"""The features of a schedule for a task: numbers that say how its program uses the machine, and what the closed form predicts.

DIMENSIONLESS  Counts are per operation of the op, bytes per byte of its arguments, footprints per capacity, times per predicted
               time, all as binary logarithms. So they mean the same for ops and sizes that were never measured.
FIXED          Every schedule has the same features, in the order of `NAMES`. What a device or a program does not have is NaN.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, isfinite, log2, nan

from ....codegen.ir.program import Program
from ....codegen.ir.tile_visitors import statements
from ....codegen.lower.capacity import memory_peaks
from ....codegen.schedule.candidate import Cost
from ....dsl.device import Device
from ....dsl.op import Op
from ...op_counts import argument_bytes, flops
from .cache_traffic import LaunchTraffic
from .walk_program import LaunchWalk, Straight, walk_program

VERSION = 1  # of the features: a model of another version is of no use
_ISSUED = (
    "operations", "accumulated", "moved", "loaded alike", "loaded beside", "loaded apart", "loaded anywhere", "stored alike",
    "stored beside", "stored apart", "stored anywhere", "past caches", "copied", "masked", "branches", "turns", "tiles",
    "combined", "lets", "barriers",
)  # fmt: skip
_PARTS = ("arithmetic", "memory", "packing")
_CACHES = 3
_HOT = ("trips", "work", "loads", "stores", "work per access", "sums", "chain", "share")
NAMES = (
    "flops", "bytes", "flops per byte", "launches", "element bytes", "statements", "predicted", "bytes predicted",
    *(f"predicted {x}" for x in _PARTS),
    "issued", "issued per predicted",
    *_ISSUED,
    *(f"cache {n}: {x}" for n in range(_CACHES) for x in ("fetched", "fits", "all")),
    *(f"innermost: {x}" for x in _HOT),
    "registers", "staged", "distributed", "idle units",
)  # fmt: skip


def features(
    op: Op, device: Device, program: Program, cost: Cost | None, sizes: Mapping[str, int], threads: int
) -> tuple[float, ...]:
    """The features of a program, in the order of `NAMES`.

    op     with its sizes or without        sizes    of all dimensions
    cost   of the closed form               threads  how many threads of a CPU take part
    """
    known = op.all_sizes(sizes)
    finite = {level: min(threads, device.level(level).most or threads) for level, _ in program.finite}
    walks = walk_program(program, known, finite)
    work, moved = max(1.0, float(flops(op, known))), max(1.0, float(argument_bytes(op, known)))
    found: dict[str, float] = {}
    found["flops"], found["bytes"], found["flops per byte"] = log2(work), log2(moved), log2(work / moved)
    found["launches"] = log2(max(1, len(walks)))
    found["element bytes"] = log2(min(b.dtype.bytes for b in program.buffers))
    found["statements"] = log2(1 + sum(len(statements(x.body)) for x in program.launches))
    found |= _issued(walks, work, program, device)
    found |= _predicted(cost, work, moved, found.pop("cycles"), device)
    found |= _caches(walks, moved, device)
    found |= _innermost(walks)
    found |= _room(program)
    found |= _units(walks, finite)
    return tuple(_number(found.get(name, nan)) for name in NAMES)


def _number(x: float) -> float:
    return float(x) if isfinite(x) else nan


def _ratio(a: float, b: float) -> float:
    return log2((a + 1e-3) / (b + 1e-3))


def _issued(walks: list[LaunchWalk], work: float, program: Program, device: Device) -> dict[str, float]:
    """What is issued for the operations of a vector of f32."""
    counts: dict[str, float] = {}
    for w in walks:
        for kind, n in w.counts.items():
            counts[kind] = counts.get(kind, 0.0) + n
    inner = device.levels[-1]
    unit = max(1.0, work / max(1, (inner.bytes or 4) // 4, inner.width or 1))
    out = {kind: _ratio(counts.get(kind, 0.0) / unit, 0.0) for kind in _ISSUED}
    total = sum(n for kind, n in counts.items() if kind not in ("copied", "lets"))
    return out | {"issued": _ratio(total / unit, 0.0), "cycles": total}


def _predicted(cost: Cost | None, work: float, moved: float, issued: float, device: Device) -> dict[str, float]:
    """Beside the least time of the arithmetic at a vector's lanes a cycle, and of the arguments at the rate of memory."""
    if cost is None or not cost.seconds > 0:
        return {}
    clock, bandwidth = device.limit("clock") or 1e9, device.memories[0].bandwidth
    lanes = max(1, (device.levels[-1].bytes or 4) // 4, device.levels[-1].width or 1)
    out = {"predicted": _log(float(cost.seconds) * clock * lanes / work)}
    if bandwidth:
        out["bytes predicted"] = _log(float(cost.seconds) * bandwidth / moved)
    out["issued per predicted"] = _log(issued / (float(cost.seconds) * clock))
    return out | {f"predicted {x}": _log(float(cost.parts[x]) / float(cost.seconds)) for x in _PARTS if x in cost.parts}


def _log(x: float) -> float:
    return log2(max(x, 1e-6))


def _caches(walks: list[LaunchWalk], moved: float, device: Device) -> dict[str, float]:
    capacities = [m.capacity for m in reversed(device.memories) if m.backing is not None and m.capacity]
    traffic = [LaunchTraffic(w.top) for w in walks]
    out = {}
    for n, capacity in enumerate(capacities[:_CACHES]):
        out[f"cache {n}: fetched"] = _log(sum(t.fetched(capacity) for t in traffic) / moved)
        out[f"cache {n}: fits"] = _log(max((t.innermost_fitting(capacity) for t in traffic), default=0.0) / capacity)
        out[f"cache {n}: all"] = _log(max((t.footprint() for t in traffic), default=0.0) / capacity)
    return out


def _innermost(walks: list[LaunchWalk]) -> dict[str, float]:
    """Of the straight code in which most is issued."""

    def weight(s: Straight) -> float:
        return s.times * (s.work + s.loads + s.stores)

    every = [s for w in walks for s in w.straight]
    hot = max(every, key=weight)
    total = sum(map(weight, every))
    values = (
        hot.loop.trips if hot.loop is not None else 1.0, hot.work, hot.loads, hot.stores,
        hot.work / max(hot.loads + hot.stores, 0.01), hot.sums, hot.chain, weight(hot) / total if total else 1.0,
    )  # fmt: skip
    return {f"innermost: {name}": _ratio(x, 0.0) for name, x in zip(_HOT, values, strict=True)}


def _room(program: Program) -> dict[str, float]:
    """Registers and staging memory that are needed, for those that there are."""
    out = {"registers": -10.0, "staged": -10.0}
    for peak in memory_peaks(program).values():
        if peak.memory.registers is not None:
            count, size = peak.memory.registers
            out["registers"] = max(out["registers"], _log(peak.bytes / (count * size)))
        elif peak.memory.capacity:
            out["staged"] = max(out["staged"], _log(peak.bytes / peak.memory.capacity))
    return out


def _units(walks: list[LaunchWalk], finite: Mapping[str, int]) -> dict[str, float]:
    tasks, units = max((w.tasks for w in walks), default=1.0), max([1, *finite.values()])
    return {"distributed": _log(tasks / units), "idle units": _log(ceil(max(1.0, tasks) / units) * units / max(1.0, tasks))}
