"""Vector accesses: where addresses are proven aligned, as wide as that allows, and never elsewhere."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from functools import lru_cache

import andiron
import numpy as np
import pytest
from andiron.codegen.abi import chosen, programs
from andiron.codegen.analysis.divisibility import KnownMultiples, divisor, required_divisors
from andiron.codegen.emit.printers import emit
from andiron.codegen.interpret.machine import Fault, interpret
from andiron.codegen.ir.program import Program
from andiron.codegen.ir.tile_ir import Call, Store
from andiron.codegen.ir.tile_visitors import statements
from andiron.codegen.pipeline import CompiledProgram, compile_program
from andiron.dsl.index.expr import Expr, Var, as_expr, minimum, xor
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import bind_params, specialise
from andiron.dsl.semantics.reference import reference

TEXT = """
op gemm[M, N, K](A: f16[M, K], B: f16[K, N]) -> (C: f32[M, N]):
    C[m, n] = sum(k) f32(A[m, k]) * f32(B[k, n])
op twice[N](X: f32[N]) -> (Y: f32[N]):
    Y[i] = X[i] * 2.0
op rows[M, N](X: f16[M, N]) -> (Y: f32[M, N]):
    Y[i, j] = f32(X[i, j]) + 1.0
op sums[M, N](X: f32[M, N]) -> (Y: f32[M]):
    Y[i] = sum(j) X[i, j]

schedule async for gemm on sm_80:
    tile m: 32, n: 32 -> block
    keep C in register
    tile k: 32
    move A -> shared swizzle with cp_async
    move B -> shared swizzle with cp_async
    tile m: 16, n: 16 -> warp
    tile k: 16
    move A -> register with ldmatrix
    compute with mma_m16n8k16_f16
schedule quads for twice on sm_80:
    tile i: 128 -> block
    tile i: 4 -> thread
    compute
schedule cells for rows on sm_80:
    tile i: 4, j: 64 -> block
    tile i: 1 -> warp
    tile j: 8 -> thread
    compute
schedule staged for rows on gfx90a:
    tile i: 4, j: 64 -> block
    move X -> shared pad 8:
        tile i: 1 -> wave
        tile j: 8 -> thread
        compute
    tile i: 1 -> wave
    tile j: 8 -> thread
    compute
schedule reduced for sums on sm_80:
    tile i: 4 -> block
    tile i: 1 -> warp
    keep Y in register
    tile j: 128
    tile j: 4 -> thread
    compute
