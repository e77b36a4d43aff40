"""Small tile programs, written by hand, and the words to write them with.

None holds a barrier: `place_barriers` must find them. Each comes with inputs and the outputs expected.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from andiron.codegen.ir.program import Program
from andiron.codegen.ir.tile_ir import (
    Alloc,
    AllReduce,
    Barrier,
    Buffer,
    Call,
    Commit,
    For,
    If,
    Launch,
    Let,
    Piece,
    Stmt,
    Store,
    Units,
    Wait,
)
from andiron.codegen.ir.tile_visitors import map_bodies, statements
from andiron.dsl.device import Device, Instr, Level, Memory, Operand
from andiron.dsl.index.expr import Expr, Index, Var, as_expr, ceildiv
from andiron.dsl.op import Reduction, Statement
from andiron.dsl.types import TYPES
from andiron.dsl.values import Apply, Cast, Const, Load, Masked, Value

GPU = Device(
    "gpu",
    (
        Level("grid", "finite", "nothing", 1),
        Level("block", "open", "nothing"),
        Level("warp", "shaped", "barrier", 32),
        Level("thread", "shaped", "lockstep", 32, 32),
    ),
    (Memory("global", "grid"), Memory("shared", "block", 1 << 16), Memory("register", "thread", 1024)),
    (),
)
CPU = Device(
    "cpu",
    (
        Level("socket", "finite", "nothing", 1),
        Level("core", "finite", "barrier", 8),
        Level("lane", "shaped", "lockstep", 8, 8),
    ),
    (
        Memory("dram", "socket"),
        Memory("l3", "socket", None, "dram"),
        Memory("l2", "core", None, "dram"),
        Memory("register", "lane"),
    ),
    (),
)
F32, F16, I64 = TYPES["f32"], TYPES["f16"], TYPES["i64"]
M, N, K = Var("M"), Var("N"), Var("K")
ZERO = Const(0.0, F32)


def exprs(*xs: Index) -> tuple[Expr, ...]:
    return tuple(as_expr(x) for x in xs)


def buffer(name: str, kind: str, memory: str, level: str, *shape: Index, dtype=F32, pad: int = 0) -> Buffer:
    strides: list[Expr] = [as_expr(1)]
    for i, extent in enumerate(reversed(shape[1:])):
        strides.insert(0, strides[0] * extent + (pad if i == 0 else 0))
    return Buffer(name, dtype, kind, memory, level, exprs(*shape), tuple(strides), strides[0] * shape[0])


def loop(var: Var, start: Index, stop: Index, *body: Stmt, step: Index = 1) -> For:
    return For(var, as_expr(start), as_expr(stop), as_expr(step), body)


def let(var: Var, value: Index) -> Let:
    return Let(var, as_expr(value))


def when(conds: tuple[Expr, ...], *body: Stmt) -> If:
    return If(conds, body)


def at(b: Buffer, *indices: Index) -> Load:
    return Load(b.name, exprs(*indices), b.dtype)


def put(b: Buffer, *indices: Index, value: Value, atomic: str | None = None) -> Store:
    return Store(b.name, exprs(*indices), value, atomic)


def add(a: Value, b: Value) -> Value:
    return Apply("add", (a, b), a.dtype)


def fma(a: Value, b: Value, c: Value) -> Value:
    return Apply("fma", (a, b, c), c.dtype)


def masked(conds: tuple[Expr, ...], value: Value) -> Value:
    return Masked(conds, value, Const(0.0, value.dtype), value.dtype)


def inside(*pairs: tuple[Index, Index]) -> tuple[Expr, ...]:
    """index < extent, as conditions."""
    return tuple(as_expr(extent) - index - 1 for index, extent in pairs)


def gpu(
    name: str, dims: tuple[Var, ...], buffers, blocks: list[tuple[Var, Index]], warps: int, *body: Stmt, instrs=()
) -> Program:
    """One launch of `blocks` (variable, count) blocks of `warps` warps w of 32 threads t."""
    units = [Units("block", v, as_expr(n)) for v, n in blocks]
    units += [Units("warp", Var("w", 0, warps - 1), as_expr(warps)), Units("thread", T, as_expr(32))]
    return Program(name, GPU, dims, (), (), tuple(buffers), (Launch("main", tuple(units), body),), instrs)


B = Var("b")
T = Var("t", 0, 31)


def W(warps: int) -> Var:
    return Var("w", 0, warps - 1)


def ints(seed: int, *shape: int, dtype=np.float32) -> np.ndarray:
    """Small integers, whose sums of products are exact."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


