"""Factors that are made once, on CPUs: exponentials of attention, operands of other types; masks by place are narrow."""

from __future__ import annotations

import re

import numpy as np
import pytest
from andiron import compile, loads, reference
from andiron.codegen.ir.tile_ir import Store
from andiron.codegen.ir.tile_visitors import statements
from andiron.codegen.pipeline import compile_program
from andiron.dsl.values import Apply, walk
from andiron.runtime.check_results import check
from andiron.runtime.random_inputs import random_inputs

from ....support.cpp.build import run_here, skip_unless_run_here
from ....support.rotation import rotated

ATTENTION = """
op plain[H, Q, T, D](q: f32[H, Q, D], k: f32[H, T, D], v: f32[H, T, D]) -> (o: f32[H, Q, D]):
    s[h, i, t] = (sum(d) q[h, i, d] * k[h, t, d]) * rsqrt(D)
    m[h, i] = max(t) s[h, i, t]
    p[h, i, t] = exp(s[h, i, t] - m[h, i])
    l[h, i] = sum(t) p[h, i, t]
    o[h, i, d] = (sum(t) p[h, i, t] * v[h, t, d]) / l[h, i]

op twice[M, N, K](A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]):
    a[m, k] = 2 * A[m, k]
    C[m, n] = sum(k) a[m, k] * B[k, n]

op narrow[M, K](A: f32[M, K], B: f32[K, 2]) -> (C: f32[M, 2]):
    a[m, k] = 2 * A[m, k]
    C[m, n] = sum(k) a[m, k] * B[k, n]

op image[C, H, O](I: f16[C, H], F: f16[O, C, 3]) -> (Y: f32[O, P]) where P = H - 2:
    Y[o, p] = sum(c, r) f32(I[c, p + r]) * f32(F[o, c, r])

op thin[H](I: f16[H, 2]) -> (Y: f32[P, 2]) where P = H - 2:
    Y[p, c] = sum(r: 3) f32(I[p + r, c]) * f32(I[p, c])
"""
CPUS = ("cpu:generic", "cpu:avx2", "cpu:avx512")


def launches(op: str, device: str, schedule: str = "") -> list[set[str]]:
    """The functions that each launch's values have."""
    module = loads(ATTENTION + schedule)
    found = module.schedules["s"] if schedule else None
    program = compile_program(module, module.ops[op], found, module.device(device)).program
    return [functions(x.body) for x in program.launches]


def functions(body) -> set[str]:
    values = [v for s in statements(body) if isinstance(s, Store) for v in walk(s.value)]
    return {v.fn for v in values if isinstance(v, Apply)}


@pytest.mark.parametrize("device", CPUS)
def test_each_exponential_is_computed_once(device):
    assert sum("exp" in x for x in launches("plain", device)) == 1


@pytest.mark.parametrize("device", CPUS)
@pytest.mark.parametrize("op", ["narrow", "thin"])
def test_what_is_read_few_times_is_computed_where_it_is_read(device, op):
    assert len(launches("twice", device)) == 2
    assert len(launches(op, device)) == 1


@pytest.mark.parametrize("device", CPUS)
def test_windows_are_not_made_but_the_tensor_that_they_are_cut_out_of(device):
    """Nothing takes more memory than the tensors have elements."""
    module = loads(ATTENTION)
    program = compile_program(module, module.ops["image"], None, module.device(device)).program
    sizes = {"C": 5, "H": 70, "O": 9}
    made = [b.size.evaluate(sizes) for b in program.buffers if b.kind == "workspace"]
    assert sorted(made) == [9 * 5 * 3, 5 * 70]


@pytest.mark.parametrize("device", [*CPUS, "sm_80", "gfx90a"])
def test_a_block_of_its_own_is_no_line_lost(device):
    """A pointwise intermediate is computed where it is read, unless a block says that it is kept."""
    memory = "dram" if device.startswith("cpu") else "global"
    blocks = "\nschedule s for twice:\n" + "".join(f"    keep {t} in {memory}:\n        auto\n" for t in ("a", "C"))
    assert len(launches("twice", device, blocks)) == 2


@pytest.mark.parametrize("target", CPUS)
def test_right(target):
    skip_unless_run_here(target)
    module = loads(ATTENTION)
    kernel = compile(module, op="plain", target=target)
    for h, q, t, d in ((1, 1, 1, 1), (2, 3, 37, 5), (1, 70, 33, 64), (3, 17, 130, 9), (0, 4, 4, 4), (2, 0, 5, 3)):
        rng = np.random.default_rng(t)
        given = [rng.standard_normal(s).astype(np.float32) for s in ((h, q, d), (h, t, d), (h, t, d))]
        out = np.full((h, q, d), np.nan, np.float32)
        kernel(*given, out=out)
        np.testing.assert_allclose(out, reference(module.ops["plain"])(*given), rtol=2e-5, atol=2e-6)


OTHERS = ["gemm_f16", "gemm_bf16_f32", "gemm_f8", "gemm_f16_i8", "gemm_f16_i4", "batched_gemm_f16", "linear_gelu_f16"]


