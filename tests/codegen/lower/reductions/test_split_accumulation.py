"""A reduction split below an accumulation loop: each part goes on from its own, and all of them are combined once."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.ir.program import Program
from andiron.codegen.ir.tile_ir import Store
from andiron.codegen.ir.tile_visitors import statements
from andiron.codegen.pipeline import compile_program
from andiron.dsl.errors.schedule import NotYet
from andiron.dsl.module import loads, std_device
from andiron.dsl.ops.specialise import specialise

HEAD = "op f[M, K](X: f32[M, K]) -> (Y: {type}[M]):\n    Y[m] = "
OPS = {
    "sum": HEAD.format(type="f32") + "sum(k) X[m, k]\n",
    "prod": HEAD.format(type="f32") + "prod(k) X[m, k]\n",
    "max": HEAD.format(type="f32") + "max(k) X[m, k]\n",
    "min": HEAD.format(type="f32") + "min(k) X[m, k]\n",
    "any": HEAD.format(type="bool") + "any(k) (X[m, k] > 1)\n",
    "all": HEAD.format(type="bool") + "all(k) (X[m, k] < 2)\n",
    "argmax": HEAD.format(type="i64") + "argmax(k) X[m, k]\n",
    "epilogue": HEAD.format(type="f32") + "2 * (sum(k) X[m, k]) + 1\n",
}
GEMM = "op f[M, N, K](A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]):\n    C[m, n] = sum(k) A[m, k] * B[k, n]\n"

CPU = {
    "lanes by workspace": "tile k: 4\ntile k: 1 -> lane by workspace",
    "more tiles than lanes": "tile k: 48\ntile k: 1 -> lane by workspace",
    "chunks of lanes by workspace": "tile k: 8\ntile k: 2 every 4 -> lane by workspace",
    "cores, a loop, lanes": "tile k: 16 -> core by workspace\ntile k: 4\ntile k: 1 -> lane",
    "cores below a loop": "tile k: 16\ntile k: 4 -> core by workspace",
    "cores below two loops": "tile k: 16\ntile k: 8\ntile k: 2 -> core by workspace\ntile k: 1",
    "rows and parts on cores": "tile k: 16\ntile m: 2, k: 4 -> core by workspace",
    "cores that meet": "tile k: 16\ntile k: 4 -> core",
    "lanes that exchange": "tile k: 4\ntile k: 1 -> lane by shuffle",
}
SM = {
    "blocks": "tile k: 32\ntile k: 8 -> block\ntile k: 1 -> thread",
    "blocks by workspace": "tile k: 32\ntile k: 8 -> block by workspace\ntile k: 1 -> thread",
    "warps by workspace": "tile k: 2\ntile k: 1 -> warp by workspace",
    "warps by shuffle": "tile k: 2\ntile k: 1 -> warp by shuffle",
    "a loop below": "tile k: 64\ntile k: 4 -> thread by workspace\ntile k: 2",
}
PLACES = [
    *(("cpu:generic", x) for x in CPU.values()),
    *(("sm_80", x) for x in SM.values()),
    ("sm_90a", SM["blocks by workspace"]),
    ("gfx90a", "tile k: 1\ntile k: 2 -> wave by workspace"),
    ("gfx90a", "tile k: 3\ntile k: 1 -> thread by workspace"),
]
ATOMIC = [
    ("cpu:generic", "tile k: 4\ntile k: 1 -> lane by atomic"),
    ("cpu:generic", "tile k: 1\ntile k: 5 -> lane by atomic"),
    ("cpu:generic", "tile k: 16\ntile k: 4 -> core by atomic\ntile k: 2"),
    ("cpu:generic", "tile k: 16 -> core by atomic\ntile k: 4\ntile k: 1 -> lane"),
    ("sm_80", "tile k: 16\ntile k: 4 -> block by atomic\ntile k: 1 -> thread"),
    ("gfx90a", "tile k: 3\ntile k: 4 -> thread by atomic"),
]
WANTED = {
    "sum": lambda x: x.sum(1),
    "prod": lambda x: x.prod(1),
    "max": lambda x: x.max(1, initial=-np.inf),
    "min": lambda x: x.min(1, initial=np.inf),
    "any": lambda x: (x > 1).any(1),
    "all": lambda x: (x < 2).all(1),
    "argmax": lambda x: x.argmax(1),
    "epilogue": lambda x: 2 * x.sum(1) + 1,
}


def built(op: str, device: str, lines: str, **fixed: int) -> Program:
    text = op + f"schedule s for f on {device}:\n" + "".join(f"    {x}\n" for x in lines.split("\n"))
    mod = loads(text)
    bound = specialise(mod.ops["f"], fixed) if fixed else mod.ops["f"]
    target = std_device(device)
    assert target is not None
    return compile_program(mod, bound, mod.schedules["s"], target).program


def values(kind: str, m: int, k: int) -> np.ndarray:
    """Small integers, so that every order of the terms gives the same bits; no identity among those of a product's rows."""
    rng = np.random.default_rng(m + k)
    if kind == "prod":
        out = np.ones((m, k))
        out[:, ::5] = -1
        out[:, ::9] *= 2
    elif kind in ("any", "all"):
        out = np.where(rng.random((m, k)) < 1 / max(k, 1), 2, 0)
    else:
        out = rng.integers(-9, 10, (m, k))
    return out.astype("f4")


