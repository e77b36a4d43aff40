"""The ops of the library, sizes to test them at, and values for their inputs."""

import numpy as np
from andiron.dsl.ops.resolve_op import resolve_op
from andiron.dsl.source import Source
from andiron.dsl.text.parser import parse

from ..paths import STDLIB

OPS = {
    d.name: resolve_op(d)
    for f in sorted((STDLIB / "ops").glob("*.sched"))
    for d in parse(Source(f.name, f.read_text())).declarations
}
ATTENTIONS = [n for n in OPS if "attention" in n or "decode" in n]
POSITIVE = {"log_map", "sqrt_map", "rsqrt_map", "batchnorm", "quantise_i8"}
SIZES = [3, 5, 2, 7, 4, 6, 5, 3, 4]
# A window of 3 in 5 to 7 elements, whatever the order of the op's sizes.
NAMED = {"H": 7, "W": 5, "D": 6, "R": 3, "S": 3, "T": 2}


def shapes(op, mode):
    """The sizes to test with; a filter never exceeds what it slides over."""
    named = NAMED if "stride" in dict(op.params) else {}
    if mode == "odd":
        sizes = {v.name: named.get(v.name, SIZES[i]) for i, v in enumerate(op.dims)}
    else:
        sizes = {v.name: int(mode) for v in op.dims}
    if op.name in ("jacobi2d", "blur3x3") and mode != "odd":
        sizes = {n: s + 2 for n, s in sizes.items()}
    if op.name.startswith("causal_") and mode == "odd":
        sizes["T"] = sizes["Q"] + 3
    return sizes


def values(rng, dtype, shape, positive):
    if dtype.kind == "bool":
        return rng.random(shape) < 0.6
    if dtype.kind in ("int", "uint"):
        count = 1 << min(dtype.bits, 8)
        low = 0 if dtype.kind == "uint" else -count // 2
        return rng.integers(low, low + count, shape).astype(dtype.numpy)
    x = rng.normal(size=shape)
    return np.asarray(np.abs(x) + 0.1 if positive else x).astype(dtype.numpy)
