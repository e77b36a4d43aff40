"""Loops over a reduced index inside a staged tile: as many turns at an edge as elsewhere where what is not there adds nothing,
and nowhere else. The emulator reports each read of what no copy wrote."""

from __future__ import annotations

import re
from functools import lru_cache

import numpy as np
import pytest
from andiron.codegen.emit.printers import emit
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.ir.program import Program
from andiron.codegen.ir.tile_ir import Call, For, Store
from andiron.codegen.ir.tile_visitors import statements
from andiron.codegen.pipeline import compile_program
from andiron.dsl.module import Module, loads
from andiron.dsl.ops.specialise import bind_params, specialise
from andiron.runtime.compile import compile

from ....support.rotation import LONG, rotated

DEVICES = {"sm_80": "warp", "sm_90a": "warp", "gfx90a": "wave", "gfx1100": "wave"}
OPS = """
op gemm[M, N, K](A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]):
    C[m, n] = sum(k) A[m, k] * B[k, n]
op half[M, N, K](A: f16[M, K], B: f16[K, N]) -> (C: f32[M, N]):
    C[m, n] = sum(k) f32(A[m, k]) * f32(B[k, n])
op conv[N, M, Q, W, S](I: f32[N, Q, W], F: f32[M, Q, S]) -> (C: f32[N, M, U]) where U = W - S + 1:
    C[n, m, u] = sum(q, s) I[n, q, u + s] * F[m, q, s]
op scaled[M, N, K](A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]):
    W[k, n] = B[k, n] * 2 + 1
    C[m, n] = sum(k) A[m, k] * W[k, n]
op ring[M, N, K](A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]):
    C[m, n] = max(k) A[m, k] * B[k, n]
op times[M, N, K](A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]):
    C[m, n] = prod(k) (A[m, k] - B[k, n])
op power[M, N, K](A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]):
    C[m, n] = sum(k) exp(A[m, k]) * B[k, n]
"""
STAGE = "move A -> shared\nmove B -> shared\n"
BLOCK = "tile m: 8, n: 16 -> block\n"
UNITS = "tile m: 4 -> warp\ntile m: 2, n: 1 -> thread\n"
OWN = """move A -> shared:
    tile m: 4 -> warp
    tile k: 1 -> thread
    compute
move B -> shared:
    tile k: 4 -> warp
    tile k: 2
    tile n: 1 -> thread
    compute
"""
# name -> (op, lines): loops over what is summed have the same turns everywhere
SAME = {
    "a turn an element": ("gemm", f"{BLOCK}keep C in register\ntile k: 16\n{STAGE}{UNITS}tile k: 1\ncompute"),
    "without a line": ("gemm", f"{BLOCK}keep C in register\ntile k: 16\n{STAGE}{UNITS}compute"),
    "ahead": ("gemm", f"{BLOCK}keep C in register\ntile k: 16 pipeline 3\n{STAGE}{UNITS}tile k: 1\ncompute"),
    "turns of 5 at a time": ("gemm", f"{BLOCK}keep C in register\ntile k: 16\n{STAGE}{UNITS}tile k: 1 unroll 5\ncompute"),
    "copies say how": ("gemm", f"{BLOCK}keep C in register\ntile k: 16\n{OWN}{UNITS}tile k: 1\ncompute"),
    "below a loop": ("gemm", f"{BLOCK}tile k: 16\n{STAGE}{UNITS}keep C in register\ntile k: 1\ncompute"),
    "loops in between": (
        "gemm",
        f"{BLOCK}keep C in register\ntile k: 24\n{STAGE}{UNITS}tile k: 8\ntile k: 2\ntile k: 1\ncompute",
    ),
    "parts": ("gemm", f"{BLOCK}keep C in register\ntile k: 16\n{STAGE}tile k: 4 -> warp\ntile m: 4, n: 1 -> thread\ncompute"),
    "a factor that is made": (
        "scaled",
        f"{BLOCK}keep C in register\ntile k: 16\n"
        "move A -> shared:\n    tile m: 4 -> warp\n    tile k: 1 -> thread\n    compute\n"
        f"move W -> shared:\n    tile k: 8 -> warp\n    tile n: 1 -> thread\n    compute\n{UNITS}tile k: 1\ncompute",
    ),
    "a fused window": (
        "conv",
        "fuse q, s as r\ntile n: 1, m: 8, u: 8 -> block\nkeep C in register\ntile r: 16\nmove I -> shared\nmove F -> shared\n"
        "tile m: 4 -> warp\ntile m: 1, u: 1 -> thread\ntile r: 1\ncompute",
    ),
}
# `unroll COUNT`: groups of turns, of which the last one may go past what is there
GROUPS = {
    "groups": ("gemm", f"{BLOCK}keep C in register\ntile k: 16 pipeline 2\n{STAGE}{UNITS}tile k: 1 unroll 4\ncompute"),
    "channels of a window": (
        "conv",
        "tile n: 1, m: 8, u: 8 -> block\nkeep C in register\ntile q: 8\ntile s: 1\nmove I -> shared\nmove F -> shared\n"
        "tile m: 4 -> warp\ntile m: 1, u: 1 -> thread\ntile q: 1 unroll 4\ncompute",
    ),
}
# ... and here they stop where the tensor does
LIVE = {
    "no copy of one": ("gemm", f"{BLOCK}keep C in register\ntile k: 16\nmove A -> shared\n{UNITS}tile k: 1\ncompute"),
    "no copy": ("gemm", f"{BLOCK}keep C in register\ntile k: 16\n{UNITS}tile k: 1\ncompute"),
    "another reduction": ("ring", f"{BLOCK}keep C in register\ntile k: 16\n{STAGE}{UNITS}tile k: 1\ncompute"),
    "a product": ("times", f"{BLOCK}keep C in register\ntile k: 16\n{STAGE}{UNITS}tile k: 1\ncompute"),
    "not zero of zero": ("power", f"{BLOCK}keep C in register\ntile k: 16\n{STAGE}{UNITS}tile k: 1\ncompute"),
    "peeled": ("gemm", f"{BLOCK}keep C in register\ntile k: 16\n{STAGE}{UNITS}tile k: 1 peel\ncompute"),
    "a long tile": ("gemm", f"{BLOCK}keep C in register\ntile k: 256\n{STAGE}{UNITS}tile k: 1\ncompute"),
    "a tile inside": (
        "gemm",
        f"{BLOCK}keep C in register\ntile k: 40\n{STAGE}{UNITS}tile k: 12\ntile k: 8\ntile k: 1\ncompute",
    ),
}
_MATRIX = "tile m: 32, n: 32 -> block\nkeep C in register\ntile k: {}\n{{}}tile m: 16 -> {}\n{{}}compute with {}"
MATRIX = {
    "sm_80": _MATRIX.format(32, "warp", "mma_m16n8k16_f16"),
    "sm_90a": _MATRIX.format(32, "warp", "mma_m16n8k16_f16"),
    "gfx90a": _MATRIX.format(64, "wave", "mfma_16x16x16_f16"),
    "gfx1100": _MATRIX.format(32, "wave", "wmma_16x16x16_f16"),
}
SIZES = [0, 1, 3, 15, 16, 17, 24, 31, 33, 50]