Case = tuple[Program, dict[str, np.ndarray], dict[str, np.ndarray]]


def vector_add(n: int = 100, guard: bool = True) -> Case:
    a, b, c = (buffer(x, k, "global", "grid", N) for x, k in (("A", "input"), ("B", "input"), ("C", "output")))
    i = Var("i")
    store = put(c, i, value=add(at(a, i), at(b, i)))
    body = (let(i, 64 * B + 32 * W(2) + T), when(inside((i, N)), store) if guard else store)
    x, y = ints(0, n), ints(1, n)
    return gpu("vector_add", (N,), (a, b, c), [(B, ceildiv(N, 64))], 2, *body), {"A": x, "B": y}, {"C": x + y}


def transpose(m: int = 40, n: int = 50) -> Case:
    """32 x 32 tiles through shared memory, 4 warps."""
    x, y = buffer("X", "input", "global", "grid", M, N), buffer("Y", "output", "global", "grid", N, M)
    s = buffer("S", "local", "shared", "block", 32, 32, pad=1)
    m0, n0, j, w = Var("m0"), Var("n0"), Var("j", 0, 7), W(4)
    row = w + 4 * j
    fill = put(s, row, T, value=masked(inside((m0 + row, M), (n0 + T, N)), at(x, m0 + row, n0 + T)))
    drain = when(inside((n0 + row, N), (m0 + T, M)), put(y, n0 + row, m0 + T, value=at(s, T, row)))
    body = Alloc(s, (loop(j, 0, 8, fill), loop(j, 0, 8, drain)))
    tiles = (let(m0, B // ceildiv(N, 32) * 32), let(n0, B % ceildiv(N, 32) * 32))
    a = ints(2, m, n)
    return gpu("transpose", (M, N), (x, y), [(B, ceildiv(M, 32) * ceildiv(N, 32))], 4, *tiles, body), {"X": a}, {"Y": a.T}


def gemm_simt(m: int = 64, n: int = 64, k: int = 64) -> Case:
    """32 x 32 tiles, 8 deep through shared memory, by 2 warps; 4 x 4 accumulators a thread."""
    a, b, c = _gemm_arguments("global", "grid")
    sa, sb = buffer("SA", "local", "shared", "block", 8, 32, pad=1), buffer("SB", "local", "shared", "block", 8, 32)
    acc = buffer("acc", "local", "register", "thread", 4, 4)
    m0, n0, k0, u = Var("m0"), Var("n0"), Var("k0"), Var("u", 0, 63)
    e, kk, i, j = Var("e", 0, 3), Var("kk", 0, 7), Var("i", 0, 3), Var("j", 0, 3)
    x = u + 64 * e  # one of the 256 elements of a staged tile
    am, ak, bk, bn = x // 8, x % 8, x // 32, x % 32
    load_a = put(sa, ak, am, value=masked(inside((m0 + am, M), (k0 + ak, K)), at(a, m0 + am, k0 + ak)))
    load_b = put(sb, bk, bn, value=masked(inside((n0 + bn, N), (k0 + bk, K)), at(b, k0 + bk, n0 + bn)))
    mi, ni = u // 8 * 4 + i, u % 8 * 4 + j
    inner = put(acc, i, j, value=fma(at(sa, kk, mi), at(sb, kk, ni), at(acc, i, j)))
    main = loop(
        k0,
        0,
        K,
        loop(e, 0, 4, load_a),
        loop(e, 0, 4, load_b),
        loop(kk, 0, 8, loop(i, 0, 4, loop(j, 0, 4, inner))),
        step=8,
    )
    init = loop(i, 0, 4, loop(j, 0, 4, put(acc, i, j, value=ZERO)))
    back = loop(i, 0, 4, loop(j, 0, 4, when(inside((m0 + mi, M), (n0 + ni, N)), put(c, m0 + mi, n0 + ni, value=at(acc, i, j)))))
    tiles = (let(m0, B // ceildiv(N, 32) * 32), let(n0, B % ceildiv(N, 32) * 32), let(u, 32 * W(2) + T))
    body = (*tiles, Alloc(sa, (Alloc(sb, (Alloc(acc, (init, main, back)),)),)))
    program = gpu("gemm_simt", (M, N, K), (a, b, c), [(B, ceildiv(M, 32) * ceildiv(N, 32))], 2, *body)
    return program, *_gemm_data(m, n, k)


def gemm_twice_buffered(m: int = 8, n: int = 32, k: int = 24) -> Case:
    """One row of C a warp; B through two rotating stages: the next one is filled while this one is used."""
    a, b, c = _gemm_arguments("global", "grid")
    s = buffer("S", "local", "shared", "block", 2, 4, 32)
    acc = buffer("acc", "local", "register", "thread", 1)
    k0, kk, w = Var("k0"), Var("kk", 0, 3), W(4)
    row = B * 4 + w

    def fill(base: Index) -> Store:
        value = masked(inside((as_expr(base) + w, K), (T, N)), at(b, as_expr(base) + w, T))
        return put(s, as_expr(base) // 4 % 2, w, T, value=value)

    left = masked(inside((row, M), (k0 + kk, K)), at(a, row, k0 + kk))
    use = loop(kk, 0, 4, put(acc, 0, value=fma(left, at(s, k0 // 4 % 2, kk, T), at(acc, 0))))
    main = loop(k0, 0, K, fill(k0 + 4), use, step=4)
    back = when(inside((row, M), (T, N)), put(c, row, T, value=at(acc, 0)))
    body = Alloc(s, (Alloc(acc, (put(acc, 0, value=ZERO), fill(0), main, back)),))
    return gpu("gemm_twice_buffered", (M, N, K), (a, b, c), [(B, ceildiv(M, 4))], 4, body), *_gemm_data(m, n, k)


def mma() -> Instr:
    """16 x 8 x 16 in f16 with f32 accumulators, the fragments of NVIDIA's instruction."""
    lane, r = Var("lane", 0, 31), Var("r", 0, 7)
    r4, q = Var("r", 0, 3), lane % 4
    a = Operand("A", F16, (16, 16), "input", "register", (lane, r), (lane // 4 + r // 2 % 2 * 8, q * 2 + r % 2 + r // 4 * 8))
    b = Operand("B", F16, (16, 8), "input", "register", (lane, r4), (q * 2 + r4 % 2 + r4 // 2 * 8, lane // 4))
    c = Operand("C", F32, (16, 8), "inout", "register", (lane, r4), (lane // 4 + r4 // 2 * 8, q * 2 + r4 % 2))
    m, n, k = Var("m"), Var("n"), Var("k")
    product = Apply("mul", (Cast(Load("A", exprs(m, k), F16), F32), Cast(Load("B", exprs(k, n), F16), F32)), F32)
    ranges = (("m", as_expr(16)), ("n", as_expr(8)), ("k", as_expr(16)))
    statement = Statement("C", ("m", "n"), product, Reduction("sum", ("k",)), ranges)
    return Instr("mma", "warp", None, (a, b, c), statement, True, ())


def gemm_mma(m: int = 32, n: int = 16, k: int = 48) -> Case:
    """16 x 8 a warp, fragments loaded from global memory element by element. Whole tiles only."""
    instr = mma()
    a, b = buffer("A", "input", "global", "grid", M, K, dtype=F16), buffer("B", "input", "global", "grid", K, N, dtype=F16)
    c = buffer("C", "output", "global", "grid", M, N)
    regs = {
        o.name: buffer("r" + o.name, "local", "register", "thread", o.coords[1].hi + 1, dtype=o.dtype) for o in instr.operands
    }
    m0, n0, k0, w = Var("m0"), Var("n0"), Var("k0"), W(2)

    def each(name: str):
        lane, r = instr.operand(name).coords
        return r, [e.subs({lane: T}) for e in instr.operand(name).map]

    (ra, (am, ak)), (rb, (bk, bn)), (rc, (cm, cn)) = each("A"), each("B"), each("C")
    main = loop(
        k0,
        0,
        K,
        loop(ra, 0, 8, put(regs["A"], ra, value=at(a, m0 + am, k0 + ak))),
        loop(rb, 0, 4, put(regs["B"], rb, value=at(b, k0 + bk, n0 + bn))),
        Call("mma", (Piece("rA", exprs(0), 8), Piece("rB", exprs(0), 4), Piece("rC", exprs(0), 4))),
        step=16,
    )
    init = loop(rc, 0, 4, put(regs["C"], rc, value=ZERO))
    back = loop(rc, 0, 4, put(c, m0 + cm, n0 + cn, value=at(regs["C"], rc)))
    body: tuple[Stmt, ...] = (let(m0, (B * 2 + w) // (N // 8) * 16), let(n0, (B * 2 + w) % (N // 8) * 8), init, main, back)
    for register in regs.values():
        body = (Alloc(register, body),)
    lets = body
    x, y = ints(3, m, k, dtype=np.float16), ints(4, k, n, dtype=np.float16)
    program = gpu("gemm_mma", (M, N, K), (a, b, c), [(B, (M // 16) * (N // 8) // 2)], 2, *lets, instrs=(instr,))
    return program, {"A": x, "B": y}, {"C": x.astype(np.float32) @ y.astype(np.float32)}


def copy4() -> Instr:
    """An asynchronous copy of four elements by one thread, in order."""
    r, i = Var("r", 0, 3), Var("i")
    dst = Operand("dst", F32, (4,), "output", "shared", (r,), exprs(r), 16)
    src = Operand("src", F32, (4,), "input", "global", (r,), exprs(r), 16)
    statement = Statement("dst", ("i",), Load("src", exprs(i), F32), None, (("i", as_expr(4)),))
    return Instr("copy4", "thread", None, (dst, src), statement, False, (), awaits=("group",))


def gemm_async(m: int = 8, n: int = 32, k: int = 24) -> Case:
    """One row of C a warp; B by asynchronous copies through three rotating stages, two under way. k % 4 = 0, n = 32."""
    a, b, c = _gemm_arguments("global", "grid")
    s = buffer("S", "local", "shared", "block", 3, 4, 32)
    acc = buffer("acc", "local", "register", "thread", 1)
    k0, kk, w, u = Var("k0"), Var("kk", 0, 3), W(4), 32 * W(4) + T
    row = B * 4 + w

    def issue(base: Index) -> Stmt:
        to = Piece("S", exprs(as_expr(base) // 4 % 3, u // 8, u % 8 * 4), 4)
        call = Call("copy4", (to, Piece("B", exprs(as_expr(base) + u // 8, u % 8 * 4), 4)))
        return when((31 - u, K - as_expr(base) - 4), call)  # one warp copies

    left = masked(inside((row, M)), at(a, row, k0 + kk))
    use = loop(kk, 0, 4, put(acc, 0, value=fma(left, at(s, k0 // 4 % 3, kk, T), at(acc, 0))))
    late = If((K - k0 - 8,), (Wait("group", 1),), (Wait("group", 0),))  # the last stage is alone
    close = Commit("group")
    main = loop(k0, 0, K, late, issue(k0 + 8), close, use, step=4)
    back = when(inside((row, M)), put(c, row, T, value=at(acc, 0)))
    body = Alloc(s, (Alloc(acc, (put(acc, 0, value=ZERO), issue(0), close, issue(4), close, main, back)),))
    program = gpu("gemm_async", (M, N, K), (a, b, c), [(B, ceildiv(M, 4))], 4, body, instrs=(copy4(),))
    return program, *_gemm_data(m, n, k)


def block_sum(m: int = 3, n: int = 200) -> Case:
    """Sums of rows: threads, then a shuffle, then shared memory; thread 0 of warp 0 stores. Rows dealt to 2 blocks."""
    x, y = buffer("X", "input", "global", "grid", M, N), buffer("Y", "output", "global", "grid", M)
    s = buffer("S", "local", "shared", "block", 4)
    acc = buffer("acc", "local", "register", "thread", 1)
    row, j, i, w = Var("row"), Var("j"), Var("i", 0, 3), W(4)
    value = masked(inside((j, N)), at(x, row, j))
    own = loop(j, w * 32 + T, ceildiv(N, 128) * 128, put(acc, 0, value=add(at(acc, 0), value)), step=128)
    total = (put(acc, 0, value=ZERO), loop(i, 0, 4, put(acc, 0, value=add(at(acc, 0), at(s, i)))))
    last = when((-as_expr(w), -as_expr(T)), put(y, row, value=at(acc, 0)))
    shuffle = AllReduce("thread", "sum", 1, 32, (("acc", exprs(0)),))
    deposit = when((-as_expr(T),), put(s, w, value=at(acc, 0)))
    rows = loop(row, B, M, put(acc, 0, value=ZERO), own, shuffle, deposit, *total, last, step=2)
    program = gpu("block_sum", (M, N), (x, y), [(B, 2)], 4, Alloc(s, (Alloc(acc, (rows,)),)))
    a = ints(5, m, n)
    return program, {"X": a}, {"Y": a.sum(1)}


def gemm_cores(m: int = 20, n: int = 13, k: int = 11) -> Case:
    """A CPU: panels of B, 8 wide, packed by all cores; rows of C dealt to cores, a lane a column. C is accumulated in place."""
    a, b, c = _gemm_arguments("dram", "socket")
    pack = buffer("pack", "local", "l3", "socket", 2, 4, 8)
    acc = buffer("acc", "local", "register", "lane", 1)
    core, lane, cores = Var("core", 0, 7), Var("lane", 0, 7), Var("cores", 1, 8)
    k0, p, p2, kk, i = Var("k0"), Var("p", 0, None), Var("p2", 0, None), Var("kk", 0, 3), Var("i")
    panels = ceildiv(N, 8)
    col = p * 8 + lane
    fill = put(pack, p, kk, lane, value=masked(inside((col, N), (k0 + kk, K)), at(b, k0 + kk, col)))
    col2 = p2 * 8 + lane
    old = Masked((as_expr(k0) - 1, *inside((col2, N))), at(c, i, col2), ZERO, F32)
    step = put(acc, 0, value=fma(masked(inside((k0 + kk, K)), at(a, i, k0 + kk)), at(pack, p2, kk, lane), at(acc, 0)))
    back = when(inside((col2, N)), put(c, i, col2, value=at(acc, 0)))
    rows = loop(i, core, M, loop(p2, 0, panels, put(acc, 0, value=old), loop(kk, 0, 4, step), back), step=cores)
    main = loop(k0, 0, K, loop(p, core, panels, loop(kk, 0, 4, fill), step=cores), rows, step=4)
    units = (Units("core", core, as_expr(cores)), Units("lane", lane, as_expr(8)))
    launch = Launch("main", units, (Alloc(pack, (Alloc(acc, (main,)),)),))
    program = Program("gemm_cores", CPU, (M, N, K), (), (("core", cores),), (a, b, c), (launch,))
    return program, *_gemm_data(m, n, k)


def _gemm_arguments(memory: str, level: str) -> tuple[Buffer, Buffer, Buffer]:
    return (
        buffer("A", "input", memory, level, M, K),
        buffer("B", "input", memory, level, K, N),
        buffer("C", "output", memory, level, M, N),
    )


def _gemm_data(m: int, n: int, k: int) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    x, y = ints(6, m, k), ints(7, k, n)
    return {"A": x, "B": y}, {"C": x @ y}


CASES = {
    f.__name__: f for f in (vector_add, transpose, gemm_simt, gemm_twice_buffered, gemm_async, gemm_mma, block_sum, gemm_cores)
}


# ---------------------------------------------------------------- barriers in programs


def barriers(program: Program) -> int:
    """How many barriers a program holds."""
    return sum(isinstance(s, Barrier) for launch in program.launches for s in statements(launch.body))


def without(program: Program, number: int) -> Program:
    """The program less its barrier `number`, counted in the order of the text."""
    seen = 0

    def strip(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        nonlocal seen
        out = []
        for s in body:
            if isinstance(s, Barrier):
                seen += 1
                if seen - 1 == number:
                    continue
            out.append(map_bodies(s, strip))
        return tuple(out)

    return replace(program, launches=tuple(replace(x, body=strip(x.body)) for x in program.launches))


def each_without(program: Program) -> Iterator[tuple[int, Program]]:
    for number in range(barriers(program)):
        yield number, without(program, number)


def ends_of(body: tuple[Stmt, ...], which, f) -> tuple[Stmt, ...]:
    """The body with `f` applied to the leaves that `which` picks."""
    return tuple(f(s) if which(s) else map_bodies(s, lambda inner: ends_of(inner, which, f)) for s in body)
