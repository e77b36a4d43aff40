"""Scalar functions in C++: accuracy against wider arithmetic, and the same bits scalar and vector."""

import re

import numpy as np
import pytest
from andiron.codegen.emit.printers import emit
from andiron.codegen.ir.tile_ir import Let
from andiron.dsl.index.expr import Var
from andiron.dsl.semantics.numerics import apply, cast
from andiron.dsl.types import TYPES
from andiron.dsl.values import Apply

from ....support.cpp.build import COMPILERS, machine_has, run
from ....support.cpp.programs import CORE, CORES, at, buffer, lane, loop, program, put, when
from ....support.cpp.scalar_functions import (
    EXACT,
    F32,
    F64,
    OWN,
    conversions,
    functions,
    samples,
    truth,
    ulps,
    values_of,
)
from ....support.rotation import rotated

LIMITS = {"sqrt": 1, "rsqrt": 3, "sigmoid": 4, "gelu": 4, "silu": 4}  # ulp of f32; others have 2
LIBRARY = "sin cos tan sinh cosh asin acos atan".split()  # noqa: SIM905


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize(("machine", "width"), [("avx2", 8), ("baseline", 4), ("avx512", 16)])
def test_f32(compiler, machine, width):
    names = [*OWN, *LIBRARY, *EXACT]
    x = samples(F32)
    out = run(functions(names, F32, width), {"X": x}, {"N": x.size}, compiler, machine)
    for fn in names:
        want, got = truth(fn, x), out[f"Y_{fn}"]
        error = ulps(got, want, F32)
        worst = int(np.argmax(error))
        limit = 0 if fn in EXACT else LIMITS.get(fn, 2)
        assert error[worst] <= limit, (fn, error[worst], x[worst], got[worst], want[worst])


@pytest.mark.parametrize(("machine", "width"), [("avx2", 8), ("baseline", 4), ("avx512", 16)])
def test_powers_near_the_ends_of_f32(machine, width):
    """Subnormal results are rounded once, the largest ones are finite, and 1 is 1."""
    low, high = np.linspace(-104, -86, 4000), np.linspace(88, 88.73, 997)
    x = np.concatenate([low, high, [0.0, -0.0]]).astype(np.float32)
    x = np.concatenate([x, (x.astype(float) * np.log2(np.e)).astype(np.float32)])
    out = run(functions(["exp", "exp2"], F32, width), {"X": x}, {"N": x.size}, machine=machine)
    for fn in ("exp", "exp2"):
        assert ulps(out[f"Y_{fn}"], truth(fn, x), F32).max() <= 2
        assert (out[f"Y_{fn}"][x == 0] == 1).all()


def test_signs_of_zero_are_those_of_the_reference():
    for dtype in (F32, F64):
        x = np.array([0.0, -0.0, -0.25, 0.25, -1e4, -np.inf], dtype.numpy)  # the last ones underflow
        names = [f for f in (*OWN, *LIBRARY, *EXACT) if f not in ("relu", "rsqrt")]  # max(-0, 0) may be either
        out = run(functions(names, dtype, 4), {"X": x}, {"N": x.size})
        for fn in names:
            got, want = out[f"Y_{fn}"], apply(fn, (x,), dtype)
            assert ((np.signbit(got) == np.signbit(want)) | np.isnan(want)).all(), (fn, got, want)