"""


@lru_cache(maxsize=1)
def module():
    return loads(TEXT)


@lru_cache(maxsize=40)
def compiled(name: str, **sizes: int) -> CompiledProgram:
    mod = module()
    schedule = mod.schedules[name]
    op = specialise(bind_params(mod.ops[schedule.op], {}), sizes)
    return compile_program(mod, op, schedule, mod.device(schedule.device or ""))


def instrs(p: Program) -> set[str]:
    return {s.instr for x in p.launches for s in statements(x.body) if isinstance(s, Call)}


def outputs(p: Program, name: str, sizes: dict[str, int], **options) -> tuple[np.ndarray, np.ndarray]:
    """What the program computes, and what the op says."""
    op = bind_params(module().ops[module().schedules[name].op], {})
    rng = np.random.default_rng(3)
    arrays = {t.name: rng.integers(-4, 5, [e.evaluate(sizes) for e in t.shape]).astype(t.dtype.numpy) for t in op.inputs}
    (out,) = interpret(p, arrays, sizes=sizes, **options).values()
    return out, np.asarray(reference(op)(*arrays.values()))


def run(p: Program, name: str, sizes: dict[str, int], **options) -> None:
    np.testing.assert_array_equal(*outputs(p, name, sizes, **options))


# ------------------------------------------------------------ divisibility


SIZES = [Var("K", 0, 40), Var("N", 0, 40)]
LOCALS = [Var("i", 0, 9), Var("j", 0, 9)]


def expression(rng: random.Random, depth: int) -> Expr:
    if not depth:
        return as_expr(rng.choice([*SIZES, *LOCALS, rng.randrange(9)]))
    a, b = expression(rng, depth - 1), expression(rng, depth - 1)
    kind = rng.randrange(8)
    if kind < 3:
        return a * rng.choice([1, 2, 4, 8]) + b * rng.choice([1, 2, 8])
    if kind == 3:
        return a * b
    if kind == 4:
        return a * rng.choice([2, 8]) // rng.choice([2, 3, 4])
    if kind == 5:
        return a % rng.choice([4, 6, 8])
    return xor(a * 4, b * 2) if kind == 6 else minimum(a * 8, b * 4)


@pytest.mark.parametrize("seed", range(150))
def test_divisor_divides(seed):
    rng = random.Random(seed)
    e = expression(rng, 2)
    multiples = {(SIZES[0],): rng.choice([1, 2, 8]), tuple(sorted(SIZES, key=lambda v: v.name)): rng.choice([1, 4, 16])}
    known = KnownMultiples(frozenset(SIZES), {}, {k: n for k, n in multiples.items() if n > 1})
    n = divisor(e, known)
    wanted = rng.choice([2, 4, 8])
    needs = required_divisors(e, wanted, known)
    for _ in range(200):
        env = {v.name: rng.randint(v.lo or 0, v.hi or 0) for v in (*SIZES, *LOCALS)}

        def holds(table, env=env) -> bool:
            return all(np.prod([env[v.name] for v in vs]) % d == 0 for vs, d in table)

        if holds(multiples.items()):
            assert e.evaluate(env) % n == 0
            if needs is not None and holds(needs):
                assert e.evaluate(env) % wanted == 0


def test_what_is_required_of_sizes():
    k, n, i = Var("K"), Var("N"), Var("i", 0, 9)
    known = KnownMultiples(frozenset((k, n)), {}, {})
    assert required_divisors(k * i + 8 * as_expr(i), 8, known) == (((k,), 8),)
    assert required_divisors(2 * k * i, 8, known) == (((k,), 4),)
    assert required_divisors(k * n * i, 8, known) == (((k, n), 8),)
    assert required_divisors(8 * k * i, 8, known) == ()
    assert required_divisors(k * i + as_expr(i), 8, known) is None
    assert required_divisors(8 * as_expr(i) + 4, 8, known) is None


# ------------------------------------------------------------ widths


def test_open_sizes_get_two_variants():
    p = compiled("async").program
    aligned, any_ = programs(p)
    assert {"cp_async_zero_f16x8", "store_global_f32x2"} <= instrs(aligned)
    assert not any(i.startswith(("cp_async", "load_global", "store_global")) for i in instrs(any_))
    assert aligned.needs is not None
    assert {"-K % 8", "-N % 8"} <= {str(c) for c in aligned.needs.conds}
    assert dict(aligned.needs.aligned) == {"A": 16, "B": 16, "C": 8}
    for sizes in (dict(M=37, N=40, K=56), dict(M=33, N=19, K=21), dict(M=5, N=8, K=0)):
        run(p, "async", sizes)


@pytest.mark.parametrize(
    ("k", "n", "wide"),
    [(64, 32, {"cp_async_f16x8"}), (60, 36, {"cp_async_f16x4"}), (62, 34, {"cp_async_f16x2"}), (63, 33, set())],
)
def test_fixed_sizes_take_the_widest_that_is_aligned(k, n, wide):
    c = compiled("async", K=k, N=n)
    found = {i.replace("_zero", "") for i in instrs(c.program) if i.startswith("cp_async")}
    assert found == wide
    assert (c.program.instead is None) == (not wide)  # nothing is left to ask where sizes are odd
    assert bool(c.report["notes"]) == (wide != {"cp_async_f16x8"})
    run(c.program, "async", dict(M=33, N=n, K=k))


def test_the_variant_is_chosen_by_sizes_and_addresses():
    p = compiled("async").program
    even = dict(M=32, N=32, K=32)
    assert chosen(p, even, {}) is p
    assert chosen(p, even, {"A": 16, "B": 32, "C": 8}) is p
    assert chosen(p, even, {"A": 8}) is p.instead
    assert chosen(p, {**even, "K": 36}, {}) is p.instead
    assert chosen(p, {**even, "M": 1 << 30}, {}) is p
    assert chosen(p, {**even, "M": (1 << 30) + 8}, {}) is p.instead


def test_index_arithmetic_is_in_32_bits_where_it_fits():
    """Offsets of rows are 64 bits wide, whatever the sizes; the rest is `int` in the variant for ordinary sizes."""
    first, second = (x for x in emit(compiled("async").program, "cuda").split("__global__")[1:])
    body = first[first.index("{") : first.index("constexpr")]
    assert "int M, int N, int K" in first
    assert "int64_t M, int64_t N, int64_t K" in second
    assert "(int64_t)N * k1" in body  # a row of B, some tiles on
    wide = [line for line in body.splitlines() if "int64_t" in line]
    assert not [line for line in wide if re.match(r" *(for|if|const int64_t|int32_t live)\b", line)]


def test_a_vector_is_whole_or_its_elements_go_one_by_one():
    p = compiled("quads").program
    assert instrs(p) == {"load_global_f32x4", "store_global_f32x4"}
    assert any(isinstance(s, Store) and s.buffer == "Y" for s in statements(p.launches[0].body))  # the tail
    for n in (1024, 130, 3, 0):
        run(p, "quads", dict(N=n))


def test_rows_of_whole_vectors_have_no_tail():
    p = compiled("cells").program
    assert instrs(p) == {"load_global_f16x8", "store_global_f32x4"}
    assert not any(isinstance(s, Store) and s.buffer == "Y" for s in statements(p.launches[0].body))
    for sizes in (dict(M=9, N=72), dict(M=5, N=67), dict(M=3, N=4)):
        run(p, "cells", sizes)


def test_a_staged_copy_goes_through_registers():
    p = compiled("staged").program
    assert instrs(p) == {"load_global_f16x8", "store_shared_f16x8", "load_shared_f16x8", "store_global_f32x4"}
    assert p.instead is not None
    assert instrs(p.instead) == {"store_shared_f16x8", "load_shared_f16x8"}
    for sizes in (dict(M=9, N=72), dict(M=5, N=67)):
        run(p, "staged", sizes)


def test_a_reduction_loads_vectors():
    p = compiled("reduced").program
    assert instrs(p) == {"load_global_f32x4"}
    for sizes in (dict(M=9, N=264), dict(M=5, N=131), dict(M=2, N=0)):
        run(p, "reduced", sizes)


# ------------------------------------------------------------ what the interpreter reports


def faults(p: Program, name: str, sizes: dict[str, int], **options) -> set[str]:
    found: list[Fault] = []
    outputs(p, name, sizes, on_fault=found, **options)
    return {f.kind for f in found}


def without_conditions(p: Program) -> Program:
    return replace(p, needs=None, instead=None)


@pytest.mark.parametrize("name", ["async", "cells", "staged"])
def test_without_the_condition_on_sizes_accesses_are_misaligned(name):
    p = compiled(name).program
    sizes = dict(M=33, N=36, K=36) if name == "async" else dict(M=9, N=68)
    assert faults(p, name, sizes) == set()
    assert "misaligned" in faults(without_conditions(p), name, sizes)


def test_without_the_condition_on_addresses_accesses_are_misaligned():
    p = compiled("quads").program
    assert faults(p, "quads", dict(N=256), addresses={"X": 8}) == set()
    assert faults(without_conditions(p), "quads", dict(N=256), addresses={"X": 8}) == {"misaligned"}


def test_what_a_copy_of_zeros_does_not_take_is_not_read():
    """The last block of rows lies outside A: its addresses are passed, and never read."""
    p = compiled("async").program
    assert "cp_async_zero_f16x8" in instrs(p)
    assert faults(p, "async", dict(M=1, N=8, K=8)) == set()


FUSED = """
op shifted[B, G, H](X: f32[B, G, H], c: f32[B]) -> (Y: f32[B, G, H]):
    Y[b, g, h] = X[b, g, h] + c[b]
schedule cpu for shifted:
    fuse g, h as gh
    tile b: 1, gh: 64 -> core
    tile gh: 1 -> lane
    compute
schedule gpu for shifted on sm_80:
    fuse g, h as gh
    tile b: 1, gh: 128 -> block
    tile gh: 4 -> thread
    compute
"""


@pytest.mark.parametrize(("name", "target"), [("cpu", "cpu"), ("gpu", "emulate:sm_80")])
def test_open_axes_that_are_fused_where_they_lie_side_by_side_are_one(name, target):
    """Neither quotients nor remainders by their sizes: rows of all of them are read and written as vectors."""
    kernel = andiron.compile(FUSED, "shifted", name, target)
    code = [line.partition("//")[0] for line in kernel.source.splitlines()]
    assert not [line for line in code if re.search(r"[/%] \(?(int64_t\))?[GH]\b", line)]
    rng = np.random.default_rng(5)
    for shape in ((3, 5, 7), (2, 1, 128), (1, 4, 32), (2, 0, 3)):
        x, c = rng.random(shape, np.float32), rng.random(shape[0], np.float32)
        assert np.array_equal(kernel(x, c), x + c[:, None, None])
