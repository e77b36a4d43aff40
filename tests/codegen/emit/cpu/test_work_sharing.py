"""The threads of a CPU kernel: who does which part of a job, who waits for whom, and what a thread that wakes late may do."""

import ctypes
import os
import shutil
import subprocess
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from andiron.codegen.abi import FLAGS, symbol
from andiron.codegen.emit.cpu.work_sharing import shares_all_work
from andiron.codegen.emit.printers import emit
from andiron.codegen.ir.tile_ir import Alloc, Barrier, Launch, Let, Store
from andiron.dsl.index.expr import Expr, Var, as_expr
from andiron.dsl.types import TYPES
from andiron.dsl.values import IndexValue

from ....support.cpp.build import COMPILERS, folder, library, run
from ....support.cpp.programs import CORE, CORES, buffer, const, elementwise, lane, loop, program, put, units, when
from ....support.cpp.programs import at as load

W = 8
L = lane(W)
N, I = Var("N"), Var("i")
I64 = TYPES["i64"]
both = pytest.mark.parametrize("compiler", COMPILERS)
gcc = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")

# A thread that is kept from its work after it has learned of a job, and before it takes part in it.
HOLD = """
extern "C" __attribute__((visibility("default"))) int team_hold;
extern "C" __attribute__((visibility("default"))) int team_held;
int team_hold, team_held;
"""
WAIT = """
        __atomic_add_fetch(&team_held, 1, __ATOMIC_SEQ_CST);
        while (__atomic_load_n(&team_hold, __ATOMIC_SEQ_CST)) usleep(100);
        __atomic_sub_fetch(&team_held, 1, __ATOMIC_SEQ_CST);
"""


def holding(prog):
    """The library of a program whose threads can be held, and its function."""
    text, work = emit(prog), "        team_do(turn, (int)(intptr_t)member);"
    assert text.count(work) == 1
    text = text.replace(work, WAIT + work).replace("static void* team_work", HOLD + "static void* team_work")
    built = library(text, "gcc", "avx2")
    return built, getattr(built, symbol(prog))


def number_of(built, name, value=None):
    word = ctypes.c_int.in_dll(built, name)
    if value is not None:
        word.value = value
    return word.value


def call(function, arrays, sizes, threads):
    pointers = (ctypes.c_void_p * len(arrays))(*[a.ctypes.data for a in arrays])
    assert function(pointers, (ctypes.c_int64 * len(sizes))(*sizes), ctypes.c_int(threads)) == 0


def numbers(n, seed=0):
    return np.random.default_rng(seed).integers(-9, 10, n).astype(np.float32)


def add_one(place):
    return Store("Y", (as_expr(place),), const(1.0), "sum")


def counting():
    """Y[i] is the number of times that i was done."""
    body = loop(I, N, (when((N - 1 - I - L,), add_one(I + L)),), CORE * W, CORES * W)
    return program("count", (N,), (buffer("Y", "output", (N,)),), (body,))


def through_private():
    """Y = X by way of memory of a core."""
    kept = buffer("kept", "local", (64,), memory="l2", level="core")
    j, k = Var("j", 0, 7), Var("k", 0, 7)
    turn = (
        loop(j, 8, (when((N - 1 - I - W * j - L,), put("kept", (W * j + L,), load("X", I + W * j + L))),)),
        loop(k, 8, (when((N - 1 - I - W * k - L,), put("Y", (I + W * k + L,), load("kept", W * k + L))),)),
    )
    body = loop(I, N, (Alloc(kept, turn),), CORE * 64, CORES * 64)
    return program("through", (N,), (buffer("X", "input", (N,)), buffer("Y", "output", (N,))), (body,))


def mixed():
    """Three launches: anybody does the first and the last, in the middle one threads meet, and each leaves its number."""
    j = Var("j")
    first = elementwise(W).launches[0]
    ids = buffer("ids", "output", (64,), I64)
    leave = when((-L,), put("ids", (as_expr(CORE),), IndexValue(as_expr(CORES), I64)))
    middle = Launch("middle", units(W), (Barrier("socket"), leave))
    again = loop(j, N, (when((N - 1 - j - L,), put("Y", (j + L,), load("Y", j + L))),), CORE * W, CORES * W)
    made = elementwise(W)
    launches = (first, middle, Launch("last", units(W), (again,)))
    return replace(made, name="mixed", buffers=(*made.buffers, ids), launches=launches)


