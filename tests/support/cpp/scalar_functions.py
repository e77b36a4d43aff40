"""Programs of scalar functions and conversions, inputs that are hard for them, and the distance from the true value."""

import numpy as np
from andiron.codegen.ir.tile_ir import Let
from andiron.dsl.index.expr import Var
from andiron.dsl.semantics.numerics import apply
from andiron.dsl.types import TYPES
from andiron.dsl.values import Apply, Cast

from .programs import CORE, CORES, at, buffer, lane, loop, program, put, when

F32, F64 = TYPES["f32"], TYPES["f64"]
OWN = "exp exp2 expm1 log log2 log1p tanh erf sigmoid gelu silu sqrt rsqrt".split()  # noqa: SIM905
EXACT = "floor ceil round trunc abs relu neg".split()  # noqa: SIM905


def functions(names, dtype, width):
    """Y_f[i] = f(X[i]) for each f; the last vector is done lane by lane."""
    n, i, j = Var("N"), Var("i"), Var("j")
    stores = [put(f"Y_{f}", (j,), Apply(f, (at("X", j, dtype=dtype),), dtype)) for f in names]
    body = loop(i, n, (Let(j, i + lane(width)), when((n - 1 - j,), *stores)), CORE * width, CORES * width)
    outs = [buffer(f"Y_{f}", "output", (n,), dtype) for f in names]
    return program("functions", (n,), (buffer("X", "input", (n,), dtype), *outs), (body,), width)


def samples(dtype):
    rng = np.random.default_rng(1)
    t = dtype.numpy.type
    info = np.finfo(t)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, info.tiny, -info.tiny, info.smallest_subnormal, info.max, info.min, 1, -1]
    near = np.concatenate([[1 - info.epsneg, 1 + info.eps], 1 + rng.standard_normal(2000) * 0.01])
    wide = rng.standard_normal(4000) * np.exp2(rng.uniform(-info.maxexp + 10, info.maxexp - 2, 4000) * 0.99)
    mid = np.concatenate([rng.uniform(-110, 110, 6000), rng.uniform(-6, 6, 6000), rng.uniform(-760, 760, 1000)])
    with np.errstate(over="ignore"):
        x = np.concatenate([special, near, wide, mid, np.abs(wide)]).astype(t)
    return np.append(x, t(0.5))[: x.size // 32 * 32 + 5]  # a last vector that is not full


def ulps(got, want, dtype):
    """Distance from the true value in units of the last place of it."""
    info = np.finfo(dtype.numpy)
    want = want.astype(np.longdouble)
    with np.errstate(all="ignore"):
        rounded = want.astype(dtype.numpy)
        place = np.maximum(np.spacing(np.abs(rounded)), info.smallest_subnormal).astype(np.longdouble)
        error = np.abs(got.astype(np.longdouble) - want) / place
    same = (got == rounded) | (np.isnan(got) & np.isnan(want))
    return np.where(same, 0.0, np.where(np.isfinite(rounded) & np.isfinite(got), error, np.where(np.isinf(rounded), 1e9, 1e9)))


def truth(fn, x):
    if fn == "gelu" and x.dtype == np.float64:
        return true_gelu(x.astype(np.longdouble))
    wide = x.astype(np.longdouble if x.dtype == np.float64 and fn != "erf" else np.float64)
    return np.asarray(apply(fn, (wide,), F64, wide.dtype))


def true_gelu(x):
    """x P(normal < x) in extended precision: a series near 0 (all terms positive), a continued fraction further out."""
    with np.errstate(all="ignore"):
        a = np.minimum(np.abs(x), 45)
        near = np.minimum(a, 2)
        term = total = near
        for n in range(1, 60):
            term = term * near * near / (2 * n + 1)
            total = total + term
        fraction = far = np.maximum(a, 2)
        for n in range(400, 0, -1):
            fraction = far + n / fraction
        density = np.exp(-a * a / 2) / np.sqrt(2 * np.longdouble(np.pi) + np.longdouble(2.4492935982947064e-16))
        tail = np.where(a < 2, 0.5 - density * total, density / fraction)
        return np.where(np.isnan(x), x, np.where(x < 0, -a * tail, x * (1 - tail)))


def conversions(source, targets, width):
    n, i, j = Var("N"), Var("i"), Var("j")
    stores = [put(f"Y_{t}", (j,), Cast(at("X", j, dtype=source), TYPES[t])) for t in targets]
    body = loop(i, n, (Let(j, i + lane(width)), when((n - 1 - j,), *stores)), CORE * width, CORES * width)
    outs = [buffer(f"Y_{t}", "output", (n,), TYPES[t]) for t in targets]
    return program("conversions", (n,), (buffer("X", "input", (n,), source), *outs), (body,), width)


def near_ties(bits):
    """Integers halfway between neighbours in floats of 8, 11 or 24 digits, and next to halfway."""
    halfway = [
        (2 * m + 1) << (e - digits)
        for digits in (8, 11, 24)
        for m in (1 << (digits - 1), (1 << (digits - 1)) + 1, (1 << digits) - 1, (1 << digits) - 2)
        for e in range(digits + 1, bits - 1)
    ]
    by = [0, 1, -1, 1 << 7, -(1 << 7), (1 << 30) - 1]
    every = [s * (h + d) for h in halfway for d in by for s in (1, -1)]
    return np.array([x for x in every if -(1 << (bits - 1)) <= x < 1 << (bits - 1)], np.int64)


def values_of(dtype):
    rng = np.random.default_rng(2)
    if dtype.kind == "bool":
        return rng.integers(0, 2, 101).astype(bool)
    if dtype.kind != "float":
        bits = 8 * dtype.bytes
        low, high = (0, 256) if dtype.kind == "uint" else (-(1 << (dtype.bits - 1)), 1 << (dtype.bits - 1))
        x = rng.integers(low, high, 500, dtype=np.int64) if bits < 64 else rng.integers(-(2**63), 2**63 - 1, 500)
        small = rng.integers(max(low, -300), min(high, 300), 500)
        near = near_ties(dtype.bits) if dtype.bits >= 32 else []
        return np.concatenate([x, small, near, [low, high - 1]]).astype(dtype.numpy)
    if dtype.bits <= 16 and dtype.name != "tf32":
        every = np.arange(1 << dtype.bits, dtype=np.uint16 if dtype.bits == 16 else np.uint8)
        return every.view(dtype.numpy)
    x = samples(F64)
    spread = rng.standard_normal(4000) * np.exp2(rng.uniform(-30, 20, 4000))
    with np.errstate(all="ignore"):
        halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(float)
        brief = (np.arange(0, 1 << 16, dtype=np.uint32) << 16).view(np.float32).astype(float)  # bf16
        finer = ((np.arange(1 << 12, dtype=np.uint32) + (127 << 10)) << 13).view(np.float32).astype(float)  # tf32
        ties = np.concatenate([((v[1:] + v[:-1]) / 2)[::step] for v, step in ((halves, 1), (brief, 7), (finer, 1))])
        off = ties * 2.0**-30
        just = np.concatenate([ties, np.nextafter(ties, np.inf), np.nextafter(ties, -np.inf), ties + off, ties - off])
        whole = np.array(
            [
                127.5,
                128,
                -128.9,
                -129,
                255.9,
                256,
                32767.9,
                2**31 - 1,
                2**31,
                -(2.0**31),
                2.0**63,
                -(2.0**63),
                448,
                464,
                480,
                57344,
                61440,
                65519,
                65520,
            ]
        )
        return np.concatenate([x, spread, just, whole]).astype(dtype.numpy)
