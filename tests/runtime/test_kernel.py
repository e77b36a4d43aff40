"""Calling a kernel: arguments of every family, sizes, and the error each mistake deserves."""

import threading

import andiron
import numpy as np
import pytest
from andiron.dsl.errors.run import (
    ArgumentCount,
    ArgumentKind,
    ArgumentShape,
    ArgumentType,
    DeviceMismatch,
    SizeRefused,
)
from andiron.dsl.index.expr import Var
from andiron.runtime.kernel import Kernel

from ..support.c_kernels import AXPY, AXPY_BODY, GEMM, GEMM_BODY
from ..support.sample_arrays import Foreign, counted, ones


@pytest.mark.parametrize(("m", "n", "k"), [(3, 4, 5), (1, 1, 1), (0, 4, 5), (3, 4, 0), (0, 0, 0)])
def test_new_results(gemm, m, n, k):
    a, b = counted(m, k), counted(k, n)
    c = gemm(a, b)
    assert c.dtype == np.float32
    np.testing.assert_array_equal(c, a @ b)


def test_inputs_by_name(gemm):
    a, b = counted(3, 5), counted(5, 4)
    np.testing.assert_array_equal(gemm(B=b, A=a), a @ b)
    np.testing.assert_array_equal(gemm(a, B=b), a @ b)


def test_strided_reversed_broadcast_and_unaligned_inputs_are_copied_and_noted(gemm):
    a, b = counted(6, 10), counted(5, 4)
    np.testing.assert_array_equal(gemm(a[::2, ::2], b), a[::2, ::2] @ b)
    assert "A was not contiguous" in "".join(gemm.report.notes)
    np.testing.assert_array_equal(gemm(a.T[:4, :5], b[::-1]), a.T[:4, :5] @ b[::-1])
    np.testing.assert_array_equal(gemm(np.broadcast_to(np.float32(2), (3, 5)), b), np.full((3, 5), 2, np.float32) @ b)
    odd = np.frombuffer(b"x" + counted(3, 5).tobytes(), np.uint8)[1:].view(np.float32).reshape(3, 5)
    assert not odd.flags.aligned
    np.testing.assert_array_equal(gemm(odd, b), counted(3, 5) @ b)
    swapped = counted(3, 5).astype(">f4")
    np.testing.assert_array_equal(gemm(swapped, b), counted(3, 5) @ b)


def test_results_come_in_the_family_of_the_arguments(gemm):
    a, b = counted(3, 5), counted(5, 4)
    c = gemm(a, Foreign(b))
    assert isinstance(c, Foreign)
    np.testing.assert_array_equal(c.array, a @ b)


def test_only_an_array_protocol(gemm):
    class Frame:
        def __init__(self, array):
            self.array = array

        def __array__(self, dtype=None, copy=None):
            return self.array

    a, b = counted(3, 5), counted(5, 4)
    c = gemm(Frame(a), Frame(b))
    assert type(c) is np.ndarray
    np.testing.assert_array_equal(c, a @ b)


def test_a_subclass_is_read_as_the_array_it_is(gemm):
    a, b = counted(3, 5), counted(5, 4)
    np.testing.assert_array_equal(gemm(a.view(np.recarray), b), a @ b)
    with pytest.raises(ArgumentKind, match="masked"):
        gemm(np.ma.masked_array(a), b)


def test_lists_and_other_things_are_refused(gemm):
    with pytest.raises(ArgumentKind, match=r"A is a list, not an array; expected A: f32\[M, K\]"):
        gemm([[1.0]], ones(1, 1))
    with pytest.raises(ArgumentKind, match="B is a str"):
        gemm(ones(1, 1), "text")
    with pytest.raises(ArgumentKind, match="B is a float"):
        gemm(ones(1, 1), 1.0)


def test_memory_of_another_device_is_refused(gemm):
    with pytest.raises(DeviceMismatch, match="A lives on another device"):
        gemm(Foreign(ones(1, 1), device=(2, 0)), ones(1, 1))


def test_a_library_that_fails_to_hand_over_says_why(gemm):
    class Stubborn(Foreign):
        def __dlpack__(self, **options):
            raise RuntimeError("requires grad: use detach()")

    with pytest.raises(ArgumentKind, match=r"use detach\(\)"):
        gemm(Stubborn(ones(1, 1)), ones(1, 1))


