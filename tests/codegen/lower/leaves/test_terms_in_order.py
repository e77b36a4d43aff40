"""Products that take the terms of their sum in the order in which another product's result lies in registers."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.ir.program import Program
from andiron.codegen.ir.tile_ir import Alloc, Call
from andiron.codegen.ir.tile_visitors import statements
from andiron.codegen.lower.leaves import owner_tree
from andiron.codegen.lower.leaves.term_order import TermOrder
from andiron.codegen.pipeline import compile_program
from andiron.codegen.verify import check_once
from andiron.dsl.errors.schedule import RegisterMismatch
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import bind_params, specialise
from andiron.runtime.compile import compile

from ....support.library.cases import poisoned
from ....support.programs.attention_rows import attention_rows, within_bounds

OP = """
op f[Q, T, D](q: TYPE[Q, D], k: TYPE[T, D], v: TYPE[T, D], seen: bool[Q, T]) -> (o: f32[Q, D], y: f32[Q]):
    s[i, t] = where(seen[i, t], sum(d) f32(q[i, d]) * f32(k[t, d]), -inf)
    m[i] = max(t) s[i, t]
    p[i, t] = exp(s[i, t] - m[i])
    l[i] = sum(t) p[i, t]
    y[i] = m[i] + log(l[i])
    o[i, d] = (sum(t) f32(TYPE(p[i, t])) * f32(v[t, d])) / l[i]
"""
LINES = """
schedule s for f where D <= 32:
    tile i: {block} -> block
    keep m, l, o in register
    move q -> shared
    tile t: {keys} online{pipeline}
    move k -> shared
    move v -> shared
    tile i: {rows} -> {group}
    keep s.sum1 in register:
        tile d: {depth}
        compute with {instr}
    keep p in register
    tile t: {call}
    compute with {instr}
