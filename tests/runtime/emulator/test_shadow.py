"""The observer's shadows find a race on a cell exactly when one is there, against vector clocks that remember every access."""

from __future__ import annotations

import ctypes
import random
import subprocess
from pathlib import Path

import pytest
from andiron.runtime import emulator
from andiron.runtime.native.cxx_compiler import find_compiler

LOAD, STORE, ATOMIC, UNDER_WAY = 1, 2, 4, 8
HERE = Path(__file__).parent
FOLDER = Path(emulator.__file__).parent
API = FOLDER.parents[1] / "codegen" / "templates" / "emulate"


@pytest.fixture(scope="module")
def shadow(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    library = tmp_path_factory.mktemp("shadow") / "shadow.so"
    flags = ["-O1", "-std=c++17", "-shared", "-fPIC", f"-I{FOLDER}", f"-I{API}"]
    subprocess.run([*find_compiler().command, *flags, str(HERE / "shadow.cpp"), "-o", str(library)], check=True)
    return ctypes.CDLL(str(library))


class Oracle:
    """All accesses of each cell, and for each thread what it has learnt of each other one's time."""

    def __init__(self, threads: int) -> None:
        self.now = [1] * threads
        self.known = [[0] * threads for _ in range(threads)]
        self.seen: dict[int, list[tuple[int, int, int]]] = {}

    def meet(self, group: list[int]) -> None:
        for t in group:
            self.known[t][t] = self.now[t]
        joined = [max(column) for column in zip(*(self.known[t] for t in group), strict=True)]
        for t in group:
            self.known[t] = list(joined)
            self.now[t] += 1

    def access(self, cell: int, thread: int, kind: int) -> bool:
        """Whether it races with any access before."""
        racy = False
        for other, time, how in self.seen.setdefault(cell, []):
            conflicts = STORE in (how, kind) or (ATOMIC in (how, kind) and how != kind)
            racy |= conflicts and other != thread and time > self.known[thread][other]
        self.seen[cell].append((thread, self.now[thread], kind))
        return racy


@pytest.mark.parametrize("part", range(4))
def test_against_vector_clocks(shadow: ctypes.CDLL, part: int) -> None:
    """Until a cell's first race; what is found after that follows from it."""
    for seed in range(part * 100, part * 100 + 100):
        compare(shadow, random.Random(seed), seed % 3 > 0)


def compare(shadow: ctypes.CDLL, rng: random.Random, atomics: bool) -> None:
    lanes, warps, cells = rng.choice([2, 3, 4, 7, 8]), rng.choice([1, 2, 3]), 3
    threads = lanes * warps
    shadow.begin(lanes)
    oracle, over = Oracle(threads), set()
    everyone = (1 << lanes) - 1
    for cell in range(cells):  # what is there from the start was written by one thread
        assert shadow.access(cell, 0, STORE, 0) == 0
        oracle.access(cell, 0, STORE)
    shadow.meet()
    oracle.meet(list(range(threads)))
    for step in range(60):
        what = rng.random()
        if what < 0.1:
            shadow.meet()
            oracle.meet(list(range(threads)))
        elif what < 0.4:
            warp = rng.randrange(warps)
            shadow.meet_lanes(warp, ctypes.c_uint64(everyone), ctypes.c_uint64(everyone))
            oracle.meet([warp * lanes + i for i in range(lanes)])
        else:
            cell, thread = rng.randrange(cells), rng.randrange(threads)
            kind = rng.choices([LOAD, STORE, ATOMIC], [6, 3, int(atomics)])[0]
            expected = oracle.access(cell, thread, kind)
            got = shadow.access(cell, thread, kind, 0)
            if cell not in over:
                assert bool(got) == expected, f"step {step}, cell {cell}, thread {thread}, kind {kind}"
            if expected:
                over.add(cell)


def test_some_lanes_meet(shadow: ctypes.CDLL) -> None:
    shadow.begin(4)
    everyone = 0b1111
    shadow.access(0, 0, STORE, 0)
    shadow.meet_lanes(0, ctypes.c_uint64(0b0011), ctypes.c_uint64(everyone))
    assert shadow.access(0, 1, LOAD, 0) == 0  # it met the writer
    assert shadow.access(0, 2, LOAD, 0) == STORE  # thread 0 wrote, and did not meet thread 2
    shadow.begin(4)
    shadow.access(0, 0, STORE, 0)
    shadow.meet_lanes(0, ctypes.c_uint64(0b0011), ctypes.c_uint64(everyone))
    shadow.meet_lanes(0, ctypes.c_uint64(0b0110), ctypes.c_uint64(everyone))
    assert shadow.access(0, 2, LOAD, 0) == 0  # it heard of it from thread 1
    assert shadow.access(0, 3, LOAD, 0) == STORE


def test_never_written(shadow: ctypes.CDLL) -> None:
    shadow.begin(4)
    assert shadow.access(0, 0, LOAD, 0) == -1
    shadow.access(1, 0, STORE, 0)
    assert shadow.access(1, 0, LOAD, 0) == 0


def test_in_flight(shadow: ctypes.CDLL) -> None:
    """Nobody may touch what an asynchronous copy will write, not even who issued it; awaiting is for the issuer alone."""
    shadow.begin(4)
    assert shadow.access(0, 1, STORE, 1) == 0
    assert shadow.access(0, 1, LOAD, 0) == 1 << 8 | UNDER_WAY
    shadow.meet()
    assert shadow.access(0, 3, LOAD, 0) == 1 << 8 | UNDER_WAY
    shadow.await_copy(0, 1)
    assert shadow.access(0, 1, LOAD, 0) == 0
    assert shadow.access(0, 3, LOAD, 0) == 1 << 8 | STORE
    shadow.meet()
    assert shadow.access(0, 3, LOAD, 0) == 0


def test_blocks_are_never_ordered(shadow: ctypes.CDLL) -> None:
    shadow.begin(4)
    assert shadow.access_global(0, 0, 0, 1, LOAD) == -1
    shadow.access_global(1, 0, 0, 1, STORE)
    shadow.meet()
    assert shadow.access_global(1, 1, 0, 1, LOAD) == 0  # of the same block, after a barrier
    assert shadow.access_global(1, 1, 1, 1, LOAD) == STORE
    assert shadow.access_global(1, 1, 1, 2, LOAD) == 0  # launches are ordered
    assert shadow.access_global(1, 3, 2, 2, STORE) == 1 << 8 | LOAD


def test_atomics_of_blocks(shadow: ctypes.CDLL) -> None:
    shadow.begin(4)
    shadow.access_global(0, 0, 0, 1, STORE)
    assert all(shadow.access_global(0, t, b, 2, ATOMIC) == 0 for t in range(4) for b in range(3))
    assert shadow.access_global(0, 0, 5, 2, LOAD) & 255 == ATOMIC


@pytest.mark.parametrize("part", range(4))
def test_global_against_vector_clocks(shadow: ctypes.CDLL, part: int) -> None:
    """One block after another on this thread, as the runtime runs them."""
    for seed in range(part * 100, part * 100 + 100):
        compare_global(shadow, random.Random(seed))


def compare_global(shadow: ctypes.CDLL, rng: random.Random) -> None:
    lanes, warps, blocks, cells = 4, 2, 3, 4
    threads = lanes * warps
    shadow.begin(4)
    for cell in range(cells):
        shadow.access_global(cell, 0, 0, 1, STORE)
    seen: dict[int, list[tuple[int, int]]] = {}
    over: set[int] = set()
    for block in range(blocks):
        shadow.meet()
        oracle = Oracle(threads)
        for _ in range(rng.randrange(20)):
            if rng.random() < 0.3:
                shadow.meet()
                oracle.meet(list(range(threads)))
                continue
            cell, thread = rng.randrange(cells), rng.randrange(threads)
            kind = rng.choices([LOAD, STORE, ATOMIC], [6, 1, 1])[0]
            before = seen.setdefault(cell, [])
            expected = oracle.access(cell, thread, kind)
            expected |= any(b != block and (STORE in (k, kind) or k != kind) for b, k in before)
            before.append((block, kind))
            got = shadow.access_global(cell, thread, block, 2, kind)
            if cell not in over:
                assert bool(got) == expected
            if expected:
                over.add(cell)
