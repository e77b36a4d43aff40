"""Tile programs written by hand, for the C++ printer: what lowering is to build, and the device they run on."""

from __future__ import annotations

from andiron.codegen.ir.program import Program
from andiron.codegen.ir.tile_ir import Alloc, Barrier, Buffer, Call, For, If, Launch, Let, Piece, Stmt, Store, Units
from andiron.dsl.device import Device, Instr, Level, Memory, Operand
from andiron.dsl.index.expr import Expr, Index, Var, as_expr, ceildiv, minimum
from andiron.dsl.op import Statement
from andiron.dsl.types import TYPES, DType
from andiron.dsl.values import Apply, Const, Load, Masked, Value

F32 = TYPES["f32"]
CORE, CORES = Var("core", 0, 255), Var("cores", 1, 256)


def device(instrs: tuple[Instr, ...] = ()) -> Device:
    levels = (
        Level("socket", "open", "nothing"),
        Level("core", "finite", "barrier", most=256),
        Level("lane", "shaped", "lockstep", most=64, bytes=64),
    )
    memories = (
        Memory("dram", "socket"),
        Memory("l3", "socket", backing="dram"),
        Memory("l2", "core", backing="dram"),
        Memory("register", "lane", registers=(32, 64)),
    )
    return Device("cpu:test", levels, memories, instrs)


def lane(width: int) -> Var:
    return Var("l", 0, width - 1)


def units(width: int) -> tuple[Units, ...]:
    return (Units("core", CORE, as_expr(CORES)), Units("lane", lane(width), as_expr(width)))


def buffer(
    name: str, kind: str, shape: tuple[Index, ...], dtype: DType = F32, memory: str = "dram", level: str = "socket"
) -> Buffer:
    """Row-major."""
    extents = tuple(as_expr(e) for e in shape)
    strides: list[Expr] = []
    size = as_expr(1)
    for e in reversed(extents):
        strides.insert(0, size)
        size = size * e
    return Buffer(name, dtype, kind, memory, level, extents, tuple(strides), size)


def register(name: str, shape: tuple[int, ...], dtype: DType = F32) -> Buffer:
    return buffer(name, "local", shape, dtype, "register", "lane")


def loop(var: Var, stop: Index, body: tuple[Stmt, ...], start: Index = 0, step: Index = 1, unroll: int = 1) -> For:
    return For(var, as_expr(start), as_expr(stop), as_expr(step), body, unroll)


def at(name: str, *coords: Index, dtype: DType = F32) -> Load:
    return Load(name, tuple(as_expr(c) for c in coords), dtype)


def put(name: str, coords: tuple[Index, ...], value: Value) -> Store:
    return Store(name, tuple(as_expr(c) for c in coords), value)


def when(conds: tuple[Expr, ...], *body: Stmt) -> If:
    return If(conds, body)


def const(x: float | int | bool, dtype: DType = F32) -> Const:
    return Const(x, dtype)


def padded(conds: tuple[Expr, ...], value: Value) -> Value:
    return Masked(conds, value, const(0.0), F32)


def program(
    name: str, dims: tuple[Var, ...], buffers: tuple[Buffer, ...], body: tuple[Stmt, ...], width: int = 8, **more
) -> Program:
    launch = Launch("main", units(width), body)
    instrs = more.pop("instrs", ())
    return Program(name, device(instrs), dims, (), (("core", CORES),), buffers, (launch,), instrs, **more)


def elementwise(
    width: int, fn: str = "relu", dtype: DType = F32, out: DType | None = None, chunks: int = 4, args: int = 1
) -> Program:
    """Y[i] = fn(X[i], ...), each core a block of vectors at a time."""
    n, i, u, j = Var("N"), Var("i"), Var("u", 0, chunks - 1), Var("j")
    block, compute = chunks * width, dtype.compute
    names = ["X", "Z", "U"][:args]
    value: Value = Apply(fn, tuple(at(x, j, dtype=dtype) for x in names), compute) if fn else at("X", j, dtype=dtype)
    body = when((n - 1 - j,), put("Y", (j,), value))
    inner = loop(u, chunks, (Let(j, i + width * u + lane(width)), body), unroll=0)
    blocks = loop(i, n, (inner,), CORE * block, CORES * block)
    buffers = (*(buffer(x, "input", (n,), dtype) for x in names), buffer("Y", "output", (n,), out or compute))
    return program(f"map_{fn or 'copy'}", (n,), buffers, (blocks,), width)


def transpose(width: int) -> Program:
    """Y[j, i] = X[i, j]: blocks of width x width through registers of each lane."""
    m, n, i, j, r = Var("M"), Var("N"), Var("i"), Var("j"), Var("r", 0, width - 1)
    l = lane(width)
    store_row = when((n - 1 - j - r, m - 1 - i - l), put("Y", (j + r, i + l), at("X", i + l, j + r)))
    body = loop(i, m, (loop(j, n, (loop(r, width, (store_row,), unroll=0),), step=width),), CORE * width, CORES * width)
    return program("transpose", (m, n), (buffer("X", "input", (m, n)), buffer("Y", "output", (n, m))), (body,), width)


