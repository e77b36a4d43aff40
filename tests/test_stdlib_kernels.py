"""Every op of the library runs natively, with nothing written in its schedule: right at odd sizes, at 1 and at 0."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest
from andiron.dsl.errors import UserError
from andiron.dsl.module import loads
from andiron.dsl.ops.bind_op import bind_params
from andiron.runtime.compile import compile
from andiron.runtime.verdict import check

from .test_stdlib_ops import OPS, POSITIVE, ROOT, shapes, values

POISON = {"f": np.nan, "V": np.nan, "i": -77, "u": 77, "b": True}


def poisoned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    out = np.empty(shape, dtype)
    out[...] = POISON.get(dtype.kind, 77)
    return out


@lru_cache(maxsize=1)
def library():
    return loads("".join(f"import std.ops.{f.stem}\n" for f in sorted(ROOT.glob("*.sched"))))


@pytest.mark.parametrize("name", OPS)
def test_right(name: str) -> None:
    op = bind_params(OPS[name])
    kernel = compile(library(), op=name, target="cpu")
    for mode in ("odd", "1", "0"):
        rng = np.random.default_rng(3)
        sizes = shapes(op, mode)
        arrays = [values(rng, t.dtype, tuple(e.evaluate(sizes) for e in t.shape), name in POSITIVE) for t in op.inputs]
        if any(c.evaluate(sizes) < 0 for c, _ in op.conditions if c.variables() <= {*op.dims}):
            continue  # a window larger than what it slides over
        everything = dict(sizes)
        for v, e in op.derived:
            everything[v.name] = e.evaluate(everything)
        out = [poisoned(tuple(e.evaluate(everything) for e in t.shape), t.dtype.numpy) for t in op.outputs]
        if mode == "0" and "arg" in name:
            continue  # the place of the greatest of nothing: refused by the reference
        try:
            kernel(*arrays, out=out[0] if len(out) == 1 else tuple(out), threads=2)
        except UserError:
            if mode != "0":  # of nothing some ops may say that they have no result
                raise
            continue
        verdict = check(op, arrays, out)
        assert verdict.ok, (mode, sizes, verdict)
