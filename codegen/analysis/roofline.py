"""The least time of a program: each memory moves its bytes and the units do the arithmetic, all at the device's full rates.

The roofline of Williams, Waterman and Patterson ("Roofline: An Insightful Visual Performance Model", CACM 2009). A memory
behind caches counts each argument once, and what launches hand over to later ones and the caches cannot keep between them.
How often the rest reaches it depends on the caches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from ...dsl.device import Device
from ..ir.program import Program
from ..ir.tile_ir import AllReduce, Call, Store
from ..ir.tile_visitors import statements
from .static_traffic import StaticTraffic


@dataclass(frozen=True)
class Prediction:
    """`seconds` by resource: memories by name, `arithmetic`; the largest is the bound."""

    seconds: dict[str, float]

    @property
    def bound(self) -> str:
        return max(self.seconds, key=lambda name: self.seconds[name])

    @property
    def total(self) -> float:
        return self.seconds[self.bound]


def predict(
    device: Device, known: StaticTraffic, flops: int, least: int, rate: str, finite: Mapping[str, int] | None = None
) -> Prediction | None:
    """`least`: bytes that must cross the outermost memory; `rate`: the device's name for the rate of most of the arithmetic, as
    `f32`.

    None if the device states no rates.
    """
    seconds: dict[str, float] = {}
    backed = {m.backing for m in device.memories}
    for m in device.memories:
        if m.bandwidth:
            moved = least if m.name in backed else known.moved(m.name)
            seconds[m.name] = moved / m.bandwidth
    one = device.limit(rate)
    if one:
        seconds["arithmetic"] = flops / (one * units_of(device, finite))
    return Prediction(seconds) if seconds else None


def bytes_between_launches(device: Device, known: StaticTraffic, finite: Mapping[str, int] | None = None) -> int:
    """The least bytes that cross the outermost memory since launches hand tensors over to later ones.

    When a launch begins, the caches hold at most their capacity of what it reads; when it ends, of what it wrote. A cache whose
    capacity the device does not state may hold everything.
    """
    kept = 0
    for m in device.memories:
        if m.backing is not None:
            if m.capacity is None:
                return 0
            kept += m.capacity * _instances(device, m.level, finite)
    return sum(max(0, n - kept) for launch in known.handed_over for n in launch)


def _instances(device: Device, level: str, finite: Mapping[str, int] | None) -> int:
    """The number of memories that the units of a level have, one each."""
    outside = device.levels[1 : device.depth(level) + 1]
    return prod((finite or {}).get(x.name) or x.most or 1 for x in outside)


def units_of(device: Device, finite: Mapping[str, int] | None) -> int:
    """The number of units that a rate `per core` or `per unit` is for: those of finite levels that take part, else the
    device's."""
    counts = [(finite or {}).get(x.name) or x.most or 1 for x in device.levels[1:] if x.units == "finite"]
    return prod(counts) if counts else int(device.limit("units") or 1)


def carried_results(program: Program) -> frozenset[str]:
    """The results of prefix reductions whose rows go on from those before."""
    found = (s for launch in program.launches for s in statements(launch.body))
    steps = (s.contribution for s in found if isinstance(s, Store | Call | AllReduce))
    return frozenset(c.result for c in steps if c is not None and c.role == "carry")
