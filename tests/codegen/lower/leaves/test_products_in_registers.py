"""A product's result in registers as the operand of the next one: attention on matrix instructions, with running values."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.interpret.machine import Fault, interpret
from andiron.codegen.ir.program import Program
from andiron.codegen.ir.tile_ir import Alloc, AllReduce, For
from andiron.codegen.ir.tile_visitors import statements
from andiron.codegen.lower.leaves.fragment_fit import is_read_as_it_lies, parts_over_lanes, projected
from andiron.codegen.lower.leaves.match_instr import FragmentMap
from andiron.codegen.lower.shared_loops import lower_online
from andiron.codegen.pipeline import compile_program
from andiron.codegen.verify import check_once
from andiron.dsl.errors.schedule import RegisterMismatch
from andiron.dsl.module import loads
from andiron.dsl.semantics.reference import reference
from andiron.runtime.compile import compile

from ....support.gpu.library_instrs import instructions
from ....support.programs.attention_rows import attention_rows, within_bounds

OP = """
op f[Q, T, D](q: f16[Q, D], k: f16[T, D], v: f16[T, D], seen: bool[Q, T]) -> (o: f32[Q, D], y: f32[Q]):
    s[i, t] = where(seen[i, t], sum(d) f32(q[i, d]) * f32(k[t, d]), -inf)
    m[i] = max(t) s[i, t]
    p[i, t] = exp(s[i, t] - m[i])
    l[i] = sum(t) p[i, t]
    y[i] = m[i] + log(l[i])
    o[i, d] = (sum(t) f32(f16(p[i, t])) * f32(v[t, d])) / l[i]
"""
LINES = """
schedule s for f where D <= 32:
    tile i: 32 -> block
    keep m, l, o in register
    move q -> shared
    tile t: 32 online{pipeline}
    move k -> shared
    move v -> shared
    tile i: 16 -> {group}
    keep s.sum1 in register:
        tile d: {depth}
        compute with {instr}
    keep p in register
    tile t: 16
    compute with {instr}
"""
DEVICES = {
    "sm_80": LINES.format(pipeline=" pipeline 2", group="warp", depth=16, instr="mma_m16n8k16_f16"),
    "gfx942": LINES.format(pipeline="", group="wave", depth=16, instr="mfma_16x16x16_f16"),  # both products are transposed
}
SIZES = ((5, 40, 9), (40, 33, 32), (1, 1, 1), (3, 0, 4), (33, 70, 17))


def arrays(n: int, t: int, d: int) -> tuple[np.ndarray, ...]:
    q, k, v, seen = attention_rows(n, t, d)
    return (*(x.astype(np.float16) for x in (q, k, v)), seen)


def agrees(got, inputs) -> None:
    within_bounds(loads(OP).ops["f"], got, inputs)


@pytest.mark.parametrize("device", DEVICES)
def test_attention(device: str) -> None:
    kernel = compile(OP + DEVICES[device], op="f", schedule="s", target=f"emulate:{device}")
    for sizes in SIZES:
        agrees(kernel(*arrays(*sizes)), arrays(*sizes))


def test_readers_that_do_not_depend_on_each_other() -> None:
    """A maximum, a sum and a product of one tile of scores, and none is corrected; rows of a warp are two fragments."""
    op = """
op f[Q, T, D](q: f16[Q, D], k: f16[T, D], v: f16[T, D]) -> (o: f32[Q, D], m: f32[Q], l: f32[Q]):
    s[i, t] = sum(d) f32(q[i, d]) * f32(k[t, d])
    m[i] = max(t) s[i, t]
    l[i] = sum(t) s[i, t]
    o[i, d] = sum(t) f32(f16(s[i, t])) * f32(v[t, d])
