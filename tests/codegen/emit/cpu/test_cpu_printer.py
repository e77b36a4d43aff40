"""Emitted C++ against NumPy, and against the interpreter, which is the meaning of tile programs."""

import os
import re
import threading
import time
from dataclasses import replace

import andiron
import numpy as np
import pytest
from andiron.codegen.abi import symbol
from andiron.codegen.emit.printers import emit
from andiron.codegen.ir.tile_ir import Alloc, Barrier, If, Let, Store
from andiron.codegen.name_mangling import NameSupply, mangle
from andiron.codegen.targets import compiler_flags, target_of
from andiron.dsl.index.expr import Var, as_expr, ceildiv, xor
from andiron.dsl.types import TYPES
from andiron.dsl.values import Apply, Cast, IndexValue, Masked

from ....support.cpp.build import COMPILERS, build, run
from ....support.cpp.check import agrees, ints, on_narrow_vectors
from ....support.cpp.programs import (
    CORE,
    CORES,
    F32,
    at,
    buffer,
    const,
    elementwise,
    gemm,
    lane,
    loop,
    program,
    put,
    register,
    transpose,
    units,
    when,
)

N, I, J, R = Var("N"), Var("i"), Var("j"), Var("r", 0, 3)
I64, I32, F16, F64, BOOL = (TYPES[n] for n in ("i64", "i32", "f16", "f64", "bool"))
W = 8
L = lane(W)
both = pytest.mark.parametrize("compiler", COMPILERS)


@both
@pytest.mark.parametrize("n", [*range(9), 33, 100])
def test_elementwise(compiler, n):
    x = ints(n)
    for threads in (1, 2):
        agrees(elementwise(W), {"X": x}, {"N": n}, compiler, np.maximum(x, 0), threads=threads)


def test_the_last_lanes_are_stored_in_halves():
    """Masked stores of AVX are an order slower than plain ones on some processors."""
    text = emit(elementwise(W))
    assert "store_part(" in text
    assert "maskstore" not in text


@both
@pytest.mark.parametrize("name", ["f16", "bf16", "i8", "bool", "f8e4m3", "i4"])
def test_copies_keep_bits(compiler, name):
    pytest.importorskip("ml_dtypes")
    dtype = TYPES[name]
    x = np.random.default_rng(0).integers(0, 2 if name == "bool" else 8 if name == "i4" else 256, 40 * dtype.bytes, np.uint8)
    x = x.view(dtype.numpy)[:37]
    out = run(elementwise(W, "", dtype, dtype), {"X": x}, {"N": 37}, compiler)
    assert (out["Y"].view(np.uint8) == x.view(np.uint8)).all()


@both
@pytest.mark.parametrize("shape", [(1, 1), (8, 8), (13, 21), (40, 7)])
def test_transpose(compiler, shape):
    x = ints(*shape)
    agrees(transpose(W), {"X": x}, {"M": shape[0], "N": shape[1]}, compiler, x.T, threads=2)


@both
@pytest.mark.parametrize(("machine", "width", "mr"), [("avx2", 8, 6), ("avx512", 16, 14), ("baseline", 4, 4), ("avx2", 1, 4)])
def test_gemm(compiler, machine, width, mr):
    prog = gemm(width, mr, kc=64, mc=mr * 3, nc=96)
    for m, n, k in [(1, 1, 1), (20, 33, 70), (50, 130, 65), (3, 100, 0)]:
        a, b = ints(m, k), ints(k, n, seed=1)
        for threads in (1, 2, 3):
            out = run(prog, {"A": a, "B": b}, {"M": m, "N": n, "K": k}, compiler, machine, threads)
            if k:  # without a block of k, this program never writes C
                np.testing.assert_array_equal(out["C"], a @ b)


def test_gemm_is_what_the_interpreter_says():
    prog = gemm(W, 6, kc=16, mc=12, nc=32, prefetch=False, use_instr=False)
    agrees(prog, {"A": ints(20, 21), "B": ints(21, 37)}, {"M": 20, "N": 37, "K": 21}, "gcc")


