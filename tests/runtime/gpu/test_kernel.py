"""From a call to the launch: arrays of all families, parameters, grids, workspaces, streams.

The GPU is a fake one that runs the emitted source code on the CPU, so results are right or wrong as they would be there.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

import andiron
import numpy as np
import pytest
from andiron.dsl.errors import InternalError
from andiron.runtime.gpu.arch import amd_name, code_format, nearest_device
from andiron.runtime.gpu.kernel import DeviceKernel
from andiron.runtime.tuning import racing, search, trial_runs
from andiron.runtime.tuning.database.open_database import open_database
from andiron.runtime.tuning.worker import Worker
from andiron.tools.cli import main

from ...support.gpu import fake_gpu
from ...support.gpu.fake_gpu import CupyArray, Foreign, Tensor, numbers, on

pytestmark = pytest.mark.skipif(fake_gpu.CXX is None, reason="no g++")
SCALE = "op scale[N](X: f32[N], a: f32[]) -> (Y: f32[N]):\n    Y[i] = a[] * X[i]\n"
AXPY = "op axpy[N](X: f32[N], Y: f32[N]) -> (Z: f32[N]):\n    Z[i] = 2.0 * X[i] + Y[i]\n"
FOURS = "schedule fours for axpy:\n    tile i: 256 -> block\n    tile i: 4 -> thread\n    compute\n"
ROWS = """
op rows[M, N](X: f32[M, N]) -> (S: f32[M], T: f32[M]):
    S[i] = sum(j) X[i, j]
    T[i] = sum(j) X[i, j] * X[i, j]
"""
TALL = """
op gemm[M, N, K](A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]):
    C[m, n] = sum(k) A[m, k] * B[k, n]
schedule tall for gemm:
    tile m: 8, n: 8 -> block
    tile k: 32 -> block by workspace
    tile m: 1, n: 1 -> thread
    keep C in register
    tile k: 1
    compute
"""
SHARED = """
op transpose[M, N](X: f32[M, N]) -> (Y: f32[N, M]):
    Y[j, i] = X[i, j]
schedule tiled for transpose:
    tile i: 32, j: 32 -> block
    move X -> shared pad 1
    tile j: 1, i: 1 -> thread
    compute
