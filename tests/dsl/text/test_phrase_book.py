"""Words of other languages get what to write here, and what is proposed can be written."""

from __future__ import annotations

import re

import andiron
import numpy as np
import pytest
from andiron.dsl.errors import UserError
from andiron.dsl.errors.module import UnknownDevice
from andiron.dsl.source import Source
from andiron.dsl.text.explain_syntax_error import _LINES, _MODIFIERS
from andiron.dsl.text.parser import parse
from andiron.dsl.text.phrase_book import OPS, SCHEDULES


def refused(text: str) -> UserError:
    with pytest.raises(UserError) as caught:
        andiron.loads(text)
    return caught.value


@pytest.mark.parametrize("word", sorted(SCHEDULES))
def test_a_word_of_another_schedule_language(word):
    error = refused(f"import std.ops.gemm\nschedule s for gemm:\n    {word} m\n    auto\n")
    assert (error.id, error.help) == ("unknown-line", SCHEDULES[word])


@pytest.mark.parametrize("word", ["parallel", "vectorize", "bind", "prefetch"])
def test_a_word_of_another_language_behind_a_line(word):
    error = refused(f"import std.ops.gemm\nschedule s for gemm:\n    tile m: 4 {word}\n    auto\n")
    assert (error.id, error.help) == ("unknown-modifier", SCHEDULES[word])


def test_our_own_words_are_none_of_them():
    assert not SCHEDULES.keys() & {*_LINES, *_MODIFIERS}


@pytest.mark.parametrize(
    "line", sorted({x for way in SCHEDULES.values() for x in re.findall(r"`((?:tile|move|keep|inline|compute) [^`]*)`", way)})
)
def test_what_is_proposed_is_a_line(line):
    (decl,) = parse(Source("<test>", f"schedule s for gemm:\n    {line}\n")).declarations
    assert len(decl.lines) == 1


@pytest.mark.parametrize("word", ["order", "unroll", "pipeline", "online", "swizzle"])
def test_a_modifier_is_no_line(word):
    assert "at the end of another line" in (refused(f"schedule s for gemm:\n    {word} m\n").help or "")


def test_all_lines_are_listed():
    help = refused("schedule s for gemm:\n    nonsense m\n").help or ""
    assert re.findall(r"`(\w+)`", help) == list(_LINES)


@pytest.mark.parametrize("word", sorted(OPS))
def test_a_statement_of_a_programming_language(word):
    error = refused(f"op f[N](X: f32[N]) -> (Y: f32[N]):\n    {word} k in X\n    Y[i] = X[i]\n")
    assert error.help == OPS[word]


def test_gather_scatter_scan_and_rows_say_what_to_write():
    head = "op f[T, V](ids: i32[T], X: f32[V]) -> (Y: f32[T]):\n"
    assert "`sum(v) where(v == ids[t], X[v], 0)`" in (refused(head + "    Y[t] = X[ids[t]]\n").help or "")
    scan = "op f[N](X: f32[N]) -> (Y: f32[N]):\n    Y[i] = Y[i - 1] + X[i]\n"
    assert "`sum(j where j <= i) X[j]`" in (refused(scan).help or "")
    assert "sum(i) where(ids[i] == b, value, 0)" in (refused(head + "    Y[ids[i]] = X[i]\n").help or "")
    assert "where(j == 0, a, b)" in (refused("op f[N](X: f32[N]) -> (Y: f32[N, 2]):\n    Y[i, 0] = X[i]\n").help or "")


def test_what_is_proposed_is_right():
    """A gather, a histogram and a running sum, as the messages write them."""
    text = """
op f[T, V, B](ids: i32[T], X: f32[V], bins: f32[B]) -> (Y: f32[T], H: i32[B], S: f32[V]):
    Y[t] = sum(v) where(v == ids[t], X[v], 0)
    H[b] = sum(i) where(ids[i] == b, 1, 0)
    S[i] = sum(j where j <= i) X[j]
"""
    rng = np.random.default_rng(1)
    ids, x, bins = rng.integers(0, 5, 13).astype(np.int32), rng.integers(-8, 8, 5).astype(np.float32), np.zeros(7, np.float32)
    y, h, s = andiron.reference(andiron.loads(text).ops["f"])(ids, x, bins)
    assert np.array_equal(y, x[ids])
    assert np.array_equal(h, np.bincount(ids, minlength=7))
    assert np.array_equal(s, np.cumsum(x))


@pytest.mark.parametrize("name", ["cpu:native", "cpu"])
def test_this_machine_needs_no_name(name):
    module = andiron.loads("op f[N](X: f32[N]) -> (Y: f32[N]):\n    Y[i] = X[i]\n")
    with pytest.raises(UnknownDevice, match=f"leave `on {name}` out: a schedule that names no device is for this machine"):
        module.device(name)
