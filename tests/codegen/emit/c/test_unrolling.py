"""What compilers are asked to write out is bounded, by the length of the text that it becomes: their time grows faster."""

from __future__ import annotations

import re

import andiron
import numpy as np
import pytest
from andiron.codegen.emit.c.unrolling import MOST_COPIES, MOST_INDEXED, MOST_REPEATED
from andiron.codegen.emit.printers import emit
from andiron.codegen.pipeline import compile_program
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import bind_params

from ....support.paths import STDLIB

ROOT = STDLIB
LIBRARY = "".join(f"import std.{d}.{f.stem}\n" for d in ("ops", "schedules") for f in sorted((ROOT / d).glob("*.sched")))
DEVICES = {"nvidia": "sm_80", "amd": "gfx90a", "cdna": "gfx90a", "rdna": "gfx1100", None: "cpu:avx2"}
UNROLL = re.compile(r" *(?:m_unroll\(|#pragma unroll ?)(\d*)")
TRIPS = re.compile(r" *for \(\w+ \w+ = 0; \w+ < (\d+); \w+\+\+\)")


def longest(text: str) -> int:
    """Statements that the largest loop nest becomes, written out as its lines ask."""
    most, open_, ahead = 0, [(1, 0)], 1
    for line in text.split("\n"):
        if (m := UNROLL.match(line)) is not None:
            ahead = int(m[1] or 0)
            continue
        if not ahead:
            trips = TRIPS.match(line)
            ahead = int(trips[1]) if trips else 1
        if line.lstrip().startswith("}") and len(open_) > 1:
            times, inside = open_.pop()
            most = max(most, times * inside)
            open_[-1] = (open_[-1][0], open_[-1][1] + times * inside)
        if line.endswith("{"):
            open_.append((ahead if line.lstrip().startswith("for (") else 1, 0))
        elif line.endswith(";"):
            open_[-1] = (open_[-1][0], open_[-1][1] + ahead)
        ahead = 1
    return most


def test_what_is_counted():
    text = "void f() {\n#pragma unroll 4\nfor (;;) {\na;\nm_unroll(3)\nfor (;;) {\nb;\nc;\n}\n}\nfor (;;) {\nd;\n}\n}"
    assert longest(text) == 4 * (1 + 3 * 2) + 1
    text = "void f() {\n#pragma unroll\nfor (int i = 0; i < 5; i++) {\na;\n#pragma unroll\nfor (int j = 0; j < 3; j++) b;\n}\n}"
    assert longest(text) == 5 * (1 + 3)


@pytest.fixture(scope="module")
def library():
    return loads(LIBRARY)


def text_of(library, name: str) -> str:
    s = library.schedules[name]
    device = DEVICES.get(s.device) or s.device
    dialect = "cpp" if device.startswith("cpu") else "hip" if device.startswith("gfx") else "cuda"
    return emit(compile_program(library, bind_params(library.ops[s.op]), s, library.device(device)).program, dialect)


def test_schedules_of_the_library(library):
    for name, s in library.schedules.items():
        if s.op in library.ops:
            assert longest(text_of(library, name)) <= 2 * MOST_COPIES, name


def test_an_array_of_registers_is_not_unrolled(library):
    """3072 accumulators: more than have names. Written out whole they kept g++ busy for minutes."""
    assert longest(text_of(library, "tile_order")) <= 8 * MOST_INDEXED


def test_what_the_schedule_asks_for_is_done(library):
    text = text_of(library, "sgemm_maxwell")
    assert "#pragma unroll 8" in text  # 8 times 64 multiplications


LOOP_IN_LOOP = """
op f8[M, N, K](A: f8e4m3[M, K], B: f8e5m2[N, K]) -> (C: f32[M, N]):
    C[m, n] = sum(k) f32(A[m, k]) * f32(B[n, k])

schedule s for f8 where M <= 65, N <= 65, K <= 65:
    keep C in l3
    tile m: 64 -> core
    move A -> register
    move B -> l3 pad 4
    compute
"""


def test_copies_of_a_loop_that_stays_one_are_bounded():
    """64 copies of each loop over the columns kept g++ busy for 36 seconds: it vectorizes each of them, with versions."""
    module = loads(LOOP_IN_LOOP)
    program = compile_program(module, module.ops["f8"], module.schedules["s"], module.device("cpu:avx2")).program
    assert "m_unroll(64)" not in emit(program, "cpp")