def test_the_wrong_type(gemm):
    with pytest.raises(ArgumentType, match=r"B has elements of type f64; expected B: f32\[K, N\]") as caught:
        gemm(ones(2, 2), np.ones((2, 2)))
    assert "B.astype(numpy.float32)" in str(caught.value)


def test_the_wrong_rank_shape_and_size(gemm, fakes):
    with pytest.raises(ArgumentShape, match="A has shape \\(2,\\); expected 2 axes"):
        gemm(ones(2), ones(2, 2))
    with pytest.raises(ArgumentShape, match=r"B has shape \(4, 2\); expected B: f32\[K, N\] with K=3 from A"):
        gemm(ones(2, 3), ones(4, 2))
    fixed = fakes.kernel(GEMM, GEMM_BODY, sizes={"M": 8})
    with pytest.raises(ArgumentShape, match=r"A has shape \(2, 3\); expected A: f32\[M, K\] with M=8 from compile time"):
        fixed(ones(2, 3), ones(3, 2))


def test_the_wrong_number_of_arguments(gemm):
    with pytest.raises(ArgumentCount, match="B not given; gemm takes 2 arrays"):
        gemm(ones(1, 1))
    with pytest.raises(ArgumentCount, match="3 were given; gemm takes 2 arrays"):
        gemm(ones(1, 1), ones(1, 1), ones(1, 1))
    with pytest.raises(ArgumentCount, match="A is given twice"):
        gemm(ones(1, 1), A=ones(1, 1))
    with pytest.raises(ArgumentCount, match="fixed when compiling"):
        gemm(ones(1, 1), ones(1, 1), M=4)
    with pytest.raises(ArgumentCount, match="no input `X`"):
        gemm(ones(1, 1), ones(1, 1), X=4)


def test_an_expression_as_a_size(fakes):
    k = fakes.kernel(
        "op pairs[N](X: f32[2*N], Y: f32[N]) -> (Z: f32[N]):\n    Z[i] = X[2*i + 1] + Y[i]\n",
        "for (int64_t i = 0; i < dims[0]; ++i) ((float*)args[2])[i] = ((float*)args[0])[2 * i + 1] + ((float*)args[1])[i];",
    )
    np.testing.assert_array_equal(k(counted(6), ones(3)), [2, 4, 6])
    with pytest.raises(ArgumentShape, match=r"X has shape \(5,\); expected X: f32\[2\*N\] with N=3 from Y"):
        k(counted(5), ones(3))


def test_rank_zero_takes_numbers(fakes):
    k = fakes.kernel(
        "op scale[N](a: f32[], X: f32[N]) -> (Y: f32[N]):\n    Y[i] = a[] * X[i]\n",
        "for (int64_t i = 0; i < dims[0]; ++i) ((float*)args[2])[i] = *(float*)args[0] * ((float*)args[1])[i];",
    )
    np.testing.assert_array_equal(k(3, counted(3)), [0, 3, 6])
    np.testing.assert_array_equal(k(np.float32(3), counted(3)), [0, 3, 6])
    np.testing.assert_array_equal(k(np.array(3, np.float32), counted(3)), [0, 3, 6])


def test_sizes_that_the_op_excludes(fakes):
    text = "op pool[N](X: f32[N]) -> (Y: f32[P]) where P = N - 3:\n    Y[i] = X[i + 3]\n"
    k = fakes.kernel(text, "")
    assert k(ones(3)).shape == (0,)
    with pytest.raises(SizeRefused, match="P = N - 3 is -1"):
        k(ones(2))


def test_sizes_beyond_memory(fakes):
    k = fakes.kernel("op outer[M, N](X: f32[M], Y: f32[N]) -> (Z: f32[M, N]):\n    Z[i, j] = X[i] * Y[j]\n", "")
    huge = np.broadcast_to(np.float32(1), (1 << 40,))
    with pytest.raises(SizeRefused, match="no memory for a contiguous copy of X"):
        k(huge, ones(2))