@pytest.mark.parametrize(("op", "target"), rotated(OTHERS, run_here(*CPUS)))
def test_operands_of_other_types(op, target):
    """One like others, for a product of f32; and the schedule, fed back, says the same."""
    skip_unless_run_here(target)
    kernel = compile("import std.ops.gemm\n", op=op, target=target)
    made = set(re.findall(r"keep (\S+_f32) in dram", kernel.schedule))
    assert len(made) == 2
    head, lines = kernel.schedule.split("\n", 1)
    again = compile(f"import std.ops.gemm\nschedule again for {op}:\n{lines}", schedule="again", target=target)
    assert again.schedule.split("\n", 1)[1] == lines, head
    for sizes in ((1, 1, 1), (5, 3, 40), (70, 37, 65), (4, 0, 3), (0, 5, 3), (3, 5, 0)):
        given = {"B": 2, **dict(zip("MNK", sizes, strict=True)), "G": -(-sizes[2] // 32)}
        inputs = random_inputs(kernel.op, given)
        assert check(kernel.op, inputs, [kernel(*inputs)]).ok, sizes


@pytest.mark.parametrize("target", ["cpu:avx2", "cpu:avx512"])
def test_whole_numbers_wrap(target):
    """Products of i8 are added by the instruction for i32."""
    skip_unless_run_here(target)
    module = loads("op f[M, N, K](A: i32[M, K], B: i32[K, N]) -> (C: i32[M, N]):\n    C[m, n] = sum(k) A[m, k] * B[k, n]\n")
    kernel = compile(module, op="f", target=target)
    assert "madd_i32" in kernel.schedule
    rng = np.random.default_rng(0)
    for m, n, k in ((1, 1, 1), (5, 33, 70), (40, 17, 3), (0, 3, 4), (3, 4, 0)):
        a, b = (rng.integers(-(2**31), 2**31, s).astype(np.int32) for s in ((m, k), (k, n)))
        np.testing.assert_array_equal(kernel(a, b), reference(module.ops["f"])(a, b))
    bytes_ = compile("import std.ops.gemm\n", op="gemm_i8", target=target)
    a, b = (rng.integers(-128, 128, s).astype(np.int8) for s in ((37, 300), (300, 45)))
    np.testing.assert_array_equal(bytes_(a, b), a.astype(np.int32) @ b.astype(np.int32))


PLACES = "lt", "le", "gt", "ge", "eq", "ne"
SIGNS = dict(zip(PLACES, ("<", "<=", ">", ">=", "==", "!="), strict=True))
# Along the lanes of j: growing by one, by two, backwards, far away, and the same in all of them.
SUMS = {
    "near": ("j", "i"),
    "twice": ("2*j", "N"),
    "back": ("N - j", "i + 2"),
    "far": ("j + 5000000000", "i"),
    "same": ("i", "N/2"),
}
OUTPUTS = ", ".join(f"{fn.upper()}: f32[M, N]" for fn in PLACES)
MASKS = "".join(
    f"op {name}[M, N](X: f32[M, N]) -> ({OUTPUTS}):\n"
    + "".join(f"    {fn.upper()}[i, j] = where({a} {SIGNS[fn]} {b}, X[i, j], 7)\n" for fn in PLACES)
    for name, (a, b) in SUMS.items()
)


@pytest.mark.parametrize(("name", "target"), rotated(SUMS, run_here("cpu:avx2", "cpu:avx512")))
def test_masks_by_place(name, target):
    skip_unless_run_here(target)
    kernel = compile(loads(MASKS), op=name, target=target)
    if name == "near":  # whole vectors of f32: no elements of 64 bits beside them
        assert "i64x" not in kernel.source
    for m, n in ((1, 1), (3, 70), (40, 33), (0, 5), (5, 0), (130, 7)):
        x = np.random.default_rng(n).standard_normal((m, n)).astype(np.float32)
        out = [np.full((m, n), np.nan, np.float32) for _ in PLACES]
        kernel(x, out=out)
        for got, want in zip(out, reference(kernel.op)(x), strict=True):
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("epilogue", ["{}", "relu({})"])
def test_what_a_block_moves_is_converted_in_its_launch(epilogue):
    """The other product, which reads it as well, has it converted once."""
    product = epilogue.format("sum(k) f32(X[m, k]) * f32(W[k, n])")
    text = (
        "op two[M, N, K, P](X: f16[M, K], W: f16[K, N], V: f16[K, P]) -> (Y: f32[M, N], Z: f32[M, P]):\n"
        f"    Y[m, n] = {product}\n    Z[m, p] = sum(k) f32(X[m, k]) * f32(V[k, p])\n"
        "schedule s for two:\n    keep Y in dram:\n        tile m: 32 -> core\n        tile k: 32\n        move X -> l2\n"
        "        auto\n    auto\n"
    )
    kernel = compile(text, target="cpu")
    assert re.findall(r"keep (\w+\.\w+) in dram", kernel.schedule) == ["Z.left_f32", "Z.right_f32"]
    head, _, lines = kernel.schedule.partition("\n")
    ops = text.partition("schedule")[0]
    assert compile(f"{ops}schedule s for two:\n{lines}", target="cpu").schedule.partition("\n")[2] == lines, head
    for sizes in ({"M": 37, "N": 40, "K": 41, "P": 43}, {"M": 1, "N": 1, "K": 0, "P": 1}):
        given = random_inputs(kernel.op, sizes)
        assert check(kernel.op, given, kernel(*given)).ok