@lru_cache(maxsize=200)
def module(device: str, op: str, lines: str) -> Module:
    maker = "nvidia" if device.startswith("sm") else "amd"
    body = "".join(f"    {x}\n" for x in lines.replace("-> warp", f"-> {DEVICES[device]}").split("\n"))
    return loads(f"import std.devices.{maker}\n{OPS}schedule s for {op}:\n{body}")


def program(device: str, op: str, lines: str, **fixed: int) -> Program:
    mod = module(device, op, lines)
    return compile_program(mod, specialise(bind_params(mod.ops[op]), fixed), mod.schedules["s"], mod.device(device)).program


def sums(p: Program) -> list[For]:
    """The loops over what is summed, without the outermost, which goes from tile to tile."""

    def adds(s: For) -> bool:
        return any(isinstance(x, Call) or (isinstance(x, Store) and x.buffer == "c") for x in statements(s.body))

    named = [s for s in statements(p.launches[0].body) if isinstance(s, For) and re.fullmatch(r"[kqr]\d+", s.var.name)]
    found = [s for s in named if adds(s)]
    return [x for x in found if any(x is y for s in found for y in statements(s.body))]


def counts(p: Program) -> list[int | None]:
    """Their turns, None where those are not the same everywhere."""
    return [(s.stop - s.start).constant for s in sums(p)]