def fma_instr(width: int) -> Instr:
    """c += a * b over the lanes, a the same in all of them."""
    ln = Var("lane", 0, width - 1)
    k = Var("k", 0, 0)
    zero = as_expr(0)
    operands = (
        Operand("A", F32, (1, 1), "input", "register", (), (zero, zero)),
        Operand("B", F32, (1, width), "input", "register", (ln,), (zero, as_expr(ln))),
        Operand("C", F32, (1, width), "inout", "register", (ln,), (zero, as_expr(ln))),
    )
    product = Apply("mul", (at("A", 0, k), at("B", k, 0)), F32)
    statement = Statement("C", ("m", "n"), product, None, ())  # type: ignore[arg-type]
    return Instr(f"fma_f32x{width}", "core", None, operands, statement, True, (("cpp", "c = fma(a, b, c);"),))


def prefetch_instr() -> Instr:
    zero = as_expr(0)
    operands = (Operand("A", F32, (1,), "input", "dram", (), (zero,)),)
    return Instr(
        "prefetch",
        "core",
        None,
        operands,
        Statement("A", (), const(0.0), None, ()),
        False,
        (("cpp", "__builtin_prefetch(a);"),),
    )  # type: ignore[arg-type]


def gemm(width: int = 8, mr: int = 6, nv: int = 2, kc: int = 256, mc: int = 0, nc: int = 4080, unroll: int = 4,
         use_instr: bool = True, prefetch: bool = True) -> Program:  # fmt: skip
    """C = A B the BLIS way: packed panels of B shared by the cores, of A for each core, accumulators in registers."""
    nr, mc = nv * width, mc or 12 * mr
    nc -= nc % nr
    l = lane(width)
    m, n, k = Var("M"), Var("N"), Var("K")
    n0, k0, m0 = Var("n0"), Var("k0"), Var("m0")
    jp, ip, kk = Var("jp", 0, nc // nr - 1), Var("ip", 0, mc // mr - 1), Var("kk", 0, kc - 1)
    i, v = Var("i", 0, mr - 1), Var("v", 0, nv - 1)
    n_live, k_live, m_live = Var("n_live", 0, nc), Var("k_live", 0, kc), Var("m_live", 0, mc)
    bp = buffer("Bp", "local", (nc // nr, kc, nr), memory="l3")
    ap = buffer("Ap", "local", (mc // mr, kc, mr), memory="l2", level="core")

    col = n0 + nr * jp + width * v + l
    pack_b = loop(jp, ceildiv(n_live, nr), (
        loop(kk, k_live, (
            loop(v, nv, (put("Bp", (jp, kk, width * v + l), padded((n - 1 - col,), at("B", k0 + kk, col))),), unroll=0),
        )),
    ), CORE, CORES)  # fmt: skip
    row = m0 + mr * ip + i
    pack_a = loop(ip, ceildiv(m_live, mr), (
        loop(i, mr, (
            loop(kk, k_live, (
                when((k_live - 1 - kk - l,), put("Ap", (ip, kk + l, i), padded((m - 1 - row,), at("A", row, k0 + kk + l)))),
            ), step=width),
        ), unroll=0),
    ))  # fmt: skip
    if use_instr:
        piece = lambda b, *c: Piece(b, tuple(as_expr(x) for x in c))  # noqa: E731
        multiply: Stmt = Call(f"fma_f32x{width}", (piece("a", i), piece("b", v), piece("c", i, v)))
    else:
        multiply = put("c", (i, v), Apply("fma", (at("a", i), at("b", v), at("c", i, v)), F32))
    inner = loop(kk, k_live, (
        Alloc(register("b", (nv,)), (
            loop(v, nv, (put("b", (v,), at("Bp", jp, kk, width * v + l)),), unroll=0),
            Alloc(register("a", (mr,)), (
                loop(i, mr, (put("a", (i,), at("Ap", ip, kk, i)), loop(v, nv, (multiply,), unroll=0)), unroll=0),
            )),
        )),
    ), unroll=unroll)  # fmt: skip
    c_at = (row, col)
    first = If((-k0,), (put("C", c_at, at("c", i, v)),), (put("C", c_at, Apply("add", (at("C", *c_at), at("c", i, v)), F32)),))
    write = loop(i, mr, (loop(v, nv, (when((m - 1 - row, n - 1 - col), first),), unroll=0),), unroll=0)
    ahead = loop(i, mr, (Call("prefetch", (Piece("C", (as_expr(row), n0 + nr * jp + nr - 1)),)),), unroll=0)
    tile = Alloc(register("c", (mr, nv)), (
        loop(i, mr, (loop(v, nv, (put("c", (i, v), const(0.0)),), unroll=0),), unroll=0),
        *((ahead,) if prefetch else ()),
        inner,
        write,
    ))  # fmt: skip
    body = loop(n0, n, (
        Let(n_live, minimum(nc, n - n0)),
        loop(k0, k, (
            Let(k_live, minimum(kc, k - k0)),
            Alloc(bp, (
                Barrier("socket", "B panels of the last block were read"),
                pack_b,
                Barrier("socket", "B panels are packed"),
                loop(m0, m, (
                    Let(m_live, minimum(mc, m - m0)),
                    Alloc(ap, (
                        pack_a,
                        loop(jp, ceildiv(n_live, nr), (loop(ip, ceildiv(m_live, mr), (tile,)),)),
                    )),
                ), CORE * mc, CORES * mc),
            )),
        ), step=kc),
    ), step=nc)  # fmt: skip
    buffers = (buffer("A", "input", (m, k)), buffer("B", "input", (k, n)), buffer("C", "output", (m, n)))
    return program("sgemm", (m, n, k), buffers, (body,), width, instrs=(fma_instr(width), prefetch_instr()))
