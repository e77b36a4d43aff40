"""The emulator's runtime by kernels written by hand: threads that meet, exchanges, copies that land late, several cores."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import pytest
from andiron.codegen.emit.c.templates import folder
from andiron.runtime import emulator
from andiron.runtime.native.cxx_compiler import find_compiler

from ...support.gpu.handwritten_kernels import aligned, run, text_of

NUMBER = np.arange(64, dtype="f4")
GIVE = "uint32_t bits = 0; float x = A[block * 64 + thread]; __builtin_memcpy(&bits, &x, 4);"
TAKE = "uint32_t got = (uint32_t){}; __builtin_memcpy(&x, &got, 4); C[block * 64 + thread] = x;"
SITE = "__builtin_return_address(0)"


def test_values_live_through_a_barrier() -> None:
    """Registers of all kinds survive that other threads run in between."""
    body = """
    float sum = A[block * 64 + thread];
    double other = 0.5 * thread;
    int64_t whole = thread;
    for (int i = 0; i < 5; i++) {
        em_barrier();
        sum += 1, other += 0.25, whole += 3;
    }
    C[block * 64 + thread] = sum + (float)other + (float)whole;
    """
    r = run(body)
    n = np.arange(64)
    assert r.faults == []
    np.testing.assert_array_equal(r.out[64:], (64 + n + 5 + 0.5 * n + 1.25 + n + 15).astype("f4"))


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_blocks_on_several_cores(workers: int) -> None:
    body = "s[thread] = A[block * 64 + thread];\n em_barrier();\n C[block * 64 + thread] = s[63 - thread];"
    r = run(body, blocks=37, workers=workers)
    assert r.faults == []
    np.testing.assert_array_equal(r.out.reshape(37, 64), np.arange(37 * 64).reshape(37, 64)[:, ::-1])


def test_a_block_of_1024_threads() -> None:
    body = "s[thread] = A[block * 1024 + thread];\n em_barrier();\n C[block * 1024 + thread] = s[1023 - thread];"
    r = run(body, threads=1024)
    assert r.faults == []
    np.testing.assert_array_equal(r.out[:1024], np.arange(1024)[::-1])


@pytest.mark.parametrize("distance", [1, 2, 16])
def test_exchange_of_a_warp(distance: int) -> None:
    body = f"{GIVE}\n{TAKE.format(f'em_exchange(bits, ~0ull, em_lane() ^ {distance}, {SITE})')}"
    r = run(body)
    assert r.faults == []
    np.testing.assert_array_equal(r.out[:64], np.arange(64) ^ distance)


def test_exchanges_of_pairs_one_after_another() -> None:
    """A lane may be ahead of one that it met before."""
    text = GIVE
    for d in (16, 1, 4, 2, 8):
        text += f"bits = (uint32_t)em_exchange(bits, 1ull << em_lane() | 1ull << (em_lane() ^ {d}), em_lane() ^ {d}, {SITE});"
    r = run(f"{text}\n{TAKE.format('bits')}")
    assert r.faults == []
    np.testing.assert_array_equal(r.out[:64], np.arange(64) ^ 31)


def test_exchanges_of_different_groups_at_once() -> None:
    """Lanes 0 ... 15 by fours, the others all together."""
    mask = "(em_lane() < 16 ? 15ull << em_lane() / 4 * 4 : 0xffff0000ull)"
    r = run(f"{GIVE}\n{TAKE.format(f'em_exchange(bits, {mask}, em_lane() ^ 3, {SITE})')}")
    assert r.faults == []
    np.testing.assert_array_equal(r.out[:64], np.arange(64) ^ 3)


def test_an_exchange_with_a_lane_that_takes_no_part() -> None:
    r = run(f"{GIVE}\n{TAKE.format(f'em_exchange(bits, 15ull << em_lane() / 4 * 4, em_lane() ^ 8, {SITE})')}")
    assert r.kinds == {"divergent-reduce"}
    assert r.status == 3


TOGETHER = """
    struct Sum { float x; EM_PLAIN static void of(void* const* d) {
        float all = 0;
        for (int i = 0; i < UNITS; i++) all += ((Sum*)d[i])->x;
        for (int i = 0; i < UNITS; i++) ((Sum*)d[i])->x = all;
    } };
    static const EmInstr sum = {"sum", UNITS, Sum::of};
    static const EmInstr other = {"other", UNITS, Sum::of};
    Sum mine = {A[block * 64 + thread]};
    em_together(THIS, &mine, __builtin_return_address(0));
    C[block * 64 + thread] = mine.x;
"""


@pytest.mark.parametrize("units", [1, 8, 32, 64])
def test_together(units: int) -> None:
    """As many threads as an instruction takes, whatever the width of a warp."""
    r = run(TOGETHER.replace("UNITS", str(units)).replace("THIS", "((void)other, &sum)"))
    assert r.faults == []
    np.testing.assert_array_equal(r.out[:64], NUMBER.reshape(-1, units).sum(1).repeat(units))


def test_two_instructions_at_once() -> None:
    r = run(TOGETHER.replace("UNITS", "32").replace("THIS", "thread == 20 ? &other : &sum"))
    assert r.kinds == {"divergent-call"}
    assert {r.faults[0].thread, r.faults[0].other_thread} >= {20}


def test_who_waits_where() -> None:
    """A deadlock names the threads that wait, and those that are elsewhere."""
    r = run("C[block * 64 + thread] = 1;\n if (thread >= 48) em_meet(~0ull);\n if (thread < 7) em_barrier();")
    assert r.kinds == {"deadlock"}
    assert "0-6" in r.faults[0].message
    assert "48-63" in r.faults[0].message


# ------------------------------------------------------------ asynchronous copies

COPIES = """
    static const EmInstr copy = {"copy", 1, copy_one};
    const Copy one = {s + thread, A + block * 64 + thread}, two = {t + thread, B + block * 64 + thread};
    em_part(one.to, one.from, 4, __builtin_return_address(0));
    em_asynchronous(&copy, &one, sizeof one, KIND, __builtin_return_address(0));
    FIRST
    em_part(two.to, two.from, 4, __builtin_return_address(0));
    em_asynchronous(&copy, &two, sizeof two, KIND, __builtin_return_address(0));
    SECOND
    float x, y;
    __builtin_memcpy(&x, s + thread, 4);
    __builtin_memcpy(&y, t + thread, 4);
    C[block * 64 + thread] = (x == x ? 1 : 0) + (y == y ? 2 : 0);
