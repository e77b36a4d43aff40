"""Ops of the library at odd sizes, at 1 and at 0: arrays to call a kernel with, and what its results are asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from andiron.dsl.errors import UserError
from andiron.dsl.module import Module, loads
from andiron.dsl.op import Op
from andiron.runtime.check_results import check

from ..paths import STDLIB
from .ops import POSITIVE, shapes, values

MODES = ("odd", "1", "0")
POISON = {"f": np.nan, "V": np.nan, "i": -77, "u": 77, "b": True}


@dataclass(frozen=True)
class Case:
    """`out`: memory for results in which nothing is right yet."""

    mode: str
    sizes: dict[str, int]
    arrays: list[np.ndarray]
    out: list[np.ndarray]


@lru_cache(maxsize=1)
def library() -> Module:
    """All ops of the library."""
    return loads("".join(f"import std.ops.{f.stem}\n" for f in sorted((STDLIB / "ops").glob("*.sched"))))


def cases(op: Op, modes: Sequence[str] = MODES) -> Iterator[Case]:
    """Left out: a window larger than what it slides over, and the place of the greatest of nothing."""
    for mode in modes:
        rng = np.random.default_rng(3)
        sizes = shapes(op, mode)
        if any(c.evaluate(sizes) < 0 for c, _ in op.conditions if c.variables() <= {*op.dims}) or (
            mode == "0" and "arg" in op.name
        ):
            continue
        arrays = [values(rng, t.dtype, tuple(e.evaluate(sizes) for e in t.shape), op.name in POSITIVE) for t in op.inputs]
        everything = op.all_sizes(sizes)
        out = [poisoned(tuple(e.evaluate(everything) for e in t.shape), t.dtype.numpy) for t in op.outputs]
        yield Case(mode, sizes, arrays, out)


def check_right(op: Op, call: Callable[[Case], object], modes: Sequence[str] = MODES) -> None:
    """`call` gives the results of a case, one or a tuple. Of nothing an op may say that it has no result."""
    for case in cases(op, modes):
        try:
            results = call(case)
        except UserError:
            if case.mode != "0":
                raise
            continue
        verdict = check(op, case.arrays, list(results) if isinstance(results, tuple) else [results])
        assert verdict.ok, (case.mode, case.sizes, verdict)


def into(kernel: Callable[..., object], **options: object) -> Callable[[Case], object]:
    """Calls that write into poisoned memory, so that what is not written is seen."""

    def call(case: Case) -> object:
        kernel(*case.arrays, out=case.out[0] if len(case.out) == 1 else tuple(case.out), **options)
        return tuple(case.out)

    return call


def poisoned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Memory for a result, with what no op gives."""
    out = np.empty(shape, dtype)
    out[...] = POISON.get(dtype.kind, 77)
    return out