"""
SIZES = ((5, 40, 9), (40, 33, 32), (1, 1, 1), (3, 0, 4), (0, 3, 2), (33, 70, 17))
WARP = {"group": "warp", "pipeline": " pipeline 2", "block": 32, "rows": 16, "keys": 32}
WAVE = {"group": "wave", "pipeline": "", "block": 32, "rows": 16, "keys": 32}
LARGE = WAVE | {"block": 64, "rows": 32}
CASES = {  # device, type, lines
    "f8 on Ada": ("sm_89", "f8e4m3", WARP | {"instr": "mma_m16n8k32_f8e4m3", "depth": 32, "call": 32}),
    "f8 on Hopper": ("sm_90a", "f8e5m2", WARP | {"instr": "mma_m16n8k32_f8e5m2", "depth": 32, "call": 32}),
    "tf32 on Ampere": ("sm_80", "tf32", WARP | {"instr": "mma_m16n8k8_tf32", "depth": 8, "call": 8}),
    "two calls for the keys of a result": ("sm_80", "tf32", WARP | {"instr": "mma_m16n8k4_tf32", "depth": 4, "call": 8}),
    "f32 on CDNA": ("gfx90a", "f32", WAVE | {"instr": "mfma_16x16x4_f32", "depth": 4, "call": 16}),
    "f32 on CDNA, of 32 rows": ("gfx942", "f32", LARGE | {"instr": "mfma_32x32x2_f32", "depth": 2, "call": 32}),
    "bf16 on the first CDNA": ("gfx908", "bf16", WAVE | {"instr": "mfma_16x16x8_bf16", "depth": 8, "call": 16}),
    "tf32 on CDNA": ("gfx942", "tf32", WAVE | {"instr": "mfma_16x16x8_tf32", "depth": 8, "call": 16}),
    "f8 on CDNA": ("gfx950", "f8e4m3", WAVE | {"instr": "mfma_16x16x32_f8e4m3", "depth": 32, "call": 32}),
    "f16 on CDNA, calls of 32": ("gfx950", "f16", WAVE | {"instr": "mfma_16x16x32_f16", "depth": 32, "call": 32}),
}
NUMPY = {
    "f8e4m3": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2, "bf16": ml_dtypes.bfloat16,
    "f16": np.float16, "f32": np.float32, "tf32": np.float32,
}  # fmt: skip


def op_text(kind: str, text: str = OP) -> str:
    return text.replace("TYPE", kind) if kind != "f32" else text.replace("TYPE", kind).replace("f32(", "(")


def text_of(name: str) -> tuple[str, str]:
    device, kind, words = CASES[name]
    return op_text(kind) + LINES.format(**words), device


def attention_inputs(name: str, sizes: tuple[int, ...]) -> tuple[np.ndarray, ...]:
    kind = CASES[name][1]
    q, k, v, seen = attention_rows(*sizes)
    if kind == "tf32":
        q, k, v = ((x.view(np.uint32) & 0xFFFFE000).view(np.float32) for x in (q, k, v))
    return (*(x.astype(NUMPY[kind]) for x in (q, k, v)), seen)


def agrees(text: str, got, inputs) -> float:
    return within_bounds(loads(text).ops["f"], got, inputs)


@pytest.mark.parametrize("name", CASES)
def test_attention(name: str) -> None:
    text, device = text_of(name)
    kernel = compile(text, op="f", schedule="s", target=f"emulate:{device}")
    seen = 0.0
    for sizes in SIZES:
        inputs = attention_inputs(name, sizes)
        out = poisoned((sizes[0], sizes[2]), np.dtype(np.float32)), poisoned(sizes[:1], np.dtype(np.float32))
        kernel(*inputs, out=out)
        seen += agrees(op_text(CASES[name][1]), out, inputs)
    assert seen > 2  # not all is NaN


POWERS = """
op f[Q, T, D](q: TYPE[Q, D], k: TYPE[T, D], v: TYPE[T, D]) -> (o: f32[Q, D], l: f32[Q]):
    s[i, t] = sum(d) f32(q[i, d]) * f32(k[t, d])
    m[i] = max(t) s[i, t]
    p[i, t] = exp2(s[i, t] - m[i])
    l[i] = sum(t) p[i, t]
    o[i, d] = sum(t) f32(TYPE(p[i, t])) * f32(v[t, d])
"""


@pytest.mark.parametrize("name", CASES)
def test_integers_in_base_2_are_exact(name: str) -> None:
    """Scores are integers, and f8 has the powers of two: all sums are exact, in whichever order the terms come."""
    device, kind, words = CASES[name]
    text = op_text(kind, POWERS + LINES.format(**words).replace("s.sum1", "s"))
    kernel = compile(text, op="f", schedule="s", target=f"emulate:{device}")
    rng = np.random.default_rng(5)
    for n, t, d in ((5, 70, 9), (33, 40, 32), (1, 1, 1)):
        q, k, v = rng.integers(-1, 2, (n, d)), rng.integers(-1, 2, (t, d)), rng.integers(-4, 5, (t, d))
        q[:, 3:] = 0  # |s| <= 3
        out = poisoned((n, d), np.dtype(np.float32)), poisoned((n,), np.dtype(np.float32))
        kernel(*(x.astype(np.float32).astype(NUMPY[kind]) for x in (q, k, v)), out=out)
        s = q @ k.T
        p = np.exp2(s - s.max(1, keepdims=True))
        np.testing.assert_array_equal(out[0], p @ v)
        np.testing.assert_array_equal(out[1], p.sum(1))


def lowered(device: str, text: str, op: str = "f") -> Program:
    module = loads(text)
    return compile_program(module, module.ops[op], module.schedules["s"], module.device(device)).program


@pytest.mark.parametrize("name", ["f8 on Ada", "f32 on CDNA", "two calls for the keys of a result"])
def test_in_the_interpreter_and_once(name: str) -> None:
    text, device = text_of(name)
    program = lowered(device, text)
    inputs = attention_inputs(name, (5, 40, 3))
    sizes = {"Q": 5, "T": 40, "D": 3}
    agrees(
        op_text(CASES[name][1]),
        interpret(program, dict(zip(("q", "k", "v", "seen"), inputs, strict=True)), sizes).values(),
        inputs,
    )
    check_once(program, loads(text).ops["f"], sizes)
    assert len(program.launches) == 1
    allocated = [x.buffer for x in statements(program.launches[0].body) if isinstance(x, Alloc)]
    assert {b.name for b in allocated if b.memory == "shared"} == {"q_shared", "k_shared", "v_shared"}


@pytest.mark.parametrize("name", CASES)
def test_as_it_lies_nothing_fits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without another order of terms all of these are refused, and the error names both fragments."""
    monkeypatch.setattr(owner_tree, "fitting_order", lambda *_: None)
    text, device = text_of(name)
    with pytest.raises(
        RegisterMismatch, match=r"is held in registers as `.*`, and read here as `.*`: no unit has what it reads"
    ):
        lowered(device, text)


