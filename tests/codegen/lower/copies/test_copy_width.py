"""Copies that go through registers move runs of neighbours: as wide as the device loads and stores, and never in vain."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest
from andiron.codegen import lower_launches
from andiron.codegen.abi import programs
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.ir.program import Program
from andiron.codegen.ir.tile_ir import Alloc, Call
from andiron.codegen.ir.tile_visitors import statements
from andiron.codegen.lower.lowering_context import LoweringContext, UnalignedVariant
from andiron.codegen.lower_launches import lower_launch
from andiron.codegen.pipeline import CompiledProgram, compile_program
from andiron.dsl.module import Module, loads
from andiron.dsl.ops.specialise import bind_params, specialise
from andiron.dsl.semantics.reference import reference
from andiron.runtime.compile import compile

OPS = """import std.devices.amd
import std.devices.nvidia
op gemm[M, N, K](A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]):
    C[m, n] = sum(k) A[m, k] * B[k, n]
op hgemm[M, N, K](A: f16[M, K], B: f16[K, N]) -> (C: f32[M, N]):
    C[m, n] = sum(k) f32(A[m, k]) * f32(B[k, n])
op scaled[M, N, K](A: i8[M, K], s: f32[M], B: f32[K, N]) -> (C: f32[M, N]):
    W[m, k] = f32(A[m, k]) * s[m]
    C[m, n] = sum(k) W[m, k] * B[k, n]
op conv[C, H, O](I: f32[C, H], F: f32[O, C, 3]) -> (Y: f32[O, P]) where P = H - 2:
    Y[o, p] = sum(c, r) I[c, p + r] * F[o, c, r]
"""
PRODUCT = """schedule s for {op} on {device}:
    tile m: {m}, n: {n} -> block
    keep C in register
    tile k: {k} {ahead}
    move {left} -> shared {a}
    move B -> shared {b}
    tile m: 16, n: 32 -> {group}
    tile m: 4, n: 4 -> thread
    compute
"""
WINDOW = """schedule s for conv on gfx90a:
    tile o: 16, p: 64 -> block
    keep Y in register
    tile r: 1
    tile c: 8
    move I -> shared
    move F -> shared
    tile o: 4, p: 4 -> thread
    compute