def check(kind: str, program: Program, shapes: tuple[tuple[int, int], ...]) -> None:
    for m, k in shapes:
        if k == 0 and kind == "argmax":
            continue
        x = values(kind, m, k)
        (y,) = interpret(program, {"X": x}).values()
        np.testing.assert_array_equal(y, WANTED[kind](x), err_msg=f"{m} rows of {k}")


@pytest.mark.every_second
@pytest.mark.parametrize("kind", ["sum", "prod", "epilogue"])
@pytest.mark.parametrize(("device", "lines"), PLACES)
def test_each_part_goes_on_from_its_own(device: str, lines: str, kind: str) -> None:
    check(kind, built(OPS[kind], device, lines), ((3, 37), (2, 16), (1, 1), (2, 0)))


@pytest.mark.parametrize("kind", ["max", "min", "any", "all", "argmax"])
@pytest.mark.parametrize("lines", ["tile k: 4\ntile k: 1 -> lane by workspace", "tile k: 4\ntile k: 1 -> lane"])
def test_every_kind_of_reduction(lines: str, kind: str) -> None:
    try:
        program = built(OPS[kind], "cpu:avx2", lines)
    except NotYet:
        assert (kind, "workspace" in lines) == ("argmax", True)
        return
    check(kind, program, ((3, 37), (1, 1), (2, 0)))


@pytest.mark.parametrize(("device", "lines"), [*PLACES, *ATOMIC])
def test_of_fixed_extent(device: str, lines: str) -> None:
    for m, k in ((3, 37), (2, 5)):
        check("sum", built(OPS["sum"], device, lines, M=m, K=k), ((m, k),))


@pytest.mark.every_second
@pytest.mark.parametrize("kind", ["sum", "max", "epilogue"])
@pytest.mark.parametrize(("device", "lines"), ATOMIC)
def test_what_atomics_add_to_is_never_read_back(device: str, lines: str, kind: str) -> None:
    program = built(OPS[kind], device, lines)
    (atomic,) = {s.buffer for x in program.launches for s in statements(x.body) if isinstance(s, Store) and s.atomic}
    for launch in program.launches:
        body = [s for s in statements(launch.body) if isinstance(s, Store)]
        if any(s.atomic for s in body):
            assert not [s for s in body if f"{atomic}[" in str(s.value)]
    check(kind, program, ((3, 37), (2, 16), (1, 1), (2, 0)))


@pytest.mark.parametrize("memory", ["register", "l3"])
@pytest.mark.parametrize(
    "lines", ["{keep}\ntile k: 16\ntile k: 4", "tile k: 16 -> core by workspace\n{keep}\ntile k: 4\ntile k: 2"]
)
def test_with_a_keep_above(lines: str, memory: str) -> None:
    program = built(OPS["sum"], "cpu:generic", "tile m: 4\n" + lines.format(keep=f"keep Y in {memory}"))
    check("sum", program, ((5, 37), (1, 1), (2, 0)))


@pytest.mark.parametrize(("device", "lines"), [*PLACES, *ATOMIC])
def test_products(device: str, lines: str) -> None:
    program = built(GEMM, device, lines)
    rng = np.random.default_rng(1)
    for m, n, k in ((3, 2, 21), (1, 1, 1), (2, 3, 0)):
        a, b = rng.integers(-4, 5, (m, k)).astype("f4"), rng.integers(-4, 5, (k, n)).astype("f4")
        (c,) = interpret(program, {"A": a, "B": b}).values()
        np.testing.assert_array_equal(c, a @ b)
