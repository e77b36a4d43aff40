"""Compilations and builds in several threads at the same time: the same texts as one after another."""

from ..support.processes import run

WORK = """
from andiron.dsl.stdlib_files import std_names
TEXTS = {
    "gemm": "op f[M, N, K](A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]):\\n    C[i, j] = sum(k) A[i, k] * B[k, j]\\n",
    "soft": (
        "op f[M, N](X: f32[M, N]) -> (Y: f32[M, N]):\\n    m[i] = max(j) X[i, j]\\n    e[i, j] = exp(X[i, j] - m[i])\\n"
        "    s[i] = sum(j) e[i, j]\\n    Y[i, j] = e[i, j] / s[i]\\n"
    ),
    "conv": (
        "op f[N](X: f32[N], W: f32[5]) -> (Y: f32[N]):\\n    Y[i] = sum(r) X[i + r - 2 else 0] * W[r]\\n"
    ),
}
TARGETS = ["cpu:generic", "cpu:avx2", "cuda:sm_80", "hip:gfx90a"]
PAIRS = [(n, text, m, target) for n, text in enumerate(TEXTS.values()) for m, target in enumerate(TARGETS)]
CASES = [(text, target, {"N": 65} if m < 2 else {}) for n, text, m, target in PAIRS if (n + m) % 2 == 0]

def texts(case):
    text, target, sizes = case
    k = andiron.compile(text, target=target, **sizes)
    return k.source, k.schedule, str(k.trace)
"""


def test_texts_are_those_of_one_thread():
    """The order of threads is another in each process, and nothing is remembered from the compilations to compare with."""
    alone = run(WORK + "import hashlib\nfor c in CASES: print(hashlib.sha256(repr(texts(c)).encode()).hexdigest())\n")
    assert len(alone.split()) == 6
    crowd = """
import hashlib
found = {}
def work(i):
    order = [n for n in range(len(CASES)) if n % 3 != i]  # two threads have each
    random.Random(i).shuffle(order)
    for n in order:
        said = hashlib.sha256(repr(texts(CASES[n])).encode()).hexdigest()
        assert found.setdefault(n, said) == said, CASES[n]
together(3, work)
for n in range(len(CASES)):
    print(found[n])
"""
    assert run(WORK + crowd) == alone


def test_one_module_is_read_compiled_and_built_by_many():
    """One text: its schedules are compiled by many threads at once, from the same objects."""
    run(
        """
module = andiron.loads('''
op scale[M, N](x: f32[M, N]) -> (y: f32[M, N]):
    y[i, j] = x[i, j] * 2.0

schedule small for scale where N <= 16:
    tile i: 4
    compute

schedule any for scale:
    tile j: 8
    compute
''')
kernel = andiron.compile(module, threads=2)
made = []
def work(i):
    for schedule in ("small", "any", None, "auto"):
        k = andiron.compile(module, schedule=schedule)
        made.append(k.source)
        x = np.arange(5 * 7, dtype=np.float32).reshape(5, 7)
        for f in (k, kernel):
            np.testing.assert_array_equal(f(x), 2 * x)
            np.testing.assert_array_equal(f(np.ones((2, 99), np.float32)), 2) if f is kernel else None
    assert str(kernel.report) and kernel.trace and kernel.prepare() is kernel
together(6, work)
assert len(set(made)) == 3, len(set(made))
"""
    )


def test_mistakes_in_some_threads_leave_the_others_alone():
    run(
        """
GOOD = "op f[N](x: f32[N]) -> (y: f32[N]):\\n    y[i] = x[i] * 2.0\\n"
BAD = ["op f[N](x: f32[N]) -> (y: f32[N])\\n  y[i] = x[i]\\n", "op f[N](x: f32[N]) -> (y: f32[N]):\\n    y[i] = z[i] ** (\\n",
       "op f[N](x: f32[N]) -> (y: f32[N]):\\n    y[i] = q[i]\\n", GOOD + "schedule s for f:\\n    tile q: 4\\n    compute\\n"]
told = {}
def work(i):
    for n in range(40):
        if (i + n) % 2:
            assert len(andiron.loads(GOOD).ops) == 1
            continue
        try:
            andiron.compile(BAD[n % 4 ^ 1], target="cpu:generic").source
        except UserError as error:
            said = str(error)
            assert told.setdefault(n % 4 ^ 1, said) == said
        else:
            raise AssertionError(BAD[n % 4 ^ 1])
together(5, work)
import gc
assert gc.isenabled()
"""
    )


def test_the_collector_of_garbage_runs_again_and_who_stopped_it_is_obeyed():
    run(
        """
import gc
from andiron.dsl.support.collector import postpone_collection
def work(i):
    for _ in range(300):
        with postpone_collection():
            assert not gc.isenabled()
            with postpone_collection():
                pass
            assert not gc.isenabled()
together(4, work)
assert gc.isenabled()
gc.disable()
together(4, work)
assert not gc.isenabled()
"""
    )


def test_the_mask_of_new_files_stays_the_process_own(tmp_path):
    run(
        f"""
from pathlib import Path
from andiron.runtime.storage.files import write_text
os.umask(0o027)
folder = Path({str(tmp_path)!r})
(folder / "old").write_text("-")
(folder / "old").chmod(0o604)
def work(i):
    for n in range(100):
        write_text(folder / f"new{{i}}", str(n))
        write_text(folder / "old", str(n))
mask, os.umask = os.umask, None  # to ask is to change it
together(5, work)
assert mask(0o027) == 0o027
modes = {{p.name: p.stat().st_mode & 0o777 for p in folder.iterdir()}}
assert modes == {{"old": 0o604, **{{f"new{{i}}": 0o640 for i in range(5)}}}}
"""
    )
