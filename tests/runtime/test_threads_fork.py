"""Processes forked while other threads call, compile and build; spawned ones; and several at once."""

import os

import pytest

from ..support.processes import run

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")

KERNEL = """
import warnings
warnings.simplefilter("ignore", DeprecationWarning)  # of forks with threads, from Python 3.12 on: they are what is tried here
TEXT = "op f[M, K, N](A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]):\\n    C[i, j] = sum(k) A[i, k] * B[k, j]\\n"
A = np.random.default_rng(0).integers(-4, 5, (130, 130)).astype(np.float32)
WANT, SMALL = A @ A, A[:20, :20] @ A[:20, :20]  # now: NumPy's own product has threads, and locks, and may hang in a child

def check(k, threads):
    np.testing.assert_array_equal(k(A, A, threads=threads), WANT)

def forked(work, seconds=120):
    \"\"\"Runs work() in a child; a child that hangs is ended by the alarm.\"\"\"
    import signal, traceback
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(seconds)
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return child

def ended_well(child):
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status == 0, f"the child ended with {status}"
"""


def test_a_child_calls_while_the_parent_calls():
    run(
        KERNEL
        + """
k = andiron.compile(TEXT)
check(k, 3)  # its workers sleep from here on
stop = threading.Event()
def calls():
    while not stop.is_set():
        check(k, 2)
others = [threading.Thread(target=calls) for _ in range(2)]
for t in others:
    t.start()
def child(rows):
    for threads in (1, 2, 3):
        check(k, threads)
    np.testing.assert_array_equal(k(A[:rows], A, threads=2), WANT[:rows])  # a new shape
try:
    for n in range(15):
        ended_well(forked(lambda: child(129 if n else 7)))  # for 7 rows the first child compiles another kernel
finally:
    stop.set()
    for t in others:
        t.join()
"""
    )


def test_a_child_compiles_while_the_parent_compiles():
    """Whatever the other threads were at: reading text, proving, lowering, building. Nothing of it is locked in the child."""
    run(
        KERNEL
        + """
import gc, time
TEXT = "op f[N](x: f32[N]) -> (y: f32[N]):\\n    y[i] = x[i - 1 else 0] * 2.0\\n"
def check(k, threads):
    np.testing.assert_array_equal(k(np.ones(5, np.float32), threads=threads), [0, 2, 2, 2, 2])
stop = threading.Event()
kernels = [andiron.compile(TEXT, target="cpu:generic")]  # whose first call may be under way
def compiles(i):
    draw = random.Random(i)
    while not stop.is_set():
        text = TEXT.replace("op f", f"op f{draw.randrange(1 << 30)}")
        k = andiron.compile(text, target=draw.choice(["cpu:generic", "cuda:sm_80"]))
        k.trace, k.source
        if i == 0:
            kernels[0] = k = andiron.compile(TEXT, target="cpu:generic", N=5)
            k.prepare()
others = [threading.Thread(target=compiles, args=(i,)) for i in range(3)]
for t in others:
    t.start()
def child():
    assert gc.isenabled()
    k = andiron.compile(TEXT + "    # again\\n", target="cpu:generic")
    assert len(k.source) > 1000 and str(k.trace)
    check(k, 2)
    kernels[0].prepare()
try:
    for n in range(10):
        time.sleep(0.02 + 0.03 * n)
        ended_well(forked(child))
finally:
    stop.set()
    for t in others:
        t.join()
"""
    )


def test_a_child_of_a_call_under_the_emulator():
    run(
        KERNEL
        + """
k = andiron.compile(TEXT, target="emulate:sm_80")
small = A[:20, :20].copy()
def check(k):
    np.testing.assert_array_equal(k(small, small), SMALL)
check(k)
stop = threading.Event()
def calls():
    while not stop.is_set():
        check(k)
other = threading.Thread(target=calls)
other.start()
import time
try:
    for n in range(8):
        time.sleep(0.01 * n)
        ended_well(forked(lambda: check(k)))
finally:
    stop.set()
    other.join()
"""
    )