def test_the_first_variant_whose_conditions_hold(fakes):
    op = fakes.op(AXPY)
    n = Var("N")
    small = fakes.variant(op, "((float*)args[2])[0] = 1;", conditions=[(4 - n, "N <= 4")], name="small")
    rest = fakes.variant(op, "((float*)args[2])[0] = 2;", name="rest")
    k = Kernel(op, [small, rest])
    assert [float(k(ones(i), ones(i))[0]) for i in (4, 5, 1)] == [1, 2, 1]
    with pytest.raises(SizeRefused, match="`N <= 4` does not hold"):
        Kernel(op, [small])(ones(5), ones(5))


def test_status_of_the_kernel_itself(fakes):
    with pytest.raises(SizeRefused, match="no memory"):
        fakes.kernel(AXPY, "return 1;")(ones(2), ones(2))


def test_arguments_in_the_order_of_the_text(fakes):
    k = fakes.kernel(
        AXPY,
        AXPY_BODY.replace(
            "x = (const float*)args[0], *y = (const float*)args[1]", "x = (const float*)args[1], *y = (const float*)args[0]"
        ),
        buffers=["Y", "X", "Z"],
    )
    np.testing.assert_array_equal(k(counted(3), ones(3)), [1, 3, 5])


def test_threads(fakes, monkeypatch):
    text, body = "op which[N](X: i32[N]) -> (Y: i32[N]):\n    Y[i] = X[i]\n", "((int*)args[1])[0] = threads;"
    x = np.zeros(1, np.int32)
    assert fakes.kernel(text, body, threads=3)(x)[0] == 3
    assert fakes.kernel(text, body)(x, threads=2)[0] == 2
    monkeypatch.setenv("ANDIRON_THREADS", "7")
    assert fakes.kernel(text, body)(x)[0] == 7
    for wrong in (0, -1, 1.5, "many"):
        with pytest.raises(ArgumentKind, match="threads"):
            fakes.kernel(text, body)(x, threads=wrong)


def test_many_threads_call_one_kernel(gemm):
    a = [counted(8, 8) + i for i in range(4)]
    wrong = []

    def work(i):
        for _ in range(100):
            if not np.array_equal(gemm(a[i], a[0]), a[i] @ a[0]):
                wrong.append(i)

    crowd = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in crowd:
        t.start()
    for t in crowd:
        t.join()
    assert not wrong


def test_text_and_report_need_no_compiler(fakes, monkeypatch):
    monkeypatch.setenv("ANDIRON_CXX", "/nowhere")
    k = fakes.kernel(GEMM, GEMM_BODY, sizes={"M": 2, "N": 3, "K": 4}, target="cpu:neon")
    assert "extern" in k.source
    assert k.schedule == "schedule k"
    assert k.report.flops == 2 * 2 * 3 * 4
    assert k.report.bytes == 4 * (8 + 12 + 6)
    assert "not built yet" in str(k.report)
    assert "gemm(A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]) for cpu:neon M=2" in repr(k)


def test_a_target_this_machine_cannot_execute_is_refused_at_the_call(fakes):
    import platform

    other = "cpu:avx2" if platform.machine() in ("aarch64", "arm64") else "cpu:neon"
    with pytest.raises(DeviceMismatch, match="cannot execute"):
        fakes.kernel(AXPY, AXPY_BODY, target=other)(ones(2), ones(2))


def test_the_report_names_the_compiler_once_built(axpy):
    axpy(ones(2), ones(2))
    assert axpy.report.compiler
    assert axpy.report.as_dict()["op"] == "axpy"


def test_half_types(fakes):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    body = "for (int64_t i = 0; i < dims[0]; ++i) ((short*)args[1])[i] = ((short*)args[0])[i];"
    k = fakes.kernel("op same[N](X: bf16[N]) -> (Y: bf16[N]):\n    Y[i] = X[i]\n", body)
    x = np.array([1.5, -2], ml_dtypes.bfloat16)
    y = k(x)
    assert y.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(y, x)
    with pytest.raises(ArgumentType, match="bf16"):
        k(x.view(np.uint16))


def test_an_output_for_which_there_is_no_memory():
    outer = andiron.op("op outer[M, N](a: f32[M], b: f32[N]) -> (Y: f32[M, N]):\n    Y[i, j] = a[i] * b[j]\n")
    with pytest.raises(SizeRefused, match="no memory for an output of shape") as caught:
        outer(np.zeros(1 << 24, "f4"), np.zeros(1 << 24, "f4"))
    assert caught.value.help
