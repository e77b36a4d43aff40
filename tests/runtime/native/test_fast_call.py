"""Calls like an earlier one: made in C++, with the same results, and the same refusals."""

import gc
import sys
import threading

import andiron
import numpy as np
import pytest
from andiron.dsl.errors.run import ArgumentKind, ArgumentShape, ArgumentType, OutputOverlap, OutputReadOnly
from andiron.runtime.native import fast_call as module
from andiron.runtime.native.fast_call import fast_caller

SCALE = "op scale[N](x: f32[N]) -> (y: f32[N]):\n    y[i] = x[i] * 2.0\n"
SHIFT = "op shift[N](x: f32[N]) -> (y: f32[N]):\n    y[i] = x[i - 1 else 0]\n"
TWO = "op two[M, N](x: f32[M, N]) -> (s: f32[M], t: f32[N]):\n    s[i] = sum(j) x[i, j]\n    t[j] = sum(i) x[i, j]\n"


class Own(np.ndarray):
    """Somebody's class of arrays."""


@pytest.fixture(autouse=True)
def _has_one():
    if fast_caller() is None:
        pytest.skip("no calls in C++ here: another interpreter than CPython, or no compiler")


def at_length(kernel, monkeypatch):
    """How many calls from now on took all steps, in a list."""
    seen = []
    whole = kernel._slow_call
    monkeypatch.setattr(kernel, "_slow_call", lambda *a: seen.append(a) or whole(*a))
    return seen


def test_only_the_first_call_of_a_shape_takes_all_steps(monkeypatch):
    k = andiron.compile(SCALE, threads=1)
    steps = at_length(k, monkeypatch)
    x, z = np.arange(5, dtype=np.float32), np.arange(9, dtype=np.float32)
    out = np.empty_like(x)
    for _ in range(3):
        np.testing.assert_array_equal(k(x), 2 * x)
        np.testing.assert_array_equal(k(z), 2 * z)
        assert k(x, out=out) is out
        np.testing.assert_array_equal(out, 2 * x)
        np.testing.assert_array_equal(k(x, threads=2), 2 * x)
    assert len(steps) == 2


def test_several_results_are_a_tuple_and_a_tuple_is_written(monkeypatch):
    k = andiron.compile(TWO, threads=1)
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    first = k(x)
    steps = at_length(k, monkeypatch)
    again = k(x)
    given = (np.empty(3, np.float32), np.empty(4, np.float32))
    assert k(x, out=given) is given
    for got in (first, again, given):
        assert type(got) is tuple
        np.testing.assert_array_equal(got[0], x.sum(1))
        np.testing.assert_array_equal(got[1], x.sum(0))
    assert not steps
    same = np.empty(4, np.float32)
    with pytest.raises(OutputOverlap):
        k(x, out=(same[:3], same))


def test_what_differs_is_refused_as_at_the_first_call():
    k = andiron.compile(SHIFT, threads=1)
    room = np.zeros(16, np.float32)
    x, y = room[:8], room[8:]
    k(x, out=y)
    with pytest.raises(ArgumentType):
        k(x.astype(np.float64))
    with pytest.raises(ArgumentShape):
        k(x.reshape(2, 4))
    with pytest.raises(ArgumentShape):
        k(x, out=np.empty(9, np.float32))
    for overlapping in (room[7:15], x, room[1:9]):
        with pytest.raises(OutputOverlap):
            k(x, out=overlapping)
    y.flags.writeable = False
    with pytest.raises(OutputReadOnly):
        k(x, out=y)


def test_strides_and_odd_addresses_go_the_long_way(monkeypatch):
    k = andiron.compile(SCALE, threads=1)
    want = np.arange(8, dtype=np.float32)
    k(want)
    steps = at_length(k, monkeypatch)
    odd = np.zeros(33, np.uint8)[1:].view(np.float32)
    odd[:] = want
    assert not odd.flags.aligned
    for x in (np.repeat(want, 2)[::2], odd, want.astype(">f4"), want.view(Own)):
        np.testing.assert_array_equal(k(x), 2 * want)
    strided = np.zeros(16, np.float32)[::2]
    k(want, out=strided)
    np.testing.assert_array_equal(strided, 2 * want)
    assert len(steps) == 5


def test_in_place_where_the_op_allows_it(monkeypatch):
    k = andiron.compile(SCALE, threads=1)
    x = np.arange(8, dtype=np.float32)
    k(x)
    steps = at_length(k, monkeypatch)
    assert k(x, out=x) is x
    np.testing.assert_array_equal(x, 2 * np.arange(8))
    assert not steps


def test_shapes_that_share_a_slot_stay_apart():
    k = andiron.compile(SCALE, threads=1)
    sizes = range(200)  # more than there are slots
    for _ in range(2):
        for n in sizes:
            x = np.arange(n, dtype=np.float32)
            np.testing.assert_array_equal(k(x), 2 * x)


def test_references_are_given_back():
    k = andiron.compile(TWO, threads=1)
    x = np.ones((3, 4), np.float32)
    out = (np.empty(3, np.float32), np.empty(4, np.float32))
    k(x)
    k(x, out=out)
    assert k._used.caller is not None
    (entry,) = filter(None, k._used.caller._kept)
    counted = (x, out, *out, None, x.dtype, np.empty, entry)
    gc.collect()
    before = [sys.getrefcount(o) for o in counted]
    for _ in range(1000):
        k(x)
        k(x, out=out)
    assert all(abs(sys.getrefcount(o) - n) < 100 for o, n in zip(counted, before, strict=True))


def test_an_array_that_cannot_be_made_is_the_usual_error(monkeypatch):
    k = andiron.compile(SCALE, threads=1)
    x, real, made = np.ones(4, np.float32), np.empty, []

    def one_more(*args):
        if made:
            raise MemoryError("none left")
        made.append(args)
        return real(*args)

    monkeypatch.setattr(np, "empty", one_more)
    k(x)
    steps = at_length(k, monkeypatch)
    with pytest.raises(MemoryError):
        k(x)
    assert not steps


def test_threads_call_at_once():
    k = andiron.compile(SCALE, threads=1)
    wrong = []

    def work(n):
        x = np.full(n, n, np.float32)
        for _ in range(300):
            if not (k(x) == 2 * n).all():
                wrong.append(n)

    workers = [threading.Thread(target=work, args=(n,)) for n in (5, 64, 129, 1000)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert not wrong


def test_numbers_of_threads_beyond_all_integers_are_taken_as_many():
    k = andiron.compile(SCALE, threads=1)
    x = np.ones(4, np.float32)
    for threads in (2, 1 << 20, 1 << 63, 1 << 80):
        for _ in range(2):
            np.testing.assert_array_equal(k(x, threads=threads), 2 * x)
    for threads in (0, -1, -(1 << 80)):
        with pytest.raises(ArgumentKind):
            k(x, threads=threads)


def test_without_it_all_calls_take_all_steps(monkeypatch):
    monkeypatch.setattr(module, "_found", (None,))
    k = andiron.compile(SCALE, threads=1)
    x = np.ones(4, np.float32)
    for _ in range(2):
        np.testing.assert_array_equal(k(x), 2 * x)
    assert k._used.caller is None


def test_another_layout_of_objects_is_noticed(monkeypatch):
    monkeypatch.setattr(module, "_HEAD", module._HEAD + 8)
    assert not module._looks_alike()
