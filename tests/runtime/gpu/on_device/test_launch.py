"""On a GPU: arrays of CuPy, PyTorch and JAX, streams, graphs, threads, libraries built ahead of time."""

from __future__ import annotations

import ctypes
import threading

import andiron
import numpy as np
import pytest
from andiron.runtime.gpu import nvcc
from andiron.runtime.gpu.arch import code_format
from andiron.tools.cli import main

AXPY = "op axpy[N](X: f32[N], Y: f32[N]) -> (Z: f32[N]):\n    Z[i] = 2.0 * X[i] + Y[i]\n"
HALF = "op half[N](X: f16[N]) -> (Y: f16[N]):\n    Y[i] = X[i] * 0.5\n"
BRAIN = "op brain[N](X: bf16[N], E: f8e4m3[N]) -> (Y: bf16[N]):\n    Y[i] = bf16(f32(X[i]) + f32(E[i]))\n"
SUMS = "op sums[M, N](X: f32[M, N]) -> (S: f32[N]):\n    S[j] = sum(i) X[i, j]\n"
SPLIT = SUMS + "schedule split for sums:\n    tile i: 64 -> block by workspace\n    tile j: 32 -> block\n    auto\n"


@pytest.fixture
def cupy(gpu):
    return pytest.importorskip("cupy")


@pytest.fixture
def torch(gpu):
    module = pytest.importorskip("torch")
    if not module.cuda.is_available():
        pytest.skip("this PyTorch has no GPU")
    return module


def test_cupy(gpu, cupy):
    kernel = andiron.compile(AXPY)  # where the arrays live
    x, y = cupy.arange(1001, dtype="f4"), cupy.ones(1001, "f4")
    z = kernel(x, y)
    assert isinstance(z, cupy.ndarray)
    np.testing.assert_array_equal(cupy.asnumpy(z), 2 * np.arange(1001) + 1)
    assert kernel(x, y, out=y) is y
    np.testing.assert_array_equal(cupy.asnumpy(y), 2 * np.arange(1001) + 1)
    half = andiron.compile(HALF, target=gpu.family)
    np.testing.assert_array_equal(cupy.asnumpy(half(x.astype("f2"))), (np.arange(1001).astype("f2") * np.float16(0.5)))


def test_torch(gpu, torch):
    kernel = andiron.compile(AXPY)
    x, y = torch.arange(1001.0, device="cuda"), torch.ones(1001, device="cuda")
    z = kernel(x, y)
    assert isinstance(z, torch.Tensor)
    assert torch.equal(z, 2 * x + y)
    assert torch.equal(kernel(x[1::2], y[1::2]), (2 * x + y)[1::2])
    assert torch.equal(kernel(x[1:], y[1:]), (2 * x + y)[1:])  # not at a multiple of what a vector takes
    brain = andiron.compile(BRAIN, target=gpu.family)
    b, e = torch.randn(77, device="cuda").bfloat16(), torch.randn(77, device="cuda").to(torch.float8_e4m3fn)
    assert torch.equal(brain(b, e), (b.float() + e.float()).bfloat16())


def test_jax(gpu, cupy):
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("this JAX has no GPU")
    kernel = andiron.compile(AXPY)
    x = jax.numpy.arange(1001.0, dtype="float32")
    for _ in range(20):
        x = kernel(x, x) / 3
    assert type(x).__module__.startswith("jax")
    np.testing.assert_allclose(np.asarray(x), np.arange(1001), rtol=1e-5)


def test_the_current_stream(gpu, torch):
    """Work on a stream is not waited for by another: what is launched comes after what is on it already."""
    kernel = andiron.compile(AXPY, target=gpu.family)
    big = torch.randn(4096, 4096, device="cuda")
    kernel(big.view(-1), big.view(-1))
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        x = big
        for _ in range(30):
            x = (x @ big) * 1e-3
        flat = x.reshape(-1)
        z = kernel(flat, flat)
    side.synchronize()
    assert torch.equal(z, 3 * flat) or torch.allclose(z, 3 * flat, equal_nan=True)


def test_a_graph_of_torch(gpu, torch):
    kernel = andiron.compile(SPLIT, schedule="split", target=gpu.family)
    x = torch.randn(1000, 333, device="cuda")
    kernel(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = kernel(x)
    for seed in range(3):
        torch.manual_seed(seed)
        x.copy_(torch.randn(1000, 333, device="cuda"))
        graph.replay()
        torch.testing.assert_close(y, x.sum(0), rtol=1e-3, atol=1e-3)


def test_a_graph_of_cupy(gpu, cupy):
    kernel = andiron.compile(AXPY, target=gpu.family)
    x, y, z = cupy.arange(1000, dtype="f4"), cupy.ones(1000, "f4"), cupy.zeros(1000, "f4")
    kernel(x, y, out=z)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        kernel(x, y, out=z)
        graph = stream.end_capture()
        z.fill(0)
        graph.launch(stream)
    stream.synchronize()
    np.testing.assert_array_equal(cupy.asnumpy(z), 2 * np.arange(1000) + 1)


def test_threads_of_their_own(gpu, torch):
    """A thread that has not used the GPU has no current device."""
    kernel = andiron.compile(AXPY, target=gpu.family)
    x = torch.arange(1000.0, device="cuda")
    good = []

    def work() -> None:
        good.append(all(torch.equal(kernel(x, x), 3 * x) for _ in range(20)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert good == [True] * 4


def test_many_blocks_and_much_memory(gpu, torch):
    """Addresses beyond 32 bits."""
    n = (1 << 31) + 5
    if torch.cuda.mem_get_info()[0] < 4 * n * 1.2:
        pytest.skip("too little memory")
    kernel = andiron.compile("op neg[N](X: i8[N]) -> (Y: i8[N]):\n    Y[i] = -X[i]\n", target=gpu.family)
    x = torch.ones(n, dtype=torch.int8, device="cuda")
    y = kernel(x)
    assert int(y[-1]) == -1
    assert int(y.sum()) == -n


def test_a_library_built_ahead(gpu, torch, tmp_path, monkeypatch):
    if gpu.family == "cuda" and nvcc.find_nvcc() is None:
        pytest.skip("no nvcc")
    device = andiron.compile(AXPY, target=gpu.family).program.device.name
    assert code_format(device, gpu.arch)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "axpy.sched").write_text(AXPY)
    assert main(["build", "axpy.sched", "--target", f"{gpu.family}:{device}", "--format", "lib", "-o", "axpy.so"]) == 0
    library = ctypes.CDLL(str(tmp_path / "axpy.so"))
    x = torch.arange(1001.0, device="cuda")
    y, z = torch.ones_like(x), torch.zeros_like(x)
    pointers = (ctypes.c_void_p * 4)(x.data_ptr(), y.data_ptr(), z.data_ptr(), None)
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    assert library.andiron_axpy(pointers, (ctypes.c_int64 * 1)(1001), stream) == 0
    assert torch.equal(z, 2 * x + y)


def test_the_command_line(gpu, tmp_path, capsys):
    (tmp_path / "axpy.sched").write_text(AXPY)
    assert main(["run", str(tmp_path / "axpy.sched"), "--target", gpu.family, "--size", "N=100001", "--repeat", "3"]) == 0
    assert "check     OK" in capsys.readouterr().out