"""
ODD = [dict(M=70, N=66, K=40), dict(M=37, N=45, K=21), dict(M=64, N=64, K=64), dict(M=1, N=1, K=1), dict(M=3, N=5, K=0)]


@lru_cache(maxsize=40)
def product(op: str = "gemm", device: str = "gfx90a", a: str = "", b: str = "", m=64, n=64, k=32, ahead: str = "") -> Module:
    group = "wave" if device.startswith("gfx") else "warp"
    left = "W" if op == "scaled" else "A"
    return loads(OPS + PRODUCT.format(op=op, device=device, a=a, b=b, m=m, n=n, k=k, ahead=ahead, group=group, left=left))


def compiled(mod: Module, **sizes: int) -> CompiledProgram:
    s = mod.schedules["s"]
    return compile_program(mod, specialise(bind_params(mod.ops[s.op]), sizes), s, mod.device(s.device or ""))


def runs(c: CompiledProgram) -> list[int]:
    """Elements that units take at once, by copy."""
    lines = c.schedule.splitlines()
    return [
        int(x.split(":")[1].split()[0]) for x, up in zip(lines[1:], lines, strict=False) if "fuse" in up and "-> thread" in x
    ]


def calls(p: Program) -> set[str]:
    return {s.instr for x in p.launches for s in statements(x.body) if isinstance(s, Call)}


@pytest.mark.parametrize("device", ["gfx90a", "gfx942", "gfx1100", "sm_75", "sm_80"])
@pytest.mark.parametrize(("op", "most", "kind"), [("gemm", 4, "f32x4"), ("hgemm", 8, "f16x8")])
def test_as_wide_as_the_device_moves(device, op, most, kind):
    c = compiled(product(op, device, k=8 * most), M=256, N=256, K=256)
    assert runs(c) == [most, most]
    assert {f"load_global_{kind}", f"store_shared_{kind}"} <= calls(c.program)


@pytest.mark.parametrize(
    ("k", "n", "expected"), [(256, 256, [4, 4]), (254, 256, [2, 4]), (255, 254, [1, 2]), (256, 255, [4, 1])]
)
def test_fixed_rows_that_are_not_aligned_are_taken_by_neighbours(k, n, expected):
    assert runs(compiled(product(), M=256, N=n, K=k)) == expected


def test_as_long_as_there_are_runs_for_all_units():
    """Tiles of 32 x k and k x 32 elements, by two waves of 64."""
    assert [runs(compiled(product(m=32, n=32, k=k))) for k in (32, 16, 8, 4)] == [[4, 4], [4, 4], [2, 2], [1, 1]]


def test_what_lies_apart_where_it_is_stored_is_still_loaded_at_once():
    c = compiled(product(a="layout (k, m) pad 4"), M=256, N=256, K=256)
    assert runs(c)[0] > 1
    assert any(i.startswith("load_global") for i in calls(c.program))


def test_a_pad_that_no_store_spans():
    """Rows of 16 + 1 elements begin anywhere: single stores, in as many turns of the banks whatever the run is."""
    c = compiled(product(a="pad 1", b="pad 1"), M=256, N=256, K=256)
    assert not any(i.startswith("store_shared") for i in calls(c.program))


def test_windows_begin_anywhere():
    c = compiled(loads(OPS + WINDOW), C=64, H=66, O=64)
    assert runs(c) == [1, 1]


def test_calls_that_are_not_aligned_take_neighbours():
    """With sizes open there are two programs; that for unaligned ones is the one of single elements."""
    first, last = programs(compiled(product()).program)
    assert "load_global_f32x4" in calls(first)
    assert not any(i.startswith("load_global") for i in calls(last))
    singly = compiled(product(a=BLOCK.format("m, k as mk", "mk"), b=BLOCK.format("k, n as kn", "kn"))).program
    assert str(last.launches[0].body) == str(list(programs(singly))[-1].launches[0].body)


def test_both_programs_are_one_but_for_their_copies(monkeypatch):
    """Each launch is lowered once. Sums of rows ask for no sizes, so both programs have one launch of them."""
    rows = """op weighted[M, N, K](A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]):
    q[m] = sum(k) A[m, k]
    C[m, n] = sum(k) q[m] * A[m, k] * B[k, n]