@both
def test_accesses_of_every_kind(compiler):
    """By one, by two, the same, reversed, through a division, through a swizzle; loads and stores."""
    n = 16
    places = {"one": L, "two": 2 * L, "same": 3 + 0 * L, "back": 15 - L, "third": L // 3, "swizzled": xor(L, 5)}
    stores = []
    for name, e in places.items():
        stores.append(put(f"L_{name}", (L,), at("X", e)))
        if name not in ("same", "third"):
            stores.append(put(f"S_{name}", (e,), at("X", L)))
    outs = [buffer(s.buffer, "output", (n,)) for s in stores]
    prog = program("places", (), (buffer("X", "input", (n,)), *outs), tuple(stores))
    x = ints(n)
    for made in (prog, on_narrow_vectors(prog)):
        out = run(made, {"X": x}, {}, compiler)
        for name, e in places.items():
            where = [e.evaluate({"l": i}) if not isinstance(e, Var) else i for i in range(W)]
            np.testing.assert_array_equal(out[f"L_{name}"][:W], x[where])
            if f"S_{name}" in out:
                np.testing.assert_array_equal(out[f"S_{name}"][where], x[:W])


@both
def test_conditions_that_part_lanes(compiler):
    odd = If((L % 2 - 1,), (put("c", (0,), at("X", I, L)),), (put("c", (0,), Apply("neg", (at("X", I, L),), F32)),))
    late = when((L - 3,), put("c", (0,), Apply("add", (at("c", 0), const(10.0)), F32)))
    inner = when(
        (N - 1 - I - L,),
        when((L - 2,), put("c", (0,), const(7.0))),
        put("Y", (I, L), Apply("add", (at("c", 0), const(1.0)), F32)),
    )
    body = Alloc(register("c", (1,)), (put("Y", (I, L), const(0.0)), odd, late, inner))
    prog = program("parting", (N,), (buffer("X", "input", (N, W)), buffer("Y", "output", (N, W))), (loop(I, N, (body,)),))
    agrees(prog, {"X": ints(11, W)}, {"N": 11}, compiler)


@both
def test_loops_that_part_lanes(compiler):
    total = put("c", (0,), Apply("add", (at("c", 0), at("X", J)), F32))
    body = Alloc(register("c", (1,)), (put("c", (0,), const(0.0)), loop(J, N, (total,), L, W), put("Y", (L,), at("c", 0))))
    prog = program("dealt", (N,), (buffer("X", "input", (N,)), buffer("Y", "output", (W,))), (body,))
    x = ints(29)
    agrees(prog, {"X": x}, {"N": 29}, compiler, [x[i::W].sum() for i in range(W)])


@both
def test_masked_values(compiler):
    """A nested mask, one that is no prefix, and one whose other value is no zero."""
    col = I + L
    near = Masked((N - 1 - col,), Masked((col - 3,), at("X", col), const(5.0), F32), const(-2.0), F32)
    alternate = Masked((N - 1 - col, col % 2 - 1), at("X", col), const(0.0), F32)
    sums = Masked((N - 1 - col,), Apply("add", (at("X", col), const(3.0)), F32), const(0.0), F32)
    same = Masked((N - 1 - I,), Apply("mul", (at("X", I), near), F32), const(9.0), F32)
    values = {"Y": near, "Z": alternate, "U": sums, "V": same}
    outs = [buffer(v, "output", (ceildiv(N, W) * W,)) for v in values]
    body = loop(I, N, tuple(put(name, (col,), v) for name, v in values.items()), 0, W)
    prog = program("masks", (N,), (buffer("X", "input", (N,)), *outs), (body,))
    for n in (0, 1, 5, 8, 19):
        agrees(prog, {"X": ints(n)}, {"N": n}, compiler)


@both
def test_masked_halves_are_copied(compiler):
    value = Masked((N - 1 - I - L,), at("X", I + L, dtype=F16), const(0.0, F16), F16)
    body = loop(I, N, (put("Y", (I + L,), value),), 0, W)
    prog = program("pad", (N,), (buffer("X", "input", (N,), F16), buffer("Y", "output", (ceildiv(N, W) * W,), F16)), (body,))
    assert "f32_from_f16" not in emit(prog)
    agrees(prog, {"X": ints(13, dtype=np.float16)}, {"N": 13}, compiler)


@both
def test_registers_that_cannot_be_named(compiler):
    n = 12
    body = Alloc(register("c", (n,)), (
        loop(I, n, (put("c", (I,), at("X", I, L)),)), loop(I, n, (put("Y", (I, L), at("c", n - 1 - as_expr(I))),)),
    ))  # fmt: skip
    prog = program("array", (), (buffer("X", "input", (n, W)), buffer("Y", "output", (n, W))), (body,))
    x = ints(n, W)
    agrees(prog, {"X": x}, {}, compiler, x[::-1])


@both
def test_mixed_types(compiler):
    """i8 * f16 -> f64 through i64, masks of several widths."""
    col = I + L
    product = Apply("mul", (Cast(at("A", col, dtype=TYPES["i8"]), F32), Cast(at("B", col, dtype=F16), F32)), F32)
    wide = Apply("add", (Cast(product, F64), Cast(IndexValue(as_expr(col), I64), F64)), F64)
    close = Apply("lt", (wide, const(3.0, F64)), BOOL)
    small = Apply("gt", (product, const(0.0)), BOOL)
    mask = Apply("or", (Apply("and", (close, small), BOOL), Apply("not", (close,), BOOL)), BOOL)
    picked = Apply("where", (mask, Cast(wide, I64), const(-1, I64)), I64)
    quotient = Apply("floordiv", (Cast(wide, I32), const(3, I32)), I32)
    body = loop(
        I, N, (when((N - 1 - col,), put("Y", (col,), picked), put("Z", (col,), mask), put("Q", (col,), quotient)),), 0, W
    )
    buffers = (buffer("A", "input", (N,), TYPES["i8"]), buffer("B", "input", (N,), F16), buffer("Y", "output", (N,), I64))
    prog = program("mixed", (N,), (*buffers, buffer("Z", "output", (N,), BOOL), buffer("Q", "output", (N,), I32)), (body,))
    for machine in ("avx2", "avx512"):
        agrees(prog, {"A": ints(21, dtype=np.int8), "B": ints(21, dtype=np.float16)}, {"N": 21}, compiler, machine=machine)


@both
def test_integers_wrap(compiler):
    for name, extreme in [("i8", 127), ("i32", 2**31 - 1), ("i64", 2**63 - 1), ("u8", 255)]:
        dtype = TYPES[name]
        x = np.full(9, extreme, dtype.numpy)
        value = Apply("add", (Cast(at("X", I, dtype=dtype), dtype.compute), const(1, dtype.compute)), dtype.compute)
        prog = program(
            "wraps",
            (N,),
            (buffer("X", "input", (N,), dtype), buffer("Y", "output", (N,), dtype)),
            (loop(I, N, (put("Y", (I,), value),)),),
        )
        agrees(prog, {"X": x}, {"N": 9}, compiler)


@both
def test_workspaces_and_launches(compiler):
    """Two launches with a workspace between them: all of the first is done before the second."""
    from andiron.codegen.ir.tile_ir import Launch

    prog = elementwise(W)
    work = buffer("work", "workspace", (N,))
    col = I + L
    first = loop(
        I, N, (when((N - 1 - col,), put("work", (col,), Apply("mul", (at("X", col), const(2.0)), F32))),), CORE * W, CORES * W
    )
    second = loop(I, N, (when((N - 1 - col,), put("Y", (col,), at("work", N - 1 - col))),), CORE * W, CORES * W)
    launches = (Launch("first", units(W), (first,)), Launch("second", units(W), (second,)))
    prog = replace(prog, buffers=(*prog.buffers, work), launches=launches)
    for n, threads in [(5, 1), (1000, 2), (100000, 3), (17, 4)]:
        x = ints(n)
        np.testing.assert_array_equal(run(prog, {"X": x}, {"N": n}, compiler, threads=threads)["Y"], 2 * x[::-1])


@both
def test_atomics(compiler):
    body = loop(I, N, (when((N - 1 - I - L,), Store("Y", (as_expr(0),), at("X", I + L), "sum")),), CORE * W, CORES * W)
    bigger = loop(I, N, (when((N - 1 - I - L,), Store("Y", (as_expr(1),), at("X", I + L), "max")),), CORE * W, CORES * W)
    clear = when((-CORE,), put("Y", (0,), const(0.0)), put("Y", (1,), const(-np.inf)))
    prog = program(
        "adds", (N,), (buffer("X", "input", (N,)), buffer("Y", "output", (2,))), (clear, Barrier("socket"), body, bigger)
    )
    x = ints(1001)
    np.testing.assert_array_equal(run(prog, {"X": x}, {"N": 1001}, compiler, threads=3)["Y"], [x.sum(), x.max()])


def test_calls_from_several_threads():
    """Each call has its own buffers, and the threads go to one of them."""
    prog = gemm(W, 6, kc=64, mc=36, nc=96)
    build(emit(prog), symbol(prog), "gcc", "avx2")
    wrong = []

    def work(seed):
        a, b = ints(40, 70, seed=seed), ints(70, 50, seed=seed + 9)
        for _ in range(30):
            out = run(prog, {"A": a, "B": b}, {"M": 40, "N": 50, "K": 70}, threads=2)
            if not (out["C"] == a @ b).all():
                wrong.append(seed)

    callers = [threading.Thread(target=work, args=(s,)) for s in range(4)]
    for t in callers:
        t.start()
    for t in callers:
        t.join()
    assert not wrong


def test_idle_threads_sleep():
    """Many kernels have threads of their own; between calls they cost nothing."""
    x = ints(5000)
    for chunks in range(1, 6):
        prog = elementwise(W, chunks=chunks)
        assert (run(prog, {"X": x}, {"N": x.size}, threads=4)["Y"] == np.maximum(x, 0)).all()
    time.sleep(0.05)
    before = time.process_time()
    time.sleep(0.4)
    assert time.process_time() - before < 0.1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_after_fork():
    prog, x = elementwise(W), ints(1000)
    run(prog, {"X": x}, {"N": 1000}, threads=2)
    child = os.fork()
    if child == 0:
        good = (run(prog, {"X": x}, {"N": 1000}, threads=2)["Y"] == np.maximum(x, 0)).all()
        os._exit(0 if good else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_more_threads_than_before():
    prog, x = elementwise(W), ints(3000)
    for threads in (2, 4, 3, 1, 5, 2):
        for _ in range(20):
            np.testing.assert_array_equal(run(prog, {"X": x}, {"N": 3000}, threads=threads)["Y"], np.maximum(x, 0))


def test_conditions_at_the_call():
    prog = replace(elementwise(W), conditions=((N - 2, "N >= 2"), (7 - N, "N <= 7\nint main() {}")))
    text = emit(prog)
    function = build(text, symbol(prog), "gcc", "avx2")
    import ctypes

    x = np.zeros(8, np.float32)
    pointers = (ctypes.c_void_p * 2)(x.ctypes.data, x.ctypes.data)
    codes = [function(pointers, (ctypes.c_int64 * 1)(n), 1) for n in (1, 2, 7, 8)]
    assert codes == [100, 0, 0, 101]


def test_names_cannot_collide():
    names = [
        "int",
        "store",
        "args",
        "core",
        "i32",
        "m_exp",
        "f32x8",
        "t1",
        "l",
        "a",
        "main",
        "Y.sum1",
        "Y_sum1",
        "launch__x",
        "template",
    ]
    n = Var("N")
    buffers = [buffer(x, "input", (n,)) for x in names]
    value = at(names[0], I)
    for x in names[1:]:
        value = Apply("add", (value, at(x, I)), F32)
    index = Var("float")
    body = loop(
        index, n, (Let(I, as_expr(index)), put("double", (I,), Apply("exp", (Apply("mul", (value, const(0.0)), F32),), F32)))
    )
    prog = program("switch", (n,), (*buffers, buffer("double", "output", (n,))), (body,))
    out = run(prog, {x: ints(5) for x in names}, {"N": 5})
    assert (out["double"] == 1).all()
    taken = NameSupply()
    assert [taken.fresh("a.b"), taken.fresh("a_b"), taken.fresh("a_b")] == ["a_b", "a_b2", "a_b3"]
    assert mangle("é").isascii()
    assert [mangle(x) for x in ("X_OK", "SIZE_MAX", "sa_handler", "SIGMA")] == ["X_OK_", "SIZE_MAX_", "sa_handler_", "SIGMA"]
    assert symbol(replace(prog, name="div")) == "andiron_div"  # not the C library's


def test_text_is_the_same_every_time():
    assert emit(gemm()) == emit(gemm())


def test_no_variable_is_assigned_to_itself():
    """Rows without elements have no NaN in place of a sum: nothing is left to do for them. Clang warns (`-Wself-assign`)."""
    op = "op f[M, N](X: f32[M, N]) -> (Y: f32[M]):\n    m[i] = max(t) X[i, t]\n    Y[i] = sum(t) exp(X[i, t] - m[i])\n"
    lines = "    keep m, Y in register\n    tile t: 32 online\n    tile t: 1 -> lane\n    compute\n"
    text = andiron.compile(f"{op}schedule s for f:\n    tile i: 1 -> core\n{lines}", target="cpu").source
    assert "if (N > 0) " in text
    assert not re.search(r"^ *(\S+) = \1;|else \{\s*\}", text, re.M)


@pytest.mark.parametrize("target", ["cpu:generic", "cpu:avx2"])
def test_the_head_has_all_flags_of_a_build(target):
    head = andiron.compile("op f[N](X: f32[N]) -> (Y: f32[N]):\n    Y[i] = X[i]\n", target=target).source.split("#include")[0]
    for kind in ("gcc", "clang"):
        wanted = set(compiler_flags(target_of(target).machine, kind)) - {"-std=c++17", "-fno-exceptions", "-fno-rtti"}
        assert wanted <= set(head.split())