def test_another_order_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    text, device = text_of("f8 on Ada")
    wrong = TermOrder("t", ((2, 1), (2, 16), (4, 2), (2, 8)))
    monkeypatch.setattr(owner_tree, "fitting_order", lambda *_: wrong)
    lowered(device, text)  # pairs of tiles in another order, which is one that fits, too
    monkeypatch.setattr(owner_tree, "fitting_order", lambda *_: TermOrder("t", ((2, 2), (2, 8), (2, 4), (2, 1), (2, 16))))
    with pytest.raises(RegisterMismatch):
        lowered(device, text)


def test_an_order_is_within_a_tile() -> None:
    """The keys of a tile are permuted among themselves: in tiles of 4 keys, 16 of them have none."""
    device, kind, words = CASES["f32 on CDNA"]
    with pytest.raises(RegisterMismatch, match="no unit has what it reads"):
        lowered(device, op_text(kind) + LINES.format(**words | {"call": 4}))


# ---------------------------------------------------------------- two products

CHAIN = """
op f[M, N, K, L](A: TYPE[M, K], B: TYPE[N, K], E: TYPE[N, L]) -> (Z: SUM[M, L]):
    S[m, n] = TYPE(sum(k) SUM(A[m, k]) * SUM(B[n, k]))
    Z[m, l] = sum(n{domain}) SUM(S[m, n]) * SUM(E[n, l])
"""
CHAIN_LINES = """
schedule s for f on {device} where K <= 32, L <= 16:
    tile m: 16 -> block
    keep Z in register
    tile n: {tile}
    keep S.sum1 in register:
        tile k: {depth}
        compute with {instr}
    compute with {instr}
"""
CHAINS = {  # type, of sums, device, lines
    "i8": ("i8", "i32", "sm_80", {"instr": "mma_m16n8k32_i8", "depth": 32, "tile": 32}),
    "tiles of no whole number of calls": ("i8", "i32", "sm_80", {"instr": "mma_m16n8k16_i8", "depth": 16, "tile": 40}),
    "i8 on CDNA": ("i8", "i32", "gfx942", {"instr": "mfma_16x16x32_i8", "depth": 32, "tile": 32}),
    "f64": ("f64", "f64", "sm_80", {"instr": "mma_m8n8k4_f64", "depth": 4, "tile": 16}),
    "f32": ("f32", "f32", "gfx90a", {"instr": "mfma_16x16x4_f32", "depth": 4, "tile": 16}),
}


def chain(kind: str, sums: str, lines: str, domain: str = "") -> str:
    text = (CHAIN + lines).replace("TYPE", kind).replace("SUM", sums).replace("{domain}", domain)
    return text if kind != sums else text.replace(f"{kind}(", "(").replace("S.sum1", "S")