@gcc
@pytest.mark.parametrize("make", [elementwise, through_private])
def test_a_call_ends_while_the_others_sleep(make):
    """And what they find when they wake is not a job that is over, though its arrays are gone."""
    prog = make(W) if make is elementwise else make()
    built, function = holding(prog)
    number_of(built, "team_hold", 1)
    try:
        for n in (5000, 1, 77, 100000):
            x, y = numbers(n, n), np.full(n, np.nan, np.float32)
            call(function, (x, y), (n,), 4)
            np.testing.assert_array_equal(y, np.maximum(x, 0) if make is elementwise else x)
        while number_of(built, "team_held") < 3:  # each has seen one of these jobs
            time.sleep(1e-3)
        x[:] = np.nan
        y[:] = 7
    finally:
        number_of(built, "team_hold", 0)
    while number_of(built, "team_held") > 0:
        time.sleep(1e-3)
    time.sleep(0.05)
    assert (y == 7).all()


@gcc
def test_late_ones_join_the_next_job():
    """Held through jobs of any kind, they take part in one where all must meet."""
    prog = mixed()
    built, function = holding(prog)
    for turn in range(20):
        number_of(built, "team_hold", turn % 2)
        later = threading.Timer(0.01, number_of, (built, "team_hold", 0))
        later.start()
        n = 1000 + turn
        x, y, ids = numbers(n, n), np.full(n, np.nan, np.float32), np.full(64, -1, np.int64)
        call(function, (x, y, ids), (n,), 3)
        np.testing.assert_array_equal(y, np.maximum(x, 0))
        np.testing.assert_array_equal(ids, [3] * 3 + [-1] * 61)
        later.join()


def meeting(size: Var | Expr = N):
    """Y is X from its end, by way of memory that threads share; each leaves how many they are."""
    j = Var("j")
    work = replace(buffer("work", "local", (N,), memory="l3"), size=as_expr(size))
    first = loop(I, N, (when((N - 1 - I - L,), put("work", (I + L,), load("X", I + L))),), CORE * W, CORES * W)
    second = loop(j, N, (when((N - 1 - j - L,), put("Y", (j + L,), load("work", N - 1 - j - L))),), CORE * W, CORES * W)
    leave = when((-L,), put("ids", (as_expr(CORE),), IndexValue(as_expr(CORES), I64)))
    buffers = (buffer("X", "input", (N,)), buffer("Y", "output", (N,)), buffer("ids", "output", (64,), I64))
    return program("meeting", (N,), buffers, (Alloc(work, (Barrier("socket"), first, Barrier("socket"), second, leave)),))


@gcc
def test_those_who_come_meet():
    """A job with barriers is done by those who are there."""
    prog = meeting()
    assert "team_meet(launch__main_, &call, threads, &call.cores_, PATIENCE);" in emit(prog)
    built, function = holding(prog)

    def came(threads, n=3000):
        x, y, ids = numbers(n, n), np.full(n, np.nan, np.float32), np.full(64, -1, np.int64)
        call(function, (x, y, ids), (n,), threads)
        np.testing.assert_array_equal(y, x[::-1])
        np.testing.assert_array_equal(ids, [ids[0]] * ids[0] + [-1] * (64 - ids[0]))
        return ids[0]

    assert all(1 <= came(4, n) <= 4 for n in range(1000, 1100))
    number_of(built, "team_hold", 1)
    came(4)
    while number_of(built, "team_held") < 3:
        time.sleep(1e-3)
    assert [came(4), came(2)] == [1, 1]
    number_of(built, "team_hold", 0)
    assert any(came(2) == 2 for _ in range(20000))  # those who were late come again


# How often a thread woke that had been kept from its caller's core, and how often it was on that one all the same.
WOKEN = """
extern "C" __attribute__((visibility("default"))) int team_woken;
extern "C" __attribute__((visibility("default"))) int team_beside;
int team_woken, team_beside;
"""