@pytest.mark.parametrize("compiler", COMPILERS)
def test_f64(compiler):
    names = [*OWN, *EXACT, *LIBRARY]
    x = samples(F64)
    out = run(functions(names, F64, 4), {"X": x}, {"N": x.size}, compiler)
    for fn in names:
        error = ulps(out[f"Y_{fn}"], truth(fn, x), F64)
        worst = int(np.argmax(error))
        assert error[worst] <= (5 if fn == "gelu" else 3 if fn in ("erf", "sigmoid", "rsqrt", "silu") else 2), (
            fn,
            error[worst],
            x[worst],
            out[f"Y_{fn}"][worst],
        )


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_functions_of_two(compiler, dtype):
    """pow and atan2, also where C's rules for zeros, infinities and NaN speak; min and max give NaN when either is."""
    n, i, j = Var("N"), Var("i"), Var("j")
    names = "pow atan2 min max".split()  # noqa: SIM905
    two = (at("X", j, dtype=dtype), at("Z", j, dtype=dtype))
    stores = [put(f"Y_{f}", (j,), Apply(f, two, dtype)) for f in names]
    body = loop(i, n, (Let(j, i + lane(4)), when((n - 1 - j,), *stores)), CORE * 4, CORES * 4)
    ins = [buffer(x, "input", (n,), dtype) for x in "XZ"]
    prog = program("two", (n,), (*ins, *(buffer(f"Y_{f}", "output", (n,), dtype) for f in names)), (body,), 4)
    info, rng = np.finfo(dtype.numpy), np.random.default_rng(4)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5, -0.5, 2, -2, 3, -3, info.max, info.tiny, info.smallest_subnormal]
    x, z = (g.ravel() for g in np.meshgrid(special, special))
    x = np.concatenate([x, np.exp(rng.uniform(-5, 5, 999)), rng.standard_normal(999)]).astype(dtype.numpy)
    z = np.concatenate([z, rng.uniform(-12, 12, 999), rng.standard_normal(999)]).astype(dtype.numpy)
    out = run(prog, {"X": x, "Z": z}, {"N": x.size}, compiler)
    for fn in names:
        want = np.asarray(apply(fn, (x.astype(np.longdouble), z.astype(np.longdouble)), F64, np.dtype(np.longdouble)))
        error = ulps(out[f"Y_{fn}"], want, dtype)
        worst = int(np.argmax(error))
        assert error[worst] <= (0 if fn in ("min", "max") else 2), (fn, x[worst], z[worst], out[f"Y_{fn}"][worst], want[worst])


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize(("dtype", "machine"), rotated([F32, F64], [m for m in ("avx2", "avx512") if machine_has(m)]), ids=str)
def test_scalar_and_vector_have_the_same_bits(compiler, dtype, machine):
    names = [*OWN, "sin", "floor"]
    x, whole = samples(dtype), np.dtype(f"i{dtype.bytes}")
    widths = (1, 32 // dtype.bytes, 64 // dtype.bytes)
    shown = [run(functions(names, dtype, w), {"X": x}, {"N": x.size}, compiler, machine) for w in widths]
    for fn in names:
        first = shown[0][f"Y_{fn}"]
        for other in shown[1:]:
            same = (first.view(whole) == other[f"Y_{fn}"].view(whole)) | (np.isnan(first) & np.isnan(other[f"Y_{fn}"]))
            assert same.all(), (fn, x[~same][:4], first[~same][:4], other[f"Y_{fn}"][~same][:4])


@pytest.mark.parametrize(("width", "together"), [(16, 0), (32, 2), (64, 4)])
def test_functions_of_several_vectors(width, together):
    """A step of each vector before the next step, with the same bits; lane by lane at the end of the array."""
    names, x = ["exp", "exp2"], samples(F32)
    prog = functions(names, F32, width)
    calls = set(re.findall(r"(m_exp2?_of_\d)\(t", emit(prog)))
    assert calls == {f"m_{fn}_of_{together}" for fn in names if together}
    out, one = (run(p, {"X": x}, {"N": x.size}) for p in (prog, functions(names, F32, 1)))
    for fn in names:
        np.testing.assert_array_equal(out[f"Y_{fn}"], one[f"Y_{fn}"])


def test_a_value_around_such_a_function():
    """Of two in one store neither is put together with those of other vectors."""
    n, i, j, x = Var("N"), Var("i"), Var("j"), np.linspace(-9, 9, 640, dtype=np.float32)
    value = at("X", j)
    power = Apply("exp", (Apply("mul", (value, value), F32),), F32)
    stores = put("Y", (j,), Apply("sub", (power, value), F32)), put("Z", (j,), Apply("exp", (power,), F32))

    def of(width):
        body = loop(i, n, (Let(j, i + lane(width)), when((n - 1 - j,), *stores)), CORE * width, CORES * width)
        return program("around", (n,), (buffer("X", "input", (n,)), *(buffer(b, "output", (n,)) for b in "YZ")), (body,), width)

    assert len(re.findall(r"m_exp_of_\d\(t", emit(of(64)))) == 1
    many, one = (run(of(width), {"X": x}, {"N": x.size}) for width in (64, 1))
    for name in "YZ":
        np.testing.assert_array_equal(many[name], one[name])


ALL = "f64 f32 tf32 bf16 f16 f8e4m3 f8e5m2 i64 i32 i16 i8 u8 i4 bool".split()  # noqa: SIM905


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize(("machine", "width"), [("avx2", 8), ("baseline", 4), ("avx512", 16)])
@pytest.mark.parametrize("source", ALL)
def test_conversions(compiler, machine, width, source):
    if (machine == "avx2") == (compiler == "gcc"):
        pytest.skip("one compiler a machine is enough")
    pytest.importorskip("ml_dtypes")
    s, x = TYPES[source], values_of(TYPES[source])
    out = run(conversions(s, ALL, width), {"X": x}, {"N": x.size}, compiler, machine)
    for t in ALL:
        got, want = out[f"Y_{t}"], cast(x, s, TYPES[t])
        same = (got.view(np.uint8).reshape(x.size, -1) == np.asarray(want, got.dtype).view(np.uint8).reshape(x.size, -1)).all(1)
        if TYPES[t].kind == "float":
            same |= np.isnan(got.astype(float)) & np.isnan(np.asarray(want).astype(float))
        assert same.all(), (t, x[~same][:5], got[~same][:5], np.asarray(want)[~same][:5])