"""


@pytest.mark.every_second
@pytest.mark.parametrize("kind", [CupyArray, Tensor, Foreign])
@pytest.mark.parametrize("n", [1, 37, 1000])
def test_every_family_of_arrays(gpu, kind, n):
    kernel = andiron.compile(AXPY, target="cuda:sm_80")
    x, y = numbers(n), numbers(n) + 1
    z = kernel(*on(x, y, kind=kind))
    assert type(z) is kind
    np.testing.assert_array_equal(z.host, 2 * x + y)
    stream = {CupyArray: 4711, Tensor: 99, Foreign: 4711}[kind]
    launched = [x for x in fake_gpu.log(gpu) if x.startswith("launch")]
    assert len(launched) == 1
    assert launched[0].endswith(f"stream {stream}")


def test_out_is_written_and_returned(gpu):
    kernel = andiron.compile(AXPY, target="cuda:sm_80")
    x, y, z = on(numbers(50), numbers(50), np.zeros(50, "f4"))
    assert kernel(x, y, out=z) is z
    np.testing.assert_array_equal(z.host, 3 * x.host)
    assert kernel(x, y, out=y) is y  # read only at the index being written
    np.testing.assert_array_equal(y.host, 3 * x.host)
    wide = CupyArray(np.zeros((50, 2), "f4"))
    narrow = wide[:, 0]
    kernel(x, x, out=narrow)
    np.testing.assert_array_equal(wide.host[:, 0], 3 * x.host)
    assert not wide.host[:, 1].any()


def test_several_outputs_and_named_inputs(gpu):
    kernel = andiron.compile(ROWS, target="cuda:sm_80")
    x = numbers(13, 70)
    s, t = kernel(X=CupyArray(x))
    np.testing.assert_array_equal(s.host, x.sum(1))
    np.testing.assert_array_equal(t.host, (x * x).sum(1))


def test_workspaces_and_several_launches(gpu):
    kernel = andiron.compile(TALL, schedule="tall", target="cuda:sm_80")
    a, b = numbers(13, 150), numbers(150, 17)
    for _ in range(2):
        c = kernel(*on(a, b))
        np.testing.assert_array_equal(c.host, a @ b)
    launched = [x for x in fake_gpu.log(gpu) if x.startswith("launch")]
    assert len(launched) == 4
    assert launched[0].split()[3] == str(2 * 3 * 5)
    allocated = sys.modules["cupy"].allocated  # type: ignore[attr-defined]
    assert allocated == [allocated[0]] * 2
    assert allocated[0] % 256 == 0
    assert allocated[0] >= 13 * 17 * 5 * 4


def test_shared_memory_is_asked_for(gpu):
    kernel = andiron.compile(SHARED, schedule="tiled", target="cuda:sm_80")
    x = numbers(45, 37)
    y = kernel(CupyArray(x))
    np.testing.assert_array_equal(y.host, x.T)
    lines = fake_gpu.log(gpu)
    bytes_ = 32 * 33 * 4
    assert f"attribute 8 = {bytes_}" in lines
    assert lines[-1].endswith(f" grid 4 1 1 block 1024 1 1 shared {bytes_} stream 4711")
    assert lines.count("push") == lines.count("pop") == 1
    assert "load in context 1" in lines


def test_addresses_and_sizes_choose_the_program(gpu):
    """The one with vector accesses where all arguments begin at multiples of 16 bytes; else the other."""
    kernel = andiron.compile(AXPY + FOURS, schedule="fours", target="cuda:sm_80")
    assert kernel.program.instead is not None
    store = np.zeros(4096, "f4")
    start = -store.ctypes.data % 64 // 4
    for n, shift in ((64, 0), (64, 1), (64, 3), (63, 0), (64, 4)):
        x = store[start + shift : start + shift + n]
        y, z = store[start + 256 : start + 256 + n], store[start + 512 : start + 512 + n]
        x[...], y[...] = numbers(n), 1
        kernel(*on(x, y), out=CupyArray(z))
        np.testing.assert_array_equal(z, 2 * x + y)
        (line,) = (line for line in fake_gpu.log(gpu) if line.startswith("launch"))
        assert ("_any " in line) == bool(shift % 4), line
    even, odd = kernel._used.plans.values()
    assert set(even.program_calls) == {(), (4, 0, 0), (12, 0, 0)}
    assert set(odd.program_calls) == {()}


def test_nothing_to_do_launches_nothing(gpu):
    kernel = andiron.compile(AXPY, target="cuda:sm_80")
    z = kernel(*on(numbers(0), numbers(0)))
    assert z.shape == (0,)
    assert not [x for x in fake_gpu.log(gpu) if x.startswith("launch")]


def test_scalars_of_the_host(gpu):
    kernel = andiron.compile(SCALE, target="cuda:sm_80")
    x = numbers(9)
    for a in (3.0, np.float32(3), np.asarray(3, "f4")):
        np.testing.assert_array_equal(kernel(CupyArray(x), a).host, 3 * x)
        np.testing.assert_array_equal(kernel(Tensor(x), a).host, 3 * x)


def test_what_is_not_contiguous_is_copied_and_said(gpu):
    kernel = andiron.compile(AXPY, target="cuda:sm_80")
    wide = numbers(20, 2)
    for kind in (CupyArray, Tensor):
        z = kernel(kind(wide[:, 0]), kind(wide[:, 1]))
        np.testing.assert_array_equal(z.host, 2 * wide[:, 0] + wide[:, 1])
    assert any("not contiguous" in note for note in kernel.report.notes)


def test_sizes_are_checked_once_and_remembered(gpu, monkeypatch):
    kernel = andiron.compile(AXPY, target="cuda:sm_80")
    kernel(*on(numbers(5), numbers(5)))
    from andiron.runtime.gpu import kernel as module

    monkeypatch.setattr(module, "bind_sizes", None)  # would fail
    kernel(*on(numbers(5), numbers(5)))
    with pytest.raises(TypeError):
        kernel(*on(numbers(6), numbers(6)))


def test_many_threads_at_once(gpu, monkeypatch):
    """Each call has parameters of its own."""
    kernel = andiron.compile(AXPY, target="cuda:sm_80")
    kernel(*on(numbers(8), numbers(8)))
    (plan,) = kernel._used.plans.values()
    way = plan.program_calls[()]
    first, second = way.block(), way.block()
    assert first is not second
    assert first.values is not second.values
    results: list[Any] = []

    def work(i: int) -> None:
        x = np.full(8, i, "f4")
        for _ in range(50):
            results.append((kernel(*on(x, x)).host == 3 * i).all())

    # The shim behind the fake driver runs one kernel at a time.
    gate = threading.Lock()
    launch = gpu.launch
    monkeypatch.setattr(gpu, "launch", lambda *a: [gate.acquire(), launch(*a), gate.release()][1])
    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all(results)
    assert len(results) == 200


def test_a_thread_without_a_device(gpu):
    """The first launch fails where no context is current; on the right one it succeeds."""
    kernel = andiron.compile(AXPY, target="cuda:sm_80")
    x = numbers(5)
    kernel(*on(x, x))
    fake_gpu.log(gpu)
    gpu.library.fake_fail(201)
    np.testing.assert_array_equal(kernel(*on(x, x)).host, 3 * x)
    assert [line.split()[0] for line in fake_gpu.log(gpu)] == ["launch", "push", "launch", "pop"]
    gpu.library.fake_fail(719)
    with pytest.raises(InternalError, match=r"as the test asked \(719\)"):
        kernel(*on(x, x))


@pytest.mark.parametrize("absent", [None, "cupy"])
def test_the_command_line_runs_it(gpu, monkeypatch, tmp_path, capsys, absent):
    """Inputs are copied there and results back, by whichever library there is."""
    if absent:
        monkeypatch.setitem(sys.modules, absent, None)
    path = tmp_path / "axpy.sched"
    path.write_text(AXPY + FOURS)
    assert main(["run", str(path), "--target", "cuda:sm_80", "--size", "N=1001", "--repeat", "2"]) == 0
    said = capsys.readouterr().out
    assert "check     OK" in said
    assert "threads" not in said
    assert main(["bench", str(path), "--target", "cuda", "--size", "N=101", "--repeat", "2", "--all"]) == 0


# ------------------------------------------------------------ where arrays live


def test_no_target_follows_the_arrays(gpu):
    kernel = andiron.compile(AXPY)
    x = numbers(12)
    np.testing.assert_array_equal(kernel(x, x), 3 * x)
    assert not [line for line in fake_gpu.log(gpu) if line.startswith("launch")]
    z = kernel(CupyArray(x), CupyArray(x))
    np.testing.assert_array_equal(z.host, 3 * x)
    assert [line for line in fake_gpu.log(gpu) if line.startswith("launch")]
    assert kernel.target == "cpu"
    (other,) = kernel.request.elsewhere._kernels.values()  # type: ignore[union-attr]
    assert isinstance(other, DeviceKernel)
    assert other.target == "cuda:sm_80"  # what the fake says it is
    np.testing.assert_array_equal(kernel(x, x), 3 * x)


def test_the_gpu_at_hand_is_a_target(gpu):
    assert andiron.compile(AXPY, target="cuda").target == "cuda:sm_80"


def test_which_device_a_gpu_is():
    known = ["sm_75", "sm_80", "sm_86", "sm_90a", "sm_100a", "nvidia", "gfx90a"]
    assert nearest_device("sm_90", known) == "sm_90a"
    assert nearest_device("sm_80", known) == "sm_80"
    assert nearest_device("sm_87", known) == "sm_86"
    assert nearest_device("sm_103", known) == "sm_86"  # code for sm_100a is for that alone
    assert nearest_device("sm_61", known) is None
    assert nearest_device("gfx90a", known) == "gfx90a"
    assert nearest_device("gfx906", known) is None
    assert [amd_name(n) for n in (90010, 90402, 90500, 110000, 120001, 0)] == [
        "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201", "",
    ]  # fmt: skip


def test_which_code_a_gpu_takes():
    assert code_format("sm_80", "sm_80") == code_format("sm_80", "sm_86") == "cubin"
    assert code_format("sm_80", "sm_90") == code_format("sm_86", "sm_120") == "ptx"
    assert code_format("sm_90a", "sm_90") == "cubin"
    assert code_format("sm_90a", "sm_100") is code_format("sm_86", "sm_80") is None
    assert code_format("gfx90a", "gfx90a") == "hsaco"
    assert code_format("gfx90a", "gfx942") is None


def test_candidates_are_measured(gpu, monkeypatch, tmp_path):
    """`tune` as on a CPU; the worker is in this process, for the fake driver is."""
    monkeypatch.setenv("ANDIRON_CACHE", str(tmp_path / "cache"))

    class Here:
        alive = True

        def __init__(self, prepare):
            self.worker = Worker()
            prepare(self.ask)

        def ask(self, what, *arguments, limit=0.0):
            return getattr(self.worker, what)(*arguments)

        def close(self):
            pass

    monkeypatch.setattr(trial_runs, "WorkerClient", Here)
    monkeypatch.setattr(search, "winner", lambda trials: [t for t in trials if not t.rejected][-1])
    monkeypatch.setattr(racing, "ROUNDS", 2)
    text = TALL.partition("schedule")[0]
    kernel = andiron.compile(text, target="cuda:sm_80", M=13, N=17, K=40)
    a, b = numbers(13, 40), numbers(40, 17)
    found = kernel.tune(*on(a, b), top=2)
    assert len(found.trials) == 2
    assert not any(t.rejected for t in found.trials)
    assert all(t.predicted for t in found.trials)
    rows = list(open_database().rows())
    assert {(m.fingerprint, m.task.target, m.schedule) for m in rows} == {
        ("Fake GPU", "cuda:sm_80", t.schedule) for t in found.trials
    }
    again = andiron.compile(text, target="cuda:sm_80", M=13, N=17, K=40)
    assert again.schedule == found.schedule == kernel.schedule
    np.testing.assert_array_equal(again(*on(a, b)).host, a @ b)
