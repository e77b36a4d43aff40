"""One kernel, called from several threads of Python at the same time."""

import pytest

from ..support.processes import run

KERNEL = '''
TEXT = """
op gemm[M, N, K](A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]):
    C[i, j] = sum(k) A[i, k] * B[k, j]

op soft[M, N](X: f32[M, N]) -> (Y: f32[M, N], S: f32[M]):
    S[i] = sum(j) X[i, j]
    Y[i, j] = X[i, j] - S[i]

op total[N](X: f32[N]) -> (S: f32[]):
    S[] = sum(i) X[i]

schedule parts for total on cpu:generic:
    tile i: 64 -> core by workspace
"""

def data(rng, *shape):
    return rng.integers(-4, 5, shape).astype(np.float32)
'''


def test_the_first_calls_of_a_kernel_come_from_many_threads():
    run(
        KERNEL
        + """
k = andiron.compile(TEXT, "gemm")
def work(i):
    draw, rng = random.Random(i), np.random.default_rng(i)
    for _ in range(40):
        m, n, d = (draw.choice([0, 1, 3, 17, 64, 129]) for _ in range(3))
        A, B = data(rng, m, d), data(rng, d, n)
        out = np.full((m, n), np.nan, np.float32) if draw.random() < 0.5 else None
        C = k(A, B, out=out, threads=draw.choice([1, 2, 3]))
        assert out is None or C is out
        np.testing.assert_array_equal(C, A @ B)
together(6, work)
"""
    )


def test_shapes_are_forgotten_and_options_change_while_calls_run():
    run(
        KERNEL
        + """
from andiron.runtime import kernel as module
module._PLANS = 5
k = andiron.compile(TEXT, "soft")
variants, other = k.variants, andiron.compile(TEXT, "soft", target="cpu:generic").variants
stop = threading.Event()
def change():
    draw = random.Random(0)
    while not stop.is_set():
        k.adopt(draw.choice([variants, other]), None)
        k.threads = draw.choice([1, 2, 3, 7])
        repr(k), k.report.notes, k.source
        stop.wait(0.001)
def work(i):
    draw, rng = random.Random(i), np.random.default_rng(i)
    for _ in range(150):
        X = data(rng, draw.randrange(9), draw.randrange(40))
        Y, S = k(X)
        np.testing.assert_array_equal(S, X.sum(1))
        np.testing.assert_array_equal(Y, X - X.sum(1)[:, None])
changer = threading.Thread(target=change)
changer.start()
try:
    together(5, work)
finally:
    stop.set()
    changer.join()
"""
    )


@pytest.mark.parametrize("schedule", ["None", "'parts'"])
def test_calls_that_want_the_same_workers(schedule):
    """One of them gets the workers; the others go on alone, with the same results."""
    target = "cpu:generic" if schedule != "None" else "cpu"
    run(
        KERNEL
        + f'''
k = andiron.compile(TEXT, "total", {schedule}, "{target}")
X = data(np.random.default_rng(0), 300_001)
want = np.float32(X.astype(np.float64).sum())
out = [np.empty((), np.float32) for _ in range(4)]
def work(i):
    for n in range(300):
        assert k(X, out=out[i], threads=1 + (n + i) % 4) is out[i] and out[i] == want
together(4, work)
if os.path.isdir("/proc/self/task"):
    assert len(os.listdir("/proc/self/task")) > 2, "no worker was ever made"
'''
    )


def test_what_one_thread_does_wrong_is_told_there_alone():
    run(
        KERNEL
        + """
k = andiron.compile(TEXT, "gemm", K=8)
refused = [0] * 6
def work(i):
    rng = np.random.default_rng(i)
    A, B = data(rng, 16, 8), data(rng, 8, 24)
    room = np.zeros((16, 24), np.float32)
    read_only = room.view()
    read_only.flags.writeable = False
    wrong = [
        lambda: k(A[:, :7], B), lambda: k(A.astype(np.float64), B), lambda: k(A, B, out=read_only), lambda: k(A),
        lambda: k(A, B, threads=0), lambda: k(A, B, out=np.empty((3, 3), np.float32)), lambda: k(A, B, out=B.reshape(8, 24)),
    ]
    for n in range(60):
        np.testing.assert_array_equal(k(A, B, threads=1 + n % 3), A @ B)
        if i % 2:
            try:
                wrong[n % len(wrong)]()
            except UserError:
                refused[i] += 1
together(6, work)
assert refused == [0, 60] * 3, refused
"""
    )


def test_threads_that_still_call_when_the_interpreter_ends():
    for repeat in range(2):
        run(
            KERNEL
            + f"""
k = andiron.compile(TEXT, "gemm")
A = np.ones((96, 96), np.float32)
k(A, A, threads=2)
begun = threading.Semaphore(0)
def work():
    while True:
        k(A, A, threads=1 + {repeat} % 2)
        begun.release()
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
for _ in range(20):
    begun.acquire()
"""
        )


def test_many_kernels_made_and_dropped_while_they_are_called():
    run(
        KERNEL
        + """
import gc
current = [andiron.compile(TEXT, "soft", N=3)]  # a thread that waits for the first one takes the time of who makes it
def work(i):
    if i == 0:
        for n in range(40):
            current[0] = andiron.compile(TEXT, "soft", N=1 + n % 3)
            if n % 8 == 0:
                gc.collect()
        return
    rng = np.random.default_rng(i)
    done = 0
    while done < 200:
        k = current[0]
        X = data(rng, 5, k.sizes["N"])
        Y, S = k(X, threads=2)
        np.testing.assert_array_equal(S, X.sum(1))
        done += 1
together(4, work)
"""
    )