IN_NAMED_LOOPS = """
op product[M, N, K](A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]):
    C[m, n] = sum(k) A[m, k] * B[k, n]

schedule s for product where M <= 64, N <= 64:
    keep C in register
    tile k: 2 -> core
    tile k: 1 -> lane
    move A -> register
    move B -> register
    compute
"""


def test_copies_that_named_registers_make_of_a_loop_are_counted():
    """64 factors have names, so 64 loops over the accumulators, each unrolled 64 times, kept g++ busy for three minutes."""
    module = loads(IN_NAMED_LOOPS)
    program = compile_program(module, module.ops["product"], module.schedules["s"], module.device("cpu:avx2")).program
    loops = re.findall(r"m_unroll\((\d+)\)\n *for .*\n *c\[.*fma", text := emit(program, "cpp"))
    assert text.count("fma(a_") == 64
    assert sum(map(int, loops)) <= MOST_REPEATED


ROWS = """
op add[M, N](X: f32[M, N]) -> (Y: f32[M, N]):
    Y[i, j] = X[i, j] + 1.0

schedule s for add:
    tile i: 240
    tile i: 1 unroll {}
    tile j: 64
    tile j: 16
    tile j: 4
    tile j: 1
    compute
"""


@pytest.mark.parametrize(("copies", "unrolled"), [(62, True), (63, False)])
def test_a_loop_counts_for_more_than_its_body(copies, unrolled):
    """For 8 statements more: 62 times 4 * 8 + 1 are fewer than 2048, 63 times are more."""
    module = loads(ROWS.format(copies))
    program = compile_program(module, module.ops["add"], module.schedules["s"], module.device("cpu:generic")).program
    text = emit(program, "cpp")
    assert (f"m_unroll({copies})" in text) == unrolled
    assert unrolled or "m_unroll(21)" in text  # a third of 63: as much as the text may hold


TWO_REGISTERS = """
op product[M, K](A: f32[M, K], X: f32[K]) -> (C: f32[M]):
    C[m] = sum(k) A[m, k] * X[k]

schedule s for product where M <= 100, K <= 100:
    keep C in register
    move X -> register
    compute
"""


@pytest.mark.parametrize(("device", "dialect"), [("cpu:avx2", "cpp"), ("sm_80", "cuda")])
def test_named_registers_do_not_multiply_their_loops(device, dialect):
    """100 results and 100 factors made 10000 statements, four times over: g++ took minutes for 20000 lines."""
    module = loads(TWO_REGISTERS)
    program = compile_program(module, module.ops["product"], module.schedules["s"], module.device(device)).program
    assert len(emit(program, dialect).splitlines()) < 2000


def test_registers_of_an_array_and_named_ones_are_right():
    kernel = andiron.compile(TWO_REGISTERS, schedule="s", target="cpu:generic", threads=1)
    rng = np.random.default_rng(0)
    for m, k in [(100, 100), (13, 7), (1, 99), (3, 0), (0, 3)]:
        a, x = rng.integers(-3, 4, (m, k)).astype(np.float32), rng.integers(-3, 4, k).astype(np.float32)
        assert np.array_equal(kernel(a, x), a @ x)


GATHERED = """
op f[M, N](X: i32[M, N]) -> (Y: i32[M, N]):
    Y[i, j] = sum(k) where(k <= j, X[i, k], 0)

schedule s for f where M <= 64, N <= 64:
    fuse i, j as z
    tile k: 16 unroll
    tile z: 4 -> lane
    tile z: 3 unroll
    move X -> register
    tile z: 1 unroll
    compute
"""


def test_lanes_with_addresses_of_their_own_count():
    """64 lanes, each with a quotient in its address: 48 named registers became 23,000 lines, which kept g++ busy for a
    minute; as an array, unrolled, they still did."""
    module = loads(GATHERED)
    program = compile_program(module, module.ops["f"], module.schedules["s"], module.device("cpu:avx2")).program
    text = emit(program, "cpp")
    assert len(text.splitlines()) < 1000
    assert "m_unroll(16)" not in text


def test_lanes_with_addresses_of_their_own_are_right():
    kernel = andiron.compile(GATHERED, schedule="s", target="cpu:generic", threads=1)
    rng = np.random.default_rng(0)
    for m, n in [(64, 64), (13, 7), (1, 33), (5, 1), (0, 3)]:
        x = rng.integers(-9, 9, (m, n)).astype(np.int32)
        assert np.array_equal(kernel(x), np.cumsum(x, axis=1))
