"""`out` of a call: where results may be written, and what is refused."""

import andiron
import numpy as np
import pytest
from andiron.dsl.errors.run import (
    ArgumentCount,
    ArgumentShape,
    ArgumentType,
    OutputOverlap,
    OutputReadOnly,
)

from ..support.sample_arrays import counted, ones


def test_out_is_written_and_returned(gemm):
    a, b, c = counted(3, 5), counted(5, 4), ones(3, 4)
    assert gemm(a, b, out=c) is c
    np.testing.assert_array_equal(c, a @ b)
    assert gemm(a, b, out=(c,))[0] is c


def test_strided_out(gemm):
    a, b, c = counted(3, 5), counted(5, 4), np.zeros((6, 8), np.float32)
    view = c[::2, ::2]
    assert gemm(a, b, out=view) is view
    np.testing.assert_array_equal(c[::2, ::2], a @ b)
    assert c[1::2].sum() == 0


def test_out_of_the_wrong_kind(gemm):
    a, b = ones(2, 3), ones(3, 2)
    with pytest.raises(ArgumentShape, match="out `C` has shape"):
        gemm(a, b, out=ones(2, 3))
    with pytest.raises(ArgumentType):
        gemm(a, b, out=np.ones((2, 2)))
    with pytest.raises(ArgumentCount, match="2 arrays; gemm has 1 output"):
        gemm(a, b, out=(ones(2, 2), ones(2, 2)))
    c = ones(2, 2)
    c.flags.writeable = False
    with pytest.raises(OutputReadOnly) as refused:
        gemm(a, b, out=c)
    assert "leave `out` out" in (refused.value.help or "")
    with pytest.raises(ArgumentType, match="byte order"):
        gemm(a, b, out=ones(2, 2).astype(">f4"))


def test_out_may_be_an_input_read_where_it_is_written(axpy, gemm):
    x, y = counted(10), ones(10)
    assert axpy(x, y, out=y) is y
    np.testing.assert_array_equal(y, 2 * counted(10) + 1)
    a = counted(4, 4)
    with pytest.raises(OutputOverlap, match="reads A at other places"):
        gemm(a, ones(4, 4), out=a)


def test_out_that_overlaps_itself_is_refused():
    k = andiron.compile("op double[M, N](A: f32[M, N]) -> (C: f32[M, N]):\n    C[m, n] = 2.0 * A[m, n]\n")
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    room = np.zeros(32, np.float32)
    for strides in ((0, 4), (8, 4), (4, 8)):
        with pytest.raises(OutputOverlap, match="elements of out `C` share memory"):
            k(a, out=np.lib.stride_tricks.as_strided(room, (3, 4), strides))
    for strides in ((4, 12), (40, 8)):
        out = np.lib.stride_tricks.as_strided(room, (3, 4), strides)
        assert k(a, out=out) is out
        np.testing.assert_array_equal(out, 2 * a)
    nothing = np.lib.stride_tricks.as_strided(room, (0, 4), (0, 0))
    assert k(a[:0], out=nothing) is nothing


def test_out_that_overlaps_in_part_is_refused(axpy):
    memory = counted(20)
    with pytest.raises(OutputOverlap, match="only in part"):
        axpy(memory[:10], ones(10), out=memory[5:15])
    axpy(memory[:10], ones(10), out=memory[10:])
    np.testing.assert_array_equal(memory[10:], 2 * counted(10) + 1)
    # A strided input is copied first, so nothing can be overwritten under it.
    memory = counted(20)
    axpy(memory[::2], ones(10), out=memory[:10])
    np.testing.assert_array_equal(memory[:10], 2 * counted(20)[::2] + 1)


def test_two_outputs_may_not_share_memory(fakes):
    k = fakes.kernel(
        "op two[N](X: f32[N]) -> (Y: f32[N], Z: f32[N]):\n    Y[i] = X[i]\n    Z[i] = X[i] + 1.0\n",
        "for (int64_t i = 0; i < dims[0]; ++i) { ((float*)args[1])[i] = ((float*)args[0])[i];"
        " ((float*)args[2])[i] = ((float*)args[0])[i] + 1; }",
    )
    y, z = k(counted(4))
    assert (y[3], z[3]) == (3, 4)
    memory = ones(6)
    with pytest.raises(OutputOverlap) as refused:
        k(counted(4), out=(memory[:4], memory[2:]))
    assert refused.value.help == "pass arrays that share no memory"
    assert k(counted(4), out=(memory[:4], ones(4)))[0] is not None
    x = counted(4)
    with pytest.raises(OutputOverlap):
        k(x, out=(x, ones(4)))
