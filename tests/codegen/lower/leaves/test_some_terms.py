"""Products with a domain on matrix instructions: what a result does not see is nowhere in it, whatever it is."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.ir.tile_ir import Call, If
from andiron.codegen.ir.tile_visitors import statements
from andiron.codegen.pipeline import compile_program
from andiron.codegen.verify import check_once
from andiron.dsl.errors import UserError
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import specialise
from andiron.dsl.semantics.reference import reference
from andiron.runtime.compile import compile

OPS = """
import std.ops.attention
op windowed[H, Q, T, D](q: bf16[H, Q, D], k: bf16[H, T, D], v: bf16[H, T, D]) -> (o: f32[H, Q, D]) where Q <= T:
    s[h, i, t] where t <= i + T - Q, t + 9 > i + T - Q = (sum(d) f32(q[h, i, d]) * f32(k[h, t, d])) * rsqrt(D)
    m[h, i] = max(t) s[h, i, t]
    p[h, i, t] = exp(s[h, i, t] - m[h, i])
    l[h, i] = sum(t) p[h, i, t]
    o[h, i, d] = (sum(t) f32(bf16(p[h, i, t])) * f32(v[h, t, d])) / l[h, i]
op triangle[M, N, K](A: f16[M, N], B: f16[N, K]) -> (C: f32[M, K]):
    C[i, k] = sum(j where j <= i) f32(A[i, j]) * f32(B[j, k])
op blocks[M, N, K](A: f16[M, N], B: f16[N, K]) -> (C: f32[M, K]):
    C[i, k] = sum(j where j / 5 == i / 5) f32(A[i, j]) * f32(B[j, k])
op corner[M, N, K](A: f16[M, N], B: f16[N, K]) -> (C: f32[M, K]):
    C[i, k] = sum(j where j <= i + k) f32(A[i, j]) * f32(B[j, k])
"""
PASS = """
schedule s for {op} where D <= 32:
    tile h: 1, i: 32 -> block
    keep m, l, o in register
    move q -> shared
    tile t: 32 online pipeline 2
    move k -> shared
    move v -> shared
    tile i: 16 -> {group}
    keep s in register:
        tile d: {k}
        compute with {instr}
    keep p in register
    tile t: 16
    compute with {instr}
"""
CROSSING = PASS.replace(
    "    keep p in register\n    tile t: 16\n", "    keep p in register\n    tile t: 16\n    keep o.left1 in shared\n"
)
PRODUCT = """
schedule s for {op}:
    tile i: 32, k: 16 -> block
    keep C in register
    tile j: {tile}
    move A -> shared
    move B -> shared
    tile i: 16 -> {group}
    tile j: {k}
    compute with {instr}
