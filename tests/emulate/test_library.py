"""Every op of the library runs under the emulator, with nothing written in its schedule: right at odd sizes, with no report."""

from __future__ import annotations

import os

import numpy as np
import pytest
from andiron.dsl.errors import UserError
from andiron.dsl.ops.bind_op import bind_params
from andiron.runtime.compile import compile
from andiron.runtime.verdict import check

from ..test_stdlib_kernels import library, poisoned
from ..test_stdlib_ops import OPS, POSITIVE, shapes, values

# All ops on one device; on the others those of each kind of nest, and a slice, another one for each; ALL_OPS=1: all on all.
FEW = {"gemm", "gemm_f16_f32", "softmax", "layernorm", "conv2d", "conv2d_i8", "transpose", "row_argmax", "dot"}
OTHERS = ("gfx90a", "sm_90a", "gfx1100")
EVERY = 1 if os.environ.get("ALL_OPS") else 12
CASES = [("sm_80", n) for n in OPS] + [
    (d, n) for at, d in enumerate(OTHERS) for i, n in enumerate(OPS) if n in FEW or (i - at) % EVERY == 0
]


@pytest.mark.parametrize(("device", "name"), CASES)
def test_right(device: str, name: str) -> None:
    op = bind_params(OPS[name])
    kernel = compile(library(), op=name, target=f"emulate:{device}")
    for mode in ("odd", "1", "0"):
        rng = np.random.default_rng(3)
        sizes = shapes(op, mode)
        arrays = [values(rng, t.dtype, tuple(e.evaluate(sizes) for e in t.shape), name in POSITIVE) for t in op.inputs]
        if any(c.evaluate(sizes) < 0 for c, _ in op.conditions if c.variables() <= {*op.dims}):
            continue  # a window larger than what it slides over
        if mode == "0" and "arg" in name:
            continue  # the place of the greatest of nothing: refused by the reference
        everything = dict(sizes)
        for v, e in op.derived:
            everything[v.name] = e.evaluate(everything)
        out = [poisoned(tuple(e.evaluate(everything) for e in t.shape), t.dtype.numpy) for t in op.outputs]
        try:
            kernel(*arrays, out=out[0] if len(out) == 1 else tuple(out), threads=2)
        except UserError:
            if mode != "0":  # of nothing some ops may say that they have no result
                raise
            continue
        verdict = check(op, arrays, out)
        assert verdict.ok, (mode, sizes, verdict)