def inputs(op: str, k: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    rng = np.random.default_rng(k)

    def some(*shape: int) -> np.ndarray:
        return rng.integers(-3, 4, shape).astype("f2" if op == "half" else "f4")

    if op == "conv":
        i, f = some(2, k, 11), some(9, k, 3)
        windows = np.stack([i[:, :, s : s + 9] for s in range(3)], -1)
        return {"I": i, "F": f}, np.einsum("nqus,mqs->nmu", windows, f)
    a, b = some(9, k), some(k, 19)
    x, y = a.astype("f4")[:, :, None], b.astype("f4")[None]
    match op:
        case "ring":
            want = (x * y).max(1, initial=-np.inf)
        case "times":
            want = (x - y).prod(1)
        case "scaled":
            want = (x * (y * 2 + 1)).sum(1)
        case "power":
            want = (np.exp(x) * y).sum(1)
        case _:
            want = (x * y).sum(1)
    return {"A": a, "B": b}, want


@pytest.mark.every_second
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", SAME)
def test_the_same_number_of_iterations(name: str, device: str) -> None:
    found = counts(program(device, *SAME[name]))
    assert found
    assert None not in found


@pytest.mark.parametrize("name", GROUPS)
def test_groups_of_iterations(name: str) -> None:
    op, lines = GROUPS[name]
    outer, inner = sums(program("sm_80", op, lines))
    assert (inner.stop.constant, inner.unroll) == (4, 0)
    assert outer.stop.constant is None
    assert outer.stop.interval[1] == (2 if op == "conv" else 4)


@pytest.mark.parametrize("name", LIVE)
def test_no_more_iterations_than_tiles(name: str) -> None:
    assert None in counts(program("sm_80", *LIVE[name]))


@pytest.mark.parametrize(("tile", "same"), [(128, True), (136, False)])
def test_long_tiles_end_where_the_tensor_does(tile: int, same: bool) -> None:
    lines = f"{BLOCK}keep C in register\ntile k: {tile}\n{STAGE}{UNITS}tile k: 1\ncompute"
    assert (None not in counts(program("sm_80", "gemm", lines))) == same


@pytest.mark.parametrize("memory", ["dram", "l2"])
def test_no_tile_of_a_cpu(memory: str) -> None:
    """In a cache, or in main memory, nothing is filled for it."""
    lines = (
        f"tile m: 4, n: 8 -> core\nkeep C in register\ntile k: 16\nmove A -> {memory}\nmove B -> {memory}\ntile k: 1\ncompute"
    )
    body = "".join(f"    {x}\n" for x in lines.split("\n"))
    mod = loads(f"import std.devices.cpu\n{OPS}schedule s for gemm:\n{body}")
    p = compile_program(mod, mod.ops["gemm"], mod.schedules["s"], mod.device("cpu:avx2")).program
    assert None in counts(p)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("line", ["", "tile k: 16\n"])
def test_instructions(device: str, line: str) -> None:
    p = program(device, "half", MATRIX[device].format(STAGE, line))
    assert {s.stop.constant for s in sums(p)} <= {2, 4}


def unroll_pragma(device: str, lines: str, **fixed: int) -> tuple[str, str]:
    """Turns that compilers are asked to write out of the inner loop over what is summed, and how many it has."""
    text = emit(program(device, "half", lines, **fixed), "cuda" if device.startswith("sm") else "hip")
    found = re.findall(r"#pragma unroll (\d+)\n *for \(int k2 = 0; k2 < (\d+);", text)
    assert len(found) == text.count("int k2 = 0;")
    (one,) = set(found)
    return one


def test_short_loops_are_unrolled() -> None:
    """Open or not, and where the tiles divide the size."""
    for fixed in ({}, {"K": 50}, {"K": 64}):
        assert unroll_pragma("sm_80", MATRIX["sm_80"].format(STAGE, ""), **fixed) == ("2", "2")


def test_iterations_that_load_much_are_not() -> None:
    """A turn loads 64 registers: those of two of them, and what they add to, would not be held."""
    lines = f"tile m: 128, n: 64 -> block\nkeep C in register\ntile k: 32\n{STAGE}tile m: 64, n: 64 -> wave\n"
    assert unroll_pragma("gfx1100", f"{lines}tile k: 16\ncompute with wmma_16x16x16_f16") == ("1", "2")


@pytest.mark.parametrize(
    ("name", "k"),
    [(x, k) for n, x in enumerate(SAME | GROUPS | LIVE) for m, k in enumerate(SIZES) if LONG or (n + m) % 2 == 0],
)
def test_right(name: str, k: int) -> None:
    """In the interpreter, which has no memory that was not written. At every second size, in turn, and at half of them fixed as
    well; with `FUZZ=N` at all."""
    op, lines = (SAME | GROUPS | LIVE)[name]
    for fixed in ({}, {"Q" if op == "conv" else "K": k})[: 1 + SIZES.index(k) // 2 % 2]:
        p = program("sm_80", op, lines, **fixed)
        arrays, want = inputs(op, k)
        np.testing.assert_allclose(interpret(p, arrays)["C"], want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "device"),
    rotated(["ahead", "groups", "copies say how", "below a loop", "a factor that is made", "a fused window"], [*DEVICES]),
)
def test_right_in_the_emulator(name: str, device: str) -> None:
    op, lines = (SAME | GROUPS)[name]
    kernel = compile(module(device, op, lines), op=op, schedule="s", target=f"emulate:{device}")
    for k in SIZES:
        arrays, want = inputs(op, k)
        np.testing.assert_array_equal(kernel(*arrays.values()), want, err_msg=f"K = {k}")


@pytest.mark.parametrize("k", [1, 17, 31])
def test_no_number_of_the_tensor_spoils_it(k: int) -> None:
    """Infinities and NaNs, the last of a row and the first of a column among them, meet nothing that is not theirs."""
    op, lines = SAME["ahead"]
    arrays, _ = inputs(op, k)
    arrays["A"][3, k - 1], arrays["A"][5, 0] = np.inf, np.nan
    arrays["B"][0, 7], arrays["B"][k - 1, 2] = -np.inf, np.nan
    with np.errstate(invalid="ignore"):
        want = (arrays["A"][:, :, None] * arrays["B"][None]).sum(1)
    kernel = compile(module("sm_80", op, lines), op=op, schedule="s", target="emulate:sm_80")
    np.testing.assert_array_equal(kernel(*arrays.values()), want)


@pytest.mark.parametrize("device", DEVICES)
def test_instructions_in_the_emulator(device: str) -> None:
    kernel = compile(
        module(device, "half", MATRIX[device].format(STAGE, "")), op="half", schedule="s", target=f"emulate:{device}"
    )
    for k in (*SIZES, 65, 127):
        arrays, want = inputs("half", k)
        np.testing.assert_array_equal(kernel(*arrays.values()), want, err_msg=f"K = {k}")