"""
CASES = {
    "causal": ("causal_attention_f16", PASS, "sm_80", {"instr": "mma_m16n8k16_f16", "k": 16}),
    "causal on Turing": ("causal_attention_f16", PASS, "sm_75", {"instr": "mma_m16n8k8_f16", "k": 8}),
    "causal on CDNA": ("causal_attention_f16", PASS, "gfx942", {"instr": "mfma_16x16x16_f16", "k": 16}),
    "a window on CDNA": ("windowed", PASS, "gfx90a", {"instr": "mfma_16x16x16_bf16", "k": 16}),
    "causal on RDNA4": ("causal_attention_f16", PASS, "gfx1201", {"instr": "wmma_16x16x16_f16", "k": 16}),
    "causal through shared memory": ("causal_attention_f16", CROSSING, "gfx1100", {"instr": "wmma_16x16x16_f16", "k": 16}),
    "a window through shared memory": ("windowed", CROSSING, "gfx1100", {"instr": "wmma_16x16x16_bf16", "k": 16}),
    "a window": ("windowed", PASS, "sm_80", {"instr": "mma_m16n8k16_bf16", "k": 16}),
    "a triangle": ("triangle", PRODUCT, "sm_80", {"instr": "mma_m16n8k16_f16", "k": 16, "tile": 32}),
    "tiles shorter than calls": ("triangle", PRODUCT, "sm_80", {"instr": "mma_m16n8k16_f16", "k": 8, "tile": 24}),
    "not linear": ("blocks", PRODUCT, "sm_80", {"instr": "mma_m16n8k16_f16", "k": 16, "tile": 32}),
}
OF_A_PASS = ((1, 5, 40, 9), (2, 40, 40, 32), (1, 33, 35, 7), (1, 1, 1, 1), (1, 0, 3, 4), (1, 33, 70, 17), (1, 64, 64, 16))
SIZES = {
    PASS: OF_A_PASS,
    CROSSING: OF_A_PASS,
    PRODUCT: ((37, 41, 9), (64, 64, 16), (1, 1, 1), (3, 0, 2), (0, 4, 3), (20, 70, 17)),
}


def text(name: str) -> str:
    op, lines, device, words = CASES[name]
    return OPS + lines.format(op=op, group="wave" if device.startswith("gfx") else "warp", **words)


def inputs(name: str, sizes: tuple[int, ...]) -> list[np.ndarray]:
    """What only some results see, or none, is infinite or no number."""
    op = loads(OPS).ops[CASES[name][0]]
    bound = {v.name: n for v, n in zip(op.dims, sizes, strict=True)}
    rng = np.random.default_rng(sum(sizes))
    out = []
    for t in op.inputs:
        x = rng.standard_normal([bound[str(e)] for e in t.shape]).astype(t.dtype.numpy)
        out.append(x)
    if CASES[name][1] is PRODUCT:  # no result sees these
        i, j = np.ogrid[: out[0].shape[0], : out[0].shape[1]]
        out[0][(j > i) if CASES[name][0] == "triangle" else (j // 5 != i // 5)] = np.nan
    for n, x in enumerate(out[1:]):
        rows = x.shape[-2]
        for j in range(rows - 1 - n, 0, -13):
            x[..., j, j % x.shape[-1]] = (np.nan, np.inf, -np.inf)[j % 3]
    return out


@pytest.mark.parametrize("name", CASES)
def test_right(name: str) -> None:
    op, lines, device, _ = CASES[name]
    kernel = compile(text(name), op=op, schedule="s", target=f"emulate:{device}")
    seen = 0.0
    for sizes in SIZES[lines]:
        arrays = inputs(name, sizes)
        got = np.asarray(kernel(*arrays), float)
        value, bound = reference(loads(OPS).ops[op], exact=True)(*arrays)
        np.testing.assert_array_equal(np.isnan(got), np.isnan(value))
        some = np.isfinite(value)
        np.testing.assert_array_equal(got[~some], value[~some])
        assert (np.abs(got[some] - value[some]) <= bound[some]).all()
        seen += some.mean() if some.size > 1 else 0
    assert seen > 1  # not all is NaN


def test_whole_calls_are_the_plain_instruction() -> None:
    module = loads(text("causal").replace(" where D <= 32", ""))
    op = specialise(module.ops["causal_attention_f16"], {"H": 1, "Q": 64, "T": 64, "D": 16})
    made = compile_program(module, op, module.schedules["s"], module.device("sm_80"))
    (launch,) = made.program.launches
    choices = [s for s in statements(launch.body) if isinstance(s, If) and s.orelse]
    told = [s for s in statements(launch.body) if isinstance(s, Call) and s.instr.startswith("mma_where")]
    assert told
    for s in choices:  # the version of whole tiles asks nothing more
        calls = {x.instr for x in statements(s.body) if isinstance(x, Call) and x.instr.startswith("mma")}
        assert calls <= {"mma_m16n8k16_f16"}
    check_once(made.program, op, {})
    rng = np.random.default_rng(1)
    arrays = {t.name: rng.standard_normal([e.constant or 0 for e in t.shape]).astype(np.float16) for t in op.inputs}
    value, bound = reference(op, exact=True)(*arrays.values())
    assert (np.abs(interpret(made.program, arrays)["o"].astype(float) - value) <= bound).all()


def test_what_no_operand_can_say_is_refused() -> None:
    """An instruction is told of rows and reduced indices which terms count; here it depends on the column as well."""
    words = {"instr": "mma_m16n8k16_f16", "k": 16, "tile": 32}
    module = loads(OPS + PRODUCT.format(op="corner", group="warp", **words))
    with pytest.raises(UserError, match="does not compute `C`") as refused:
        compile_program(module, module.ops["corner"], module.schedules["s"], module.device("sm_80"))
    assert "a call adds terms inside of j <= i + k and others" in (refused.value.help or "")