def test_a_lock_of_the_cache_does_not_stay_with_a_child(tmp_path):
    """A child that was forked while an entry was made, and lives on, keeps nobody waiting."""
    run(
        KERNEL
        + f"""
import time
from pathlib import Path
from andiron.runtime.storage.cache import Cache
cache = Cache(Path({str(tmp_path)!r}))
def make(folder):
    global child
    child = forked(lambda: time.sleep(100))
    (folder / "x").write_text("x")
    return {{}}
key = "ab" * 20
cache.get_or_make(key, make)
begun = time.monotonic()
cache.put(key, lambda folder: {{}})  # needs the same lock, and would wait a minute for it
waited = time.monotonic() - begun
os.kill(child, 9)
os.waitpid(child, 0)
assert waited < 30, waited
"""
    )


def test_programs_end_while_children_live():
    """A child that was forked as a program was started, and lives on, has no pipe of it: nobody waits for its end there."""
    run(
        KERNEL
        + """
from andiron.dsl.support.processes import run_program
def programs():
    for _ in range(150):
        run_program(["true"], timeout=60)
others = [threading.Thread(target=programs, daemon=True) for _ in range(3)]
for t in others:
    t.start()
children = []
try:
    while any(t.is_alive() for t in others) and len(children) < 150:
        children.append(forked(lambda: threading.Event().wait()))
    for t in others:
        t.join(50)
    assert not any(t.is_alive() for t in others), "a program waits for a child"
finally:
    for child in children:
        os.kill(child, 9)
        os.waitpid(child, 0)
"""
    )


def test_a_fork_waits_for_locks_in_any_order():
    """A thread that has one lock that forks wait for may take the other, as a call under the emulator starts a compiler."""
    run(
        KERNEL
        + """
from andiron.dsl.support.forks import ForkLock
first, second = ForkLock(forks_wait=True), ForkLock(forks_wait=True)
for outer, inner in ((first, second), (second, first)):
    inside, ended = threading.Event(), []
    def nested():
        with outer.held():
            inside.set()
            import time
            time.sleep(0.3)  # the fork waits from now on
            with inner.held():
                ended.append(1)
    other = threading.Thread(target=nested, daemon=True)
    other.start()
    inside.wait()
    def child():
        assert ended == [1]
        for lock in (first, second):
            with lock.held():
                pass
    ended_well(forked(child))
    other.join()
    with first.held(), second.held():
        pass
"""
    )


@pytest.mark.parametrize("way", ["fork", "spawn", "forkserver"])
def test_pools_of_processes(way, tmp_path):
    """Of the same kernel at the same time, with an empty cache."""
    (tmp_path / "pooled.py").write_text(
        """
import multiprocessing, os, sys
import numpy as np
import andiron

TEXT = "op f[N](x: f32[N]) -> (y: f32[N]):\\n    y[i] = x[i] * 3.0 + 1.0\\n"

def work(n):
    k = andiron.compile(TEXT)
    x = np.arange(n, dtype=np.float32)
    return bool((k(x, threads=2) == 3 * x + 1).all()), k.report.cached

if __name__ == "__main__":
    if sys.argv[1] == "fork":
        assert work(300_000)[0]  # a parent with workers
    with multiprocessing.get_context(sys.argv[1]).Pool(4) as pool:
        found = pool.map(work, [10, 300_000] * 6, chunksize=1)
    assert all(good for good, _ in found), found
    print(len(found))
"""
    )
    env = {**os.environ, "ANDIRON_CACHE": str(tmp_path / "cache")}
    told = run(
        f"""
import runpy, sys
sys.path.insert(0, {str(tmp_path)!r})
sys.argv = ["pooled.py", {way!r}]
runpy.run_path({str(tmp_path / "pooled.py")!r}, run_name="__main__")
""",
        env,
        head="",
    )
    assert told.split() == ["12"]
