"""One case: an op, a schedule, a device and sizes; all that is needed to run it, and to print it for others to run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import Any

import numpy as np
from andiron.dsl.device import Device
from andiron.dsl.module import loads, std_device
from andiron.dsl.ops.specialise import bind_params, specialise

from .formula import DTYPES, size
from .model import Op
from .wide.spelling import spelled

CORES = 3


@dataclass(frozen=True)
class Case:
    """`schedule`: the text of schedule `s` and what it needs; "" for the compiler's own. `device_text`: of a device of its own.
    `fixed`: sizes known when compiling. `special`: inputs have infinities and NaN among their numbers. `spelling`: the seed of
    how the text is spelled; None: plainly."""

    seed: int
    op: Op
    schedule: str
    device: str
    device_text: str
    sizes: tuple[tuple[str, int], ...]
    fixed: tuple[str, ...]
    cores: int = CORES
    special: bool = False
    spelling: int | None = None

    @property
    def text(self) -> str:
        text = "\n".join(x for x in (self.op.text, self.schedule, self.device_text) if x)
        return text if self.spelling is None else spelled(text, Random(self.spelling))

    def __str__(self) -> str:
        sizes = ", ".join(f"{n}={x}" + ("" if n in self.fixed else " (open)") for n, x in self.sizes)
        more = ", with NaN and infinities" if self.special else ""
        return f"# on {self.device}, {sizes}, {self.cores} cores, inputs of seed {self.seed}{more}\n{self.text}"


def inputs(case: Case) -> dict[str, np.ndarray]:
    """Small whole numbers, so that results are exact."""
    rng = np.random.default_rng(case.seed)
    known = with_derived(case.op, dict(case.sizes))
    out = {}
    for t in case.op.inputs:
        shape = [size(e, known) for e in t.shape]
        low, high = (0, 2) if t.dtype == "bool" else (0, 4) if t.dtype == "u8" else (-3, 4)
        array = rng.integers(low, high, shape).astype(DTYPES[t.dtype])
        if case.special and t.dtype in ("f64", "f32", "f16", "bf16") and array.size:
            flat = array.reshape(-1)
            for value in (np.nan, np.inf, -np.inf):
                flat[rng.integers(0, flat.size)] = value
        out[t.name] = array
    return out


@lru_cache(maxsize=64)
def device_of(name: str, text: str) -> Device:
    found = loads(text).device(name) if text else std_device(name)
    assert found is not None, name
    return found


def module_and_op(case: Case) -> tuple[Any, Any]:
    """The module, and the op with its fixed sizes. Raises UserErrors of the op or of the text."""
    module = loads(case.text)
    known = dict(case.sizes)
    op = bind_params(module.ops[case.op.name], {n: x for n, x, default in case.op.params if x != default})
    return module, specialise(op, {n: known[n] for n in case.fixed})


def points(op: Op, sizes: Mapping[str, int]) -> int:
    """Of all statements' iteration spaces; loops around one of no turns are counted."""
    known = with_derived(op, sizes)
    total = 0
    for s in op.statements:
        n = 1
        for _, e in s.ranges:
            n *= max(1, size(e, known))
        total += n
    return total


def with_derived(op: Op, sizes: Mapping[str, int]) -> dict[str, int]:
    known = dict(sizes) | {n: x for n, x, _ in op.params}
    for name, e in op.derived:
        known[name] = size(e, known)
    return known


SIZES = (2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 15, 16, 17, 19, 23, 24, 31, 32, 33, 37, 40, 48, 50, 63, 64, 65, 67, 100, 127, 130)


def random_sizes(rng: Random, op: Op, most: int) -> dict[str, int]:
    """Sizes with some `most` points at most; now and then a 1 or a 0."""
    for _ in range(60):
        sizes = {n: rng.choice(SIZES) for n in op.dims}
        if rng.random() < 0.15:
            sizes[rng.choice(op.dims or ("",))] = 1
        if rng.random() < 0.07 and op.dims:
            name = rng.choice(op.dims)
            sizes[name] = 1 if name in op.nonempty else 0
        sizes = {n: sizes[n] for n in op.dims}
        if "R" in dict(op.least):
            sizes["R"] = rng.randint(1, 3)
        sizes = {n: max(x, dict(op.least).get(n, 0)) for n, x in sizes.items()}
        if points(op, sizes) <= most and _derived_fit(op, sizes):
            return sizes
        op_most = max(2, int(most ** (1 / max(1, len(op.dims)))))
        small = {n: max(rng.randint(min(2, op_most), op_most), dict(op.least).get(n, 0)) for n in op.dims}
        if "R" in dict(op.least):
            small["R"] = rng.randint(1, 3)
        if points(op, small) <= most and _derived_fit(op, small) and rng.random() < 0.4:
            return small
    return {n: max(2, dict(op.least).get(n, 0)) for n in op.dims}


def _derived_fit(op: Op, sizes: Mapping[str, int]) -> bool:
    known = with_derived(op, sizes)
    return all(known[n] >= 0 for n, _ in op.derived)