"""
    s = PRODUCT.format(op="weighted", device="gfx90a", a="", b="", m=64, n=64, k=32, ahead="", group="wave", left="A")
    lowered, apart = [], []

    def spy(ctx, works, lines):
        lowered.append(works[-1].name)
        made = lower_launch(ctx, works, lines)
        apart.append(ctx.unaligned_variant)
        return made

    monkeypatch.setattr(lower_launches, "lower_launch", spy)
    first, last = programs(compiled(loads(OPS + rows + s)).program)
    assert lowered == ["q@", "C@"]
    assert apart[0] is None
    assert sorted(apart[1].copies) == ["a_shared", "b_shared"]
    assert [x.name for x in first.launches] == ["weighted_q", "weighted_C"]
    assert [x.name for x in last.launches] == ["weighted_q_any", "weighted_C_any"]
    for p in (first, last):
        rows, product = ({s.buffer.name for s in statements(x.body) if isinstance(s, Alloc)} for x in p.launches)
        assert rows
        assert product
        assert rows.isdisjoint(product)


def test_names_that_both_programs_share_are_free_in_both():
    ctx = LoweringContext(product().device("gfx90a"), "op", {}, {})
    assert ctx.fresh("i") == "i"
    ctx.unaligned_variant = UnalignedVariant(ctx.names.copy())
    ctx.unaligned_variant.names.add("i1")  # of a copy there
    ctx.names.add("i2")  # and here
    assert ctx.fresh("i") == "i3"
    assert {"i3"} == ctx.names & ctx.unaligned_variant.names - {"i"}


BLOCK = """:
        fuse {}
        tile {}: 1 -> thread
        compute"""


@pytest.mark.parametrize("fixed", [False, True])
def test_read_back_it_is_the_same_program(fixed):
    sizes = dict(M=70, N=64, K=40) if fixed else {}
    c = compiled(product(), **sizes)
    again = compiled(loads(OPS + c.schedule), **sizes)
    assert again.program.launches == c.program.launches
    assert again.program.instead == c.program.instead or again.program.instead.launches == c.program.instead.launches


@pytest.mark.every_second
@pytest.mark.parametrize("ahead", ["", "pipeline 2"])
@pytest.mark.parametrize(
    ("op", "device", "a", "b"),
    [
        ("gemm", "gfx90a", "", "pad 2"),
        ("gemm", "gfx1100", "layout (k, m) pad 4", ""),
        ("hgemm", "sm_75", "swizzle", "pad 8"),
        ("hgemm", "gfx942", "pad 2", "layout (n, k)"),
        ("scaled", "gfx90a", "", ""),
    ],
)
def test_right_and_no_more_conflicts(op, device, a, b, ahead):
    """At all sizes open, at half of them fixed, and with no more requests or turns of the banks than element by element."""
    mod = product(op, device, a, b, ahead=ahead)
    rng = np.random.default_rng(1)
    meaning = reference(bind_params(mod.ops[op]))
    for fixed in (False, True):
        kernel = None
        for sizes in ODD[bool(ahead) :: 2] if fixed else ODD:
            if kernel is None or fixed:
                kernel = compile(mod, op=op, schedule="s", target=f"emulate:{device}", **(sizes if fixed else {}))
            arrays = [
                rng.integers(-3, 4, [e.evaluate(sizes) for e in t.shape]).astype(t.dtype.numpy) for t in mod.ops[op].inputs
            ]
            np.testing.assert_array_equal(kernel(*arrays), np.asarray(meaning(*arrays)))


@pytest.mark.every_second
@pytest.mark.parametrize("device", ["gfx90a", "sm_75"])
@pytest.mark.parametrize("sizes", [dict(M=64, N=64, K=64), dict(M=64, N=63, K=61)])
@pytest.mark.parametrize("a", ["", "pad 2", "layout (k, m) pad 4"])
def test_counts(device, sizes, a):
    """Fewer requests where rows are aligned, the same where they are not, and no more conflicts than single elements have."""
    blocks = [BLOCK.format("m, k as mk", "mk"), BLOCK.format("k, n as kn", "kn")]
    found = []
    for mod in (product("gemm", device, a), product("gemm", device, a + blocks[0], blocks[1])):
        kernel = compile(mod, op="gemm", schedule="s", target=f"emulate:{device}")
        kernel.counting = True
        kernel(*(np.ones(s, "f4") for s in ((sizes["M"], sizes["K"]), (sizes["K"], sizes["N"]))))
        counts = kernel.report.counts
        requests = sum(s.requests for s in counts.sites if s.access == "read" and s.memory == "global")
        stored = sum(s.transactions for s in counts.sites if s.access == "written" and s.memory == "shared")
        found.append((requests, stored, counts.moved["shared"], counts.carried["global"]))
    run, single = found
    aligned = sizes["K"] % 4 == 0
    assert run[0] * 2 < single[0] if aligned else run[0] == single[0]
    assert run[1] <= single[1]
    assert run[2:] == single[2:]


def test_strided_tiles_of_an_axis_without_elements_read_nothing():
    """They would count less than nothing: a bare ValueError of NumPy."""
    text = "op f[M](A: f16[M]) -> (Y: bool[]):\n    t = max(m) A[m]\n    Y = any(g) ((t - f32(A[g])) <= f32(1))\n"
    text += "schedule s for f:\n    tile g: 1 -> block by atomic\n    tile g: 1 -> warp\n    move A -> shared\n"
    module = loads(text + "    tile m: 1 every 2 -> thread\n")
    op = specialise(module.ops["f"], {"M": 0})
    program = compile_program(module, op, module.schedules["s"], module.device("sm_80")).program
    assert not interpret(program, {"A": np.zeros(0, "f2")})["Y"]
