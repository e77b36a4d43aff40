"""The least time of a program: each memory moves its bytes and the units do the arithmetic, all at the device's full rates.

The roofline of Williams, Waterman and Patterson ("Roofline: An Insightful Visual Performance Model", CACM 2009). A memory
behind caches counts each argument once; how often the rest reaches it depends on the caches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from ...dsl.device import Device
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
    """`least`: bytes of all arguments; `rate`: the device's name for the rate of most of the arithmetic, as `f32`.

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


def units_of(device: Device, finite: Mapping[str, int] | None) -> int:
    """The number of units that a rate `per core` or `per unit` is for: those of finite levels that take part, else the
    device's."""
    counts = [(finite or {}).get(x.name) or x.most or 1 for x in device.levels[1:] if x.units == "finite"]
    return prod(counts) if counts else int(device.limit("units") or 1)
