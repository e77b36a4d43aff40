"""A random case for a GPU while it is written, and the instructions for matrices that it may use."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random

from andiron.dsl.device import Device
from andiron.dsl.module import std_device

_TENSOR = re.compile(r"(?:mma|mfma|wmma)_m?(\d+)[nx](\d+)[kx](\d+)_(\w+)")
# element type -> how a product of two is written; what their sum has
PRODUCTS = {
    "f16": ("f32({}) * f32({})", "f32"),
    "bf16": ("f32({}) * f32({})", "f32"),
    "f8e4m3": ("f32({}) * f32({})", "f32"),
    "f8e5m2": ("f32({}) * f32({})", "f32"),
    "tf32": ("f32(tf32({})) * f32(tf32({}))", "f32"),
    "i8": ("i32({}) * i32({})", "i32"),
    "i32": ("{} * {}", "i32"),
    "f32": ("{} * {}", "f32"),
    "f64": ("{} * {}", "f64"),
}


@dataclass(frozen=True)
class Tensor:
    """An instruction of a tensor unit: `m`, `n`, `k` as its name says them."""

    name: str
    m: int
    n: int
    k: int
    dtype: str


@lru_cache(maxsize=8)
def tensors(device: str) -> tuple[Tensor, ...]:
    found = []
    for i in gpu(device).instrs:
        if (x := _TENSOR.fullmatch(i.name)) and x[4] in PRODUCTS:
            found.append(Tensor(i.name, int(x[1]), int(x[2]), int(x[3]), x[4]))
    return tuple(found)


def gpu(name: str) -> Device:
    device = std_device(name)
    assert device is not None
    return device


@dataclass
class Draft:
    """A case being written."""

    rng: Random
    device: str
    name: str
    head: str = ""
    body: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    exact: bool = True
    nonempty: set[str] = field(default_factory=set)
    sizes: dict[str, int] = field(default_factory=dict)
    whole: set[str] = field(default_factory=set)  # sizes that are compiled in, and multiples of their tiles

    @property
    def warp(self) -> str:
        return gpu(self.device).levels[-2].name

    @property
    def lanes(self) -> int:
        return gpu(self.device).levels[-1].width or 32

    @property
    def copies(self) -> bool:
        return self.device.startswith("sm")

    def maybe(self, chance: float) -> bool:
        return self.rng.random() < chance

    def pick(self, *of):
        return self.rng.choice(of)

    def line(self, text: str, block: list[str] | None = None) -> None:
        self.lines.append(text + (":" + "".join(f"\n    {x}" for x in block) if block else ""))

    def size(self, name: str, *near: int) -> None:
        """A size about one of these, seldom 1 or 0."""
        n = max(2, self.rng.choice(near) + self.rng.choice((-3, -1, 0, 0, 1, 3)))
        pick = self.rng.random()
        self.sizes[name] = 1 if pick < 0.06 else 0 if pick < 0.1 and name not in self.nonempty else n