@gcc
@pytest.mark.skipif(len(getattr(os, "sched_getaffinity", lambda _: ())(0)) < 2, reason="one core")
def test_who_is_woken_has_a_core_to_itself():
    """Not that of the caller, who does not pause. All cores are open to it again when it is awake."""
    prog = elementwise(W)
    text, after = emit(prog), "    CPU_SET(barred, &allowed);"
    assert text.count(after) == 1
    text = text.replace(after, f"    team_beside += sched_getcpu() == barred;\n    team_woken++;\n{after}")
    built = library(text.replace("static int team_cpu", WOKEN + "static int team_cpu"), "gcc", "avx2")
    function = getattr(built, symbol(prog))
    x, y = numbers(5000), np.full(5000, np.nan, np.float32)
    before = set(os.listdir("/proc/self/task"))
    call(function, (x, y), (x.size,), 2)
    (made,) = set(os.listdir("/proc/self/task")) - before
    for _ in range(30):
        time.sleep(0.02)  # it sleeps
        call(function, (x, y), (x.size,), 2)
    while number_of(built, "team_woken") < 20:
        time.sleep(0.02)
        call(function, (x, y), (x.size,), 2)
    assert number_of(built, "team_beside") == 0
    while os.sched_getaffinity(int(made)) != os.sched_getaffinity(0):  # a moment after it woke
        time.sleep(1e-3)


@gcc
def test_all_meet_where_their_number_counts():
    """A program with other launches, or memory for each thread, goes by one number."""
    prog = mixed()
    assert "&call, threads, NULL, PATIENCE);" in emit(prog)
    assert "&call, threads, &call." not in emit(prog)
    assert "&call, threads, NULL, PATIENCE);" in emit(meeting(N * CORES))


@both
@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_each_part_is_done_once(compiler, threads):
    prog = counting()
    for n in [0, 1, 8, 9, 63, 64, 65, 257, *range(500, 4000, 171)]:
        y = np.zeros(n + 1, np.float32)
        call(library_function(prog, compiler), (y,), (n,), threads)
        np.testing.assert_array_equal(y, [1] * n + [0])


def library_function(prog, compiler):
    return getattr(library(emit(prog), compiler, "avx2"), symbol(prog))


@both
def test_memory_of_a_thread(compiler):
    """There is one for each thread, though there are more units than threads."""
    prog = through_private()
    for n, threads in [(64, 2), (6400, 3), (100001, 5)]:
        for seed in range(20):
            x = numbers(n, seed)
            np.testing.assert_array_equal(run(prog, {"X": x}, {"N": n}, compiler, threads=threads)["Y"], x)


@both
def test_callers_take_turns(compiler):
    """Several callers with jobs of several kinds, sizes and numbers of threads."""
    wrong, ways = [], [mixed(), meeting(), counting(), through_private()]
    functions = [library_function(p, compiler) for p in ways]

    def work(me):
        r = np.random.default_rng(me)
        for _ in range(300):
            n, threads = int(r.integers(1, 3000)), int(r.integers(1, 9))
            x, y, ids = numbers(n, me), np.zeros(n, np.float32), np.zeros(64, np.int64)
            arrays = [(x, y, ids), (x, y, ids), (y,), (x, y)][me]
            call(functions[me], arrays, (n,), threads)
            want = [np.maximum(x, 0), x[::-1], np.ones(n), x][me]
            if not (y == want).all():
                wrong.append((me, n, threads))

    crowd = [threading.Thread(target=work, args=(me,)) for me in range(4)]
    for t in crowd:
        t.start()
    for t in crowd:
        t.join()
    assert not wrong


