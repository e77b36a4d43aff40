"""Local buffers whose lifetimes do not meet share space, where nobody can be in two of them at once."""

import re

import numpy as np
import pytest
from andiron.codegen.emit.printers import emit
from andiron.codegen.ir.tile_ir import Alloc, Barrier
from andiron.dsl.index.expr import Var
from andiron.dsl.values import Apply

from ....support.cpp.build import run
from ....support.cpp.programs import CORE, CORES, F32, at, buffer, const, lane, loop, program, put

N, I = Var("N", 1, 4096), Var("i")
W = 8
COL = I + lane(W)
IO = (buffer("X", "input", (N,)), buffer("Y", "output", (N,)))


def stage(name, source, target, step, level, *first, inner=()):
    """target[i] = source[i] + step by way of a buffer; all of it is read in the opposite order to that it was written in."""
    made = buffer(name, "local", (4096,), memory="l2", level=level)
    start = CORE * W if level == "socket" else 0
    stride = CORES * W if level == "socket" else W
    fill = loop(I, N, (put(name, (COL,), Apply("add", (at(source, COL), const(float(step))), F32)),), start, stride)
    drain = loop(I, N, (put(target, (COL,), at(name, COL)),), CORE * W, CORES * W)
    return Alloc(made, (*first, fill, *inner, *((Barrier(level),) if level == "socket" else ()), drain))


def starts(prog):
    """Where each buffer begins, as the text has it."""
    return dict(re.findall(r"call\.at_(\w+) = (\w+);", emit(prog)))


def right(prog, adds):
    x = np.arange(256, dtype=np.float32)
    for threads in (1, 3):
        np.testing.assert_array_equal(run(prog, {"X": x}, {"N": 256}, threads=threads)["Y"], x + adds)


def test_what_each_core_has_is_shared_in_order():
    body = (stage("a", "X", "Y", 1, "core"), stage("b", "Y", "Y", 2, "core"))
    body = (body[0], Barrier("socket"), body[1])
    prog = program("siblings", (N,), IO, body)
    assert starts(prog) == {"a": "0", "b": "0"}
    assert "__restrict__" not in emit(prog)
    right(prog, 3)


def test_what_is_alive_inside_lies_behind():
    inner = stage("b", "a", "Y", 2, "core")
    body = (stage("a", "X", "Y", 1, "core", inner=(inner,)), stage("c", "X", "Y", 5, "core"))
    prog = program("nested", (N,), IO, body)
    assert starts(prog) == {"a": "0", "b": "at_a_end", "c": "0"}
    right(prog, 5)


def test_one_body_in_two_places_lies_behind_what_is_around_either():
    """As where a loop is split."""
    inner = stage("c", "X", "Y", 1, "core")
    body = (stage("a", "X", "Y", 2, "core", inner=(inner,)), stage("b", "Y", "Y", 3, "core", inner=(inner,)))
    prog = program("two_places", (N,), IO, body)
    assert starts(prog) == {"a": "0", "b": "0", "c": "top"}
    right(prog, 5)


@pytest.mark.parametrize("apart", [True, False])
def test_what_cores_share_needs_a_barrier_between(apart):
    first = (Barrier("socket"),) if apart else ()
    again = Var("again", 0, 4)
    pair = (stage("a", "X", "Y", 1, "socket", *first), stage("b", "X", "Y", 2, "socket", *first))
    prog = program("shared", (N,), IO, (loop(again, 5, pair),))
    assert starts(prog) == ({"a": "base", "b": "base"} if apart else {"a": "top", "b": "top"})
    if apart:
        right(prog, 2)


def test_launches_begin_anew():
    from dataclasses import replace

    prog = program("launches", (N,), IO, (stage("a", "X", "Y", 1, "socket"),))
    second = replace(prog.launches[0], name="second", body=(stage("b", "Y", "Y", 2, "socket"),))
    prog = replace(prog, launches=(*prog.launches, second))
    assert starts(prog) == {"a": "base", "b": "base"}
    right(prog, 3)
