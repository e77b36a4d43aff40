"""Calls that a kernel for a GPU refuses: the class and the reason of each error."""

from __future__ import annotations

import andiron
import numpy as np
import pytest
from andiron.dsl.errors.run import ArgumentCount, ArgumentKind, ArgumentShape, ArgumentType, DeviceMismatch, OutputOverlap
from andiron.dsl.errors.target import NoDevice

from ...support.gpu import fake_gpu
from ...support.gpu.fake_gpu import CupyArray, Tensor, numbers, on

pytestmark = pytest.mark.skipif(fake_gpu.CXX is None, reason="no g++")
AXPY = "op axpy[N](X: f32[N], Y: f32[N]) -> (Z: f32[N]):\n    Z[i] = 2.0 * X[i] + Y[i]\n"
ROWS = """
op rows[M, N](X: f32[M, N]) -> (S: f32[M], T: f32[M]):
    S[i] = sum(j) X[i, j]
    T[i] = max(j) X[i, j]
"""


@pytest.fixture
def axpy(gpu):
    return andiron.compile(AXPY, target="cuda:sm_80")


def test_arrays_of_the_host(axpy):
    x = numbers(5)
    for given in ((x, x), (CupyArray(x), x), (x, CupyArray(x)), (Tensor(x, -1), Tensor(x, -1)), ([1.0], [1.0])):
        with pytest.raises(DeviceMismatch, match="runs on a GPU"):
            axpy(*given)


def test_arrays_of_another_gpu(axpy):
    x = numbers(5)
    with pytest.raises(DeviceMismatch, match="Y is in GPU 1"):
        axpy(CupyArray(x), CupyArray(x, 1))


def test_wrong_types_and_shapes(axpy):
    x = numbers(5)
    with pytest.raises(ArgumentType, match="Y has elements of type float64"):
        axpy(*on(x, x.astype("f8")))
    with pytest.raises(ArgumentShape):
        axpy(*on(x, numbers(6)))
    with pytest.raises(ArgumentCount):
        axpy(CupyArray(x))
    with pytest.raises(ArgumentType, match="out `Z` has elements"):
        axpy(*on(x, x), out=CupyArray(x.astype("f8")))
    with pytest.raises(ArgumentType, match="out `Z` is a ndarray"):
        axpy(*on(x, x), out=x)
    with pytest.raises(ArgumentShape, match="out `Z` has shape"):
        axpy(*on(x, x), out=CupyArray(numbers(6)))
    with pytest.raises(DeviceMismatch, match="another device"):
        axpy(*on(x, x), out=CupyArray(numbers(5), 1))
    with pytest.raises(ArgumentCount):
        axpy(*on(x, x), out=(CupyArray(x), CupyArray(x)))
    with pytest.raises(ArgumentKind, match="gradient"):
        axpy(Tensor(x, requires_grad=True), Tensor(x))
    with pytest.raises(ArgumentKind, match="no arrays of f8"):
        andiron.compile("op f[N](X: f8e4m3[N]) -> (Y: f32[N]):\n    Y[i] = f32(X[i])\n", target="cuda:sm_80")(CupyArray(x))


def test_outputs_that_overlap(gpu, axpy):
    both = CupyArray(numbers(12))
    with pytest.raises(OutputOverlap, match="only in part"):
        axpy(both[:10], CupyArray(numbers(10)), out=both[2:])
    rows = andiron.compile(ROWS, target="cuda:sm_80")
    same = CupyArray(np.zeros(3, "f4"))
    with pytest.raises(OutputOverlap, match=r"shares memory with out"):
        rows(CupyArray(numbers(3, 4)), out=(same, same))


@pytest.mark.parametrize("kind", [CupyArray, Tensor])
def test_an_output_whose_elements_share_memory(gpu, axpy, kind):
    x, apart = numbers(5), np.zeros(10, "f4")
    for shared in (np.broadcast_to(np.zeros(1, "f4"), 5), np.lib.stride_tricks.as_strided(np.zeros(6, "f4"), (5,), (2,))):
        with pytest.raises(OutputOverlap, match="elements of out `Z` share memory"):
            axpy(kind(x), kind(x), out=kind(shared))
    axpy(kind(x), kind(x), out=kind(apart[::2]))
    assert apart[::2].any()
    assert not apart[1::2].any()


def test_a_gpu_that_cannot_run_it(gpu):
    with pytest.raises(DeviceMismatch, match="this GPU is sm_80"):
        andiron.compile(AXPY, target="cuda:sm_90a")(*on(numbers(3), numbers(3)))


def test_no_gpu():
    with pytest.raises(NoDevice) as caught:
        andiron.compile(AXPY, target="hip:gfx90a")(numbers(3), numbers(3))
    assert "emulate" in str(caught.value)
    with pytest.raises(NoDevice):
        andiron.compile(AXPY, target="hip")


def test_scalars_of_the_host_that_the_type_cannot_hold(gpu):
    kernel = andiron.compile("op scale[N](X: f32[N], a: f32) -> (Y: f32[N]):\n    Y[i] = a * X[i]\n", target="cuda:sm_80")
    with pytest.raises(ArgumentType, match="a is 1e\\+300, which f32 cannot hold"):
        kernel(CupyArray(numbers(5)), 1e300)
    for a in (np.float64(3), np.asarray(3)):
        with pytest.raises(ArgumentType, match="a has elements of type"):
            kernel(CupyArray(numbers(5)), a)