@gcc
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_fork_in_the_middle_of_a_job():
    """The child has the words of a job that nobody will end, and does not go on with it."""
    prog = counting()
    function = library_function(prog, "gcc")
    n, stop = 200_000, threading.Event()
    busy = np.zeros(n, np.float32)

    def work():
        while not stop.is_set():
            call(function, (busy,), (n,), 3)

    other = threading.Thread(target=work)
    other.start()
    try:
        for _ in range(20):
            time.sleep(2e-3)
            child = os.fork()
            if child == 0:
                before = busy.copy()
                y = np.zeros(n, np.float32)
                for _ in range(5):
                    call(function, (y,), (n,), 3)
                os._exit(0 if (y == 5).all() and (busy == before).all() else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        stop.set()
        other.join()


MAIN = """
#include <stdio.h>
extern "C" int FUNCTION(void* const*, const int64_t*, int);
static int wrong;
static void* calls(void* seed) {
    unsigned r = (unsigned)(intptr_t)seed;
    static __thread float x[3000], y[3000];
    for (int turn = 0; turn < 400; turn++) {
        r = r * 1664525u + 1013904223u;
        const int64_t n = r >> 8 & 2047;
        for (int i = 0; i < n; i++) x[i] = (float)i - 100, y[i] = -1;
        int64_t ids[64];
        void* args[] = {x, y, ids};
        FUNCTION(args, &n, 1 + (int)(r >> 24 & 7));
        for (int i = 0; i < n; i++) if (y[i] != WANT) __atomic_store_n(&wrong, 1, __ATOMIC_RELAXED);
        if ((r & 15) == 0) usleep(500);
    }
    return NULL;
}
int main() {
    pthread_t others[3];
    for (int i = 0; i < 3; i++) pthread_create(&others[i], NULL, calls, (void*)(intptr_t)(i + 2));
    calls((void*)1);
    for (int i = 0; i < 3; i++) pthread_join(others[i], NULL);
    printf(wrong ? "wrong" : "right");
    return 0;
}
"""


@gcc
@pytest.mark.parametrize("make", [elementwise, through_private, meeting])
def test_thread_sanitizer(make):
    prog = make(W) if make is elementwise else make()
    want = {elementwise: "(x[i] > 0 ? x[i] : 0)", through_private: "x[i]", meeting: "x[n - 1 - i]"}[make]
    stem = folder() / f"sanitized_{make.__name__}"
    text = emit(prog) + MAIN.replace("FUNCTION", symbol(prog)).replace("WANT", want)
    stem.with_suffix(".cpp").write_text(text)
    flags = [x for x in FLAGS if x != "-O3"]
    command = ["g++", *flags, "-O1", "-g", "-fsanitize=thread", "-o", str(stem), str(stem.with_suffix(".cpp"))]
    if (built := subprocess.run(command, capture_output=True, text=True)).returncode != 0:
        assert "tsan" in built.stderr, built.stderr
        pytest.skip("g++ has no thread sanitizer")
    # the sanitizer of older compilers wants memory laid out as it was when they were made
    fixed = ["setarch", "-R"] if shutil.which("setarch") else []
    done = subprocess.run([*fixed, str(stem)], capture_output=True, text=True, timeout=300)
    if "unexpected memory mapping" in done.stderr:
        pytest.skip("the thread sanitizer does not run here")
    assert (done.returncode, done.stdout) == (0, "right"), done.stderr


def test_which_launches_are_dealt():
    """To more units than threads: loops over units alone. What else there is would be done by each unit."""
    cores = units(W)[0]

    def of(*body):
        return shares_all_work(body, cores)

    copy = put("Y", (I,), load("X", I))
    dealt = loop(I, N, (copy,), CORE, CORES)
    j = Var("j")
    assert of(dealt)
    assert of(dealt, dealt)
    assert of(loop(j, N, (dealt,)))
    assert of(Alloc(buffer("b", "local", (4,), memory="l2", level="core"), (Let(j, N * 2), dealt)))
    assert not of(copy)  # each unit would do it
    assert not of(dealt, copy)
    assert not of(loop(I, N, (put("Y", (as_expr(CORE),), load("X", I)),), CORE, CORES))  # a place of a unit's own
    assert not of(Let(j, N // CORES), dealt)
    assert not of(loop(I, N, (put("Y", (I,), IndexValue(as_expr(CORES), I64)),), CORE, CORES))
    assert not of(loop(I, N, (copy,), CORE * 8, 8))  # overlapping shares, or a fixed number of units
    assert not of(loop(I, CORE * 8 + 8, (copy,), CORE * 8, 1))  # runs of turns are not dealt by steps
