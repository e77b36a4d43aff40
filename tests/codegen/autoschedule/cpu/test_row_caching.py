"""What is dear and read more than once is computed once a row, where a cache holds a row; else it is computed again."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.ir.tile_ir import Alloc
from andiron.codegen.ir.tile_visitors import statements
from andiron.codegen.pipeline import compile_program
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import specialise
from andiron.runtime.compile import compile

TEXT = """
import std.devices.cpu
import std.ops.norm
device cpu:shared extends cpu:avx2:
    memory l3 of socket: 64 KiB
    memory l2 of core: 1 KiB
    memory l1 of core: 256 B
device cpu:wide extends cpu:shared:
    level lane: 64 bytes
device cpu:tiny extends cpu:avx2:
    memory l3 of socket: 4 KiB
    memory l2 of core: 1 KiB
    memory l1 of core: 256 B
device cpu:six extends cpu:avx2:
    level core: finite 6
op two[M, N](X: f32[M, N]) -> (Y: f32[M, N]):
    a[i, j] = exp(X[i, j])
    b[i, j] = tanh(X[i, j])
    s[i] = sum(j) a[i, j]
    t[i] = sum(j) b[i, j]
    Y[i, j] = a[i, j] / s[i] + b[i, j] / t[i]
op cheap[M, N](X: f32[M, N]) -> (Y: f32[M, N]):
    top[i] = max(j) X[i, j]
    e[i, j] = abs(X[i, j] - top[i])
    total[i] = sum(j) e[i, j]
    Y[i, j] = e[i, j] / total[i]
op once[M, N](X: f32[M, N]) -> (Y: f32[M]):
    top[i] = max(j) X[i, j]
    e[i, j] = exp(X[i, j] - top[i])
    Y[i] = sum(j) e[i, j]
"""


def module():
    return loads(TEXT)


def cached_rows(variant) -> dict[str, tuple[str, int | None]]:
    """Rows in caches: their memory, and how many elements there is room for."""
    made = [s.buffer for x in variant.program.launches for s in statements(x.body) if isinstance(s, Alloc)]
    return {b.name.rstrip("0123456789"): (b.memory, b.size.constant) for b in made if b.memory != "register"}


def soft(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(1, keepdims=True, initial=-np.inf), dtype="f8")
    return e / e.sum(1, keepdims=True)


def test_two_of_our_own() -> None:
    kernel = compile(module(), op="softmax", target="cpu:tiny")
    assert [cached_rows(v) for v in kernel.variants] == [{"e": ("l2", 128)}, {}]
    assert "where N <= 128" in kernel.schedule
    assert [v.refusal({"M": 3, "N": 129}) is None for v in kernel.variants] == [False, True]


def test_fixed_rows() -> None:
    """The smallest cache that is twice as large."""

    def of(n: int):
        return [cached_rows(v) for v in compile(module(), op="softmax", target="cpu:tiny", N=n).variants]

    # Rows take whole vectors, here of 16 lanes.
    assert of(30) == [{"e": ("l1", 32)}]
    assert of(100) == [{"e": ("l2", 128)}]
    assert of(200) == [{}]


def test_a_cache_of_all_cores() -> None:
    """Each of eight cores has an eighth of it. Wide vectors compute a row again sooner than they read it from there."""
    kernel = compile(module(), op="softmax", target="cpu:shared")
    assert [cached_rows(v) for v in kernel.variants] == [{"e": ("l3", 1024)}, {}]
    kernel = compile(module(), op="softmax", target="cpu:wide")
    assert [cached_rows(v) for v in kernel.variants] == [{"e": ("l2", 128)}, {}]


def test_several_rows_have_room_together() -> None:
    """They are rounded up to whole vectors, and six cores have no whole number of vectors each."""
    kernel = compile(module(), op="two", target="cpu:six")
    first, second = (cached_rows(v) for v in kernel.variants)
    assert {t: memory for t, (memory, _) in first.items()} == {"a": "l3", "b": "l3"}
    assert second == {}
    fits = 32 * 2**20 // 6 // 2 // 2 // 4
    for n in (fits, fits + 1, 2 * fits):
        (only,) = compile(module(), op="two", target="cpu:six", N=n).variants
        assert [*cached_rows(only)] == (["a", "b"] if n == fits else ["a"])


@pytest.mark.parametrize("name", ["cheap", "once"])
def test_not_worth_it(name: str) -> None:
    (only,) = compile(module(), op=name, target="cpu:tiny").variants
    assert not cached_rows(only)


@pytest.mark.parametrize("n", [0, 1, 7, 64, 100, 128, 129, 300])
def test_right(n: int) -> None:
    kernel = compile(module(), op="softmax", target="cpu:tiny")
    x = np.random.default_rng(n).standard_normal((5, n)).astype("f4")
    for threads in (1, 2):
        np.testing.assert_allclose(kernel(x, threads=threads), soft(x), rtol=2e-6)


def test_interpreted() -> None:
    mod = module()
    program = compile_program(mod, specialise(mod.ops["softmax"], {"N": 37}), None, mod.devices["cpu:avx2"]).program
    x = np.random.default_rng(0).standard_normal((3, 37)).astype("f4")
    np.testing.assert_allclose(interpret(program, {"X": x}, finite={"cores": 2})["Y"], soft(x), rtol=2e-6)