def integers(kind: str, sizes: tuple[int, ...]) -> list[np.ndarray]:
    """As small as all sums are exact, and scores fit an i8."""
    m, n, k, width = sizes
    rng = np.random.default_rng(sum(sizes))
    a, b, e = (rng.integers(-1, 2, s) for s in ((m, k), (n, k), (n, width)))
    return [
        x.astype(np.dtype(kind.replace("i8", "int8").replace("f64", "float64").replace("f32", "float32"))) for x in (a, b, e)
    ]


@pytest.mark.parametrize("name", CHAINS)
def test_integers_are_exact(name: str) -> None:
    kind, sums, device, words = CHAINS[name]
    text = chain(kind, sums, CHAIN_LINES.format(device=device, **words))
    kernel = compile(text, op="f", schedule="s", target=f"emulate:{device}")
    for sizes in ((17, 41, 19, 9), (32, 80, 32, 16), (1, 1, 1, 1), (3, 0, 2, 4), (0, 3, 2, 4), (20, 7, 0, 3)):
        a, b, e = integers(kind, sizes)
        out = poisoned((sizes[0], sizes[3]), np.dtype(sums.replace("i", "int").replace("f", "float")))
        kernel(a, b, e, out=out)
        np.testing.assert_array_equal(out, (a.astype(np.int64) @ b.T) @ e.astype(np.int64))


@pytest.mark.parametrize("name", CHAINS)
def test_each_point_once(name: str) -> None:
    """It is proven, also of calls that take their terms together."""
    kind, sums, device, words = CHAINS[name]
    text = chain(kind, sums, CHAIN_LINES.format(device=device, **words))
    module = loads(text)
    op = bind_params(module.ops["f"])
    made = compile_program(module, op, module.schedules["s"], module.device(device))
    whole = name != "tiles of no whole number of calls"
    assert (made.report["contributions"] == "") is whole
    check_once(made.program, op, {"M": 5, "N": 41, "K": 3, "L": 4})


# ---------------------------------------------------------------- domains


def test_which_terms_count_is_told_in_order() -> None:
    """What an operand says of terms is in the same order as the terms."""
    op = op_text("f32").replace("s[i, t] =", "s[i, t] where t <= i + T - Q =").replace("f32[Q])", "f32[Q]) where Q <= T")
    program = lowered("gfx90a", op + LINES.format(**CASES["f32 on CDNA"][2]))
    called = {x.instr for x in statements(program.launches[0].body) if isinstance(x, Call)}
    assert {"mfma_where_16x16x4_f32", "mfma_16x16x4_f32"} <= called
    for sizes in ((5, 40, 3), (20, 20, 3), (1, 1, 1), (0, 4, 2)):
        q, k, v, seen = attention_inputs("f32 on CDNA", sizes)
        v[sizes[1] - 1 :] = np.nan  # only the last row sees it
        named = dict(zip("QTD", sizes, strict=True))
        results = interpret(program, {"q": q, "k": k, "v": v, "seen": seen}, named)
        agrees(op, results.values(), (q, k, v, seen))
        check_once(program, loads(op).ops["f"], named)


def test_what_is_read_from_a_memory_has_no_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """There it may be copied by instructions, which have fragments of their own."""
    kind, sums, device, words = CHAINS["i8"]
    text = chain(kind, sums, CHAIN_LINES.format(device=device, **words)).replace(" where K <= 32, L <= 16", "")
    first, last = text.rsplit("    compute", 1)
    looked = []
    monkeypatch.setattr(owner_tree, "fitting_order", lambda *x: looked.append(x))
    module = loads(f"{first}    keep S in shared\n    compute{last}")
    op = specialise(module.ops["f"], {"M": 16, "N": 32, "K": 32, "L": 16})
    program = compile_program(module, op, module.schedules["s"], module.device(device)).program
    assert looked == []
    a, b, e = integers(kind, (16, 32, 32, 16))
    np.testing.assert_array_equal(interpret(program, {"A": a, "B": b, "E": e})["Z"], (a.astype(int) @ b.T) @ e.astype(int))