"""
    lines = DEVICES["sm_80"].replace(" online pipeline 2", "").replace("    keep p in register\n", "")
    lines = lines.replace("s.sum1", "s").replace("i: 16 ->", "i: 32 ->")
    kernel = compile(op + lines, op="f", schedule="s", target="emulate:sm_80")
    inputs = arrays(40, 33, 20)[:3]
    inputs[2][3, 0] = 1
    for result, (value, bound) in zip(kernel(*inputs), reference(loads(op).ops["f"], exact=True)(*inputs), strict=True):
        assert (np.abs(result - value) <= bound).all()


def lowered(device: str, text: str) -> Program:
    module = loads(text)
    return compile_program(module, module.ops["f"], module.schedules["s"], module.device(device)).program


@pytest.mark.parametrize("device", DEVICES)
def test_in_the_interpreter_and_once(device: str) -> None:
    program = lowered(device, OP + DEVICES[device])
    sizes = dict(zip("QTD", (5, 40, 3), strict=True))
    q, k, v, seen = arrays(*sizes.values())
    agrees(interpret(program, {"q": q, "k": k, "v": v, "seen": seen}, sizes).values(), (q, k, v, seen))
    check_once(program, loads(OP).ops["f"], sizes)
    assert len(program.launches) == 1
    allocated = [x.buffer for x in statements(program.launches[0].body) if isinstance(x, Alloc)]
    assert {b.name for b in allocated if b.memory == "shared"} == {"q_shared", "k_shared", "v_shared"}


def test_lanes_combine_their_maxima_in_each_iteration(monkeypatch: pytest.MonkeyPatch) -> None:
    """An instruction adds elements of several lanes, which need one running value."""
    monkeypatch.setattr(lower_online, "_combined_in_turn", lambda *_: ())
    program = lowered("sm_80", OP + DEVICES["sm_80"])
    with pytest.raises(Fault):
        check_once(program, loads(OP).ops["f"], {"Q": 2, "T": 40, "D": 3})


def test_sums_alone_combine_at_the_end() -> None:
    """Where no instruction follows, each lane has a running value of its own."""
    op = OP[: OP.index("    o[i, d]")].replace(" v: f16[T, D],", "").replace("o: f32[Q, D], ", "")
    program = lowered("sm_80", op + DEVICES["sm_80"].replace("    move v -> shared\n", "").replace("m, l, o in", "m, l in"))
    found = statements(program.launches[0].body)
    inside = [x for loop in found if isinstance(loop, For) and loop.unroll != 0 for x in statements(loop.body)]
    assert [x.kind for x in found if isinstance(x, AllReduce)] == ["max", "sum"]
    assert not any(isinstance(x, AllReduce) for x in inside)


def fragment(title: str, operand: str, names: str) -> FragmentMap:
    op = instructions()[title][1].operand(operand)
    lane, r = (next((v for v in op.coords if v.name == name), None) for name in ("lane", "r"))
    lanes, registers = (1 if v is None else (v.hi or 0) + 1 for v in (lane, r))
    return FragmentMap(tuple(zip(names, op.shape, op.map, strict=True)), lane, lanes, r, registers)


@pytest.mark.parametrize(("title", "ways"), [
    ("sm_80:mma_m16n8k16_f16", "A"), ("sm_75:mma_m16n8k8_f16", "A"), ("sm_80:mma_m16n8k8_tf32", ""),
    ("gfx908:mfma_16x16x16_f16", "tA tB"), ("gfx908:mfma_32x32x8_f16", "tA tB"), ("gfx908:mfma_32x32x2_f32", ""),
])  # fmt: skip
def test_which_results_are_operands_as_they_lie(title: str, ways: str) -> None:
    """`t`: of the transposed product."""
    found = {
        "A": is_read_as_it_lies(fragment(title, "C", "it"), fragment(title, "A", "it")),
        "tA": is_read_as_it_lies(fragment(title, "C", "ti"), fragment(title, "A", "it")),
        "tB": is_read_as_it_lies(fragment(title, "C", "ti"), fragment(title, "B", "ti")),
    }
    assert [name for name, fits in found.items() if fits] == ways.split()


def test_rows_of_a_fragment() -> None:
    scores = fragment("sm_80:mma_m16n8k16_f16", "C", "it")
    rows = projected(scores, frozenset("i"))
    assert rows is not None
    assert (rows.registers, str(rows.maps[0][2])) == (2, "8*r + lane/4")
    assert parts_over_lanes(scores, frozenset("i")) == (((1, 4),), ())
    assert parts_over_lanes(rows, frozenset("i")) == ((), ((1, 4),))
    turned = fragment("gfx908:mfma_16x16x16_f16", "C", "ti")
    assert parts_over_lanes(turned, frozenset("i")) == (((16, 4),), ())


def test_no_unit_has_it() -> None:
    text = """
op f[M, N, K, L](A: f16[M, K], B: f16[K, N], C: f16[M, L], E: f16[N, L]) -> (Y: f32[N, L], Z: f32[M, L]):
    S[m, n] = f16(sum(k) f32(A[m, k]) * f32(B[k, n]))
    Y[n, l] = sum(m) f32(S[m, n]) * f32(C[m, l])
    Z[m, l] = sum(n) f32(S[m, n]) * f32(E[n, l])
schedule s for f on sm_80 where M <= 16, N <= 16, L <= 16:
    keep Y in register
    keep Z in register
    keep S.sum1 in register:
        tile k: 16
        compute with mma_m16n8k16_f16
    compute with mma_m16n8k16_f16
"""
    with pytest.raises(RegisterMismatch) as error:
        compile(text, op="f", schedule="s", target="emulate:sm_80")
    assert "`n = lane/4 + 8*(r/2), m = 2*(lane % 4) + r % 2`, and read here as `m = lane/4" in str(error.value)
    assert "no unit has what it reads" in str(error.value)


@pytest.mark.parametrize("staged", ["move A -> l2:\n        tile i: 1", "keep a in l2:\n        tile i: 1", "move A -> l2"])
def test_rows_past_the_edge_are_staged_for_a_product_in_registers(staged: str) -> None:
    """Registers have numbers, so the product has all rows of its tile; what it reads of the ones past the edge is zero."""
    op = """op two[M](A: f32[M, 4], B: f32[4, 4]) -> (Y: f32[M, 4]):
    a[i, k] = A[i, k] + A[i, k]
    t[i, k] = sum(q) {read}[i, q] * B[q, k]
    Y[i, n] = sum(k) t[i, k] * B[k, n]
schedule s for two:
    tile i: 8 -> core
    {staged}
    keep t in register:
        tile i: 1
    tile i: 1
    compute
"""
    read = "a" if "keep" in staged else "A"
    kernel = compile(op.format(read=read, staged=staged), op="two", schedule="s", target="cpu:generic")
    for m in (0, 1, 3, 8, 21):
        a, b = np.arange(m * 4, dtype=np.float32).reshape(m, 4) % 7, np.arange(16, dtype=np.float32).reshape(4, 4) % 5
        np.testing.assert_array_equal(kernel(a, b), (2 if read == "a" else 1) * a @ b @ b)