"""


@pytest.mark.parametrize(
    ("kind", "first", "second", "landed"),
    [
        ("EM_GROUP", "em_commit(EM_GROUP);", "em_commit(EM_GROUP);", 0),  # nothing is awaited
        ("EM_GROUP", "em_commit(EM_GROUP);", "em_commit(EM_GROUP); em_wait(EM_GROUP, 1);", 1),
        ("EM_GROUP", "em_commit(EM_GROUP);", "em_commit(EM_GROUP); em_wait(EM_GROUP, 0);", 3),
        ("EM_GROUP", "", "em_commit(EM_GROUP); em_wait(EM_GROUP, 0);", 3),  # one group of two
        ("EM_GROUP", "", "em_commit(EM_GROUP); em_wait(EM_GROUP, 1);", 0),
        ("EM_GROUP", "em_commit(EM_GROUP);", "em_wait(EM_GROUP, 0);", 1),  # the second is in no group yet
        (
            "EM_GROUP",
            "em_commit(EM_GROUP);",
            "em_commit(EM_GROUP); em_commit(EM_GROUP); em_wait(EM_GROUP, 1);",
            3,
        ),  # an empty one
        ("EM_COUNTER", "", "", 0),
        ("EM_COUNTER", "", "em_wait(EM_COUNTER, 1);", 1),
        ("EM_COUNTER", "", "em_wait(EM_COUNTER, 0);", 3),
        ("EM_COUNTER", "", "em_wait(EM_COUNTER, 2);", 0),
        ("EM_COUNTER", "", "em_wait(EM_GROUP, 0);", 0),  # the other kind
    ],
)
def test_copies_land_when_awaited(kind: str, first: str, second: str, landed: int) -> None:
    """Not before: until then there is poison. (The look at it is itself a fault, which is found.)"""
    body = COPIES.replace("KIND", kind).replace("FIRST", first).replace("SECOND", second)
    r = run(body)
    assert set(r.out) == {landed}
    assert r.kinds == (set() if landed == 3 else {"in-flight"})


WAVE = """
    struct Whole { const float* from; float* to; EM_PLAIN static void copy(void* const* d) {
        for (int i = 0; i < 32; i++) ((Whole*)d[0])->to[i] = *((Whole*)d[i])->from;
    } };
    static const EmInstr copy = {"copy", 32, Whole::copy};
    const Whole given = {A + block * 64 + thread, s + thread / 32 * 32};
    em_part(given.to + thread % 32, given.from, 4, __builtin_return_address(0));
    em_asynchronous(&copy, &given, sizeof given, EM_COUNTER, __builtin_return_address(0));
    if (WHO) em_wait(EM_COUNTER, 0);
    em_meet(~0ull);
    C[block * 64 + thread] = s[thread / 32 * 32 + (thread + 1) % 32];
"""


def test_a_copy_of_a_warp_lands_at_once() -> None:
    r = run(WAVE.replace("WHO", "true"))
    assert r.faults == []
    np.testing.assert_array_equal(r.out[:64].reshape(2, 32), np.roll(NUMBER.reshape(2, 32), -1, axis=1))


def test_a_copy_of_a_warp_that_nobody_awaits() -> None:
    r = run(WAVE.replace("WHO", "false"))
    assert r.kinds == {"in-flight"}
    assert np.isnan(r.out).all()


# ------------------------------------------------------------ elsewhere


def test_without_assembly(tmp_path: Path) -> None:
    """Where no switch of stacks is written in assembly, the system's is used."""
    body = "s[thread] = A[block * 64 + thread];\n em_barrier();\n C[block * 64 + thread] = s[63 - thread];"
    text, library = tmp_path / "kernel.cpp", tmp_path / "kernel.so"
    text.write_text(text_of(body, 64), encoding="utf-8")
    runtime = Path(emulator.__file__).parent
    flags = ["-O1", "-std=c++17", "-fPIC", "-shared", "-pthread", "-DEM_UCONTEXT", f"-I{runtime}", f"-I{folder('emulate')}"]
    sources = [str(text), *map(str, sorted(runtime.glob("*.cpp")))]
    subprocess.run([*find_compiler().command, *flags, *sources, "-o", str(library), "-ldl"], check=True)
    arrays = [aligned(np.arange(192)), aligned(np.ones(192)), aligned(np.zeros(192))]
    args = (ctypes.c_void_p * 3)(*(x.ctypes.data for x in arrays))
    assert ctypes.CDLL(str(library)).call(args, (ctypes.c_int64 * 2)(192, 3), 2) == 0
    np.testing.assert_array_equal(arrays[2].reshape(3, 64), np.arange(192).reshape(3, 64)[:, ::-1])
