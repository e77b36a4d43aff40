"""Layouts: every element has its own address inside the buffer, and the inverse finds it again."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.dsl.index.expr import Var, as_expr
from andiron.dsl.layout import Layout, Swizzle
from hypothesis import given, settings
from hypothesis import strategies as st

M = Var("M", 1)
AXES = (("m", 12), ("k", 32))


def numbers(layout: Layout):
    """The addresses of all elements, as an array over the axes."""
    extents = [e.constant or 0 for _, e in layout.axes]
    grid = np.indices(extents)
    vs = {name: Var(name, 0, n - 1) for (name, _), n in zip(layout.axes, extents, strict=True)}
    env = {name: grid[i] for i, name in enumerate(vs)}
    return np.broadcast_to(layout.address(vs).evaluate(env), extents)


@st.composite
def layouts(draw):
    rank = draw(st.integers(1, 3))
    names = "abc"[:rank]
    axes = [(n, draw(st.sampled_from([1, 3, 4, 8, 16, 24]))) for n in names]
    kind = draw(st.sampled_from(["row", "permuted", "panels"]))
    if kind == "row":
        layout = Layout.row_major(axes)
    elif kind == "permuted":
        layout = Layout.permuted(axes, draw(st.permutations(names)))
    else:
        layout = Layout.panels(axes, draw(st.dictionaries(st.sampled_from(names), st.sampled_from([2, 3, 4, 16]), max_size=2)))
    layout = layout.padded(draw(st.sampled_from([0, 1, 8])))
    return layout.swizzled(draw(st.sampled_from([2, 4, 8]))) if draw(st.booleans()) else layout


@settings(derandomize=True, max_examples=150, deadline=None)
@given(layouts())
def test_addresses_are_distinct_inside_and_invertible(layout: Layout):
    at = numbers(layout)
    assert len(np.unique(at)) == at.size
    assert at.min() >= 0
    assert at.max() < layout.size.constant
    vs = {name: Var(name, 0, e.constant - 1) for name, e in layout.axes}
    grid = np.indices(at.shape)
    env = {name: grid[i] for i, name in enumerate(vs)}
    coords = layout.coords(vs)
    for c, extent in zip(coords, layout.shape, strict=True):
        values = c.evaluate(env)
        assert np.min(values) >= 0
        assert np.max(values) < extent.constant
    for name, e in layout.inverse(coords).items():
        assert np.array_equal(np.broadcast_to(e.evaluate(env), at.shape), env[name])


def test_plain_addresses():
    m, k = Var("m", 0, 11), Var("k", 0, 31)
    at = {"m": m, "k": k}
    assert Layout.row_major(AXES).address(at) == 32 * m + k
    assert Layout.permuted(AXES, "km").address(at) == 12 * k + m
    assert Layout.row_major(AXES).padded(8).address(at) == 40 * m + k
    panels = Layout.panels(AXES, {"m": 6})
    assert panels.coords(at) == (m // 6, as_expr(k), m % 6)
    assert panels.strides == (192, 6, 1) or panels.strides == tuple(map(as_expr, (192, 6, 1)))
    assert panels.size == as_expr(384)
    assert Layout.written(AXES, [m // 6, as_expr(k), m % 6]) == panels


def test_partial_panels_are_allocated_whole():
    panels = Layout.panels((("k", 5), ("n", 20)), {"n": 16})
    assert [e.constant for e in panels.shape] == [2, 5, 16]
    assert panels.size.constant == 160


def test_symbolic_outermost_extent():
    m, k = Var("m"), Var("k", 0, 31)
    row = Layout.row_major((("m", M), ("k", 32)))
    assert row.address({"m": m, "k": k}) == 32 * m + k
    assert row.size == 32 * M
    column = Layout.permuted((("m", M), ("k", 32)), "km")
    assert column.address({"m": m, "k": k}) == k * M + m
    assert Layout.panels((("m", M), ("k", 32)), {"m": 8}).shape[0] == (M + 7) // 8


def test_swizzle_serves_columns_of_chunks_without_conflict():
    """8 units that read 16 bytes of one column in 8 neighbouring rows meet 8 different groups of banks."""
    for columns in (16, 32, 64, 96, 128):
        at = numbers(Layout.row_major((("m", 16), ("k", columns))).swizzled(2))
        for column in range(0, columns, 8):
            groups = {int(a) * 2 // 16 % 8 for a in at[:8, column]}
            assert len(groups) == 8, columns


def test_an_axis_of_one_element_tells_no_rows_apart():
    plain = numbers(Layout.row_major((("m", 16), ("k", 32))).swizzled(2))
    with_one = numbers(Layout.row_major((("m", 16), ("r", 1), ("k", 32))).swizzled(2))
    np.testing.assert_array_equal(with_one[:, 0], plain)


def test_swizzle_keeps_vectors_whole():
    layout = Layout.row_major((("m", 16), ("k", 64))).swizzled(2)
    assert layout.swizzle == Swizzle(8, 8, 1)
    at = numbers(layout).reshape(16, 8, 8)
    assert np.array_equal(at - at[..., :1], np.broadcast_to(np.arange(8), at.shape))
    assert (at[..., 0] % 8 == 0).all()
    m, c = Var("m", 0, 15), Var("c", 0, 7)
    one, two = (layout.address({"m": m, "k": 8 * c + i}) for i in (0, 7))
    assert (two - one).constant == 7


def test_swizzle_given_and_refused():
    layout = Layout.row_major((("m", 16), ("k", 64)))
    assert layout.swizzled(4, bits=2, rows=2).swizzle == Swizzle(4, 4, 2)
    with pytest.raises(ValueError, match="a row has 16"):
        layout.swizzled(4, bits=5)
    assert Layout.row_major((("m", 16), ("k", 6))).swizzled(4).swizzle is None
    assert layout.swizzled(2, 3, 4).swizzle == Swizzle(4, 8, 2)
    for chunk in (0, 3, 128):
        with pytest.raises(ValueError, match=f"chunks of {chunk}"):
            layout.swizzled(2, 1, chunk)


def test_digits_that_do_not_tile_the_axis():
    m, k = Var("m"), Var("k")
    for digits in (
        [m // 6, as_expr(k), m % 5],
        [m // 6, as_expr(k)],
        [as_expr(m)],
        [m + k],
        [as_expr(m), as_expr(k), as_expr(Var("q"))],
    ):
        with pytest.raises(ValueError):  # noqa: PT011
            Layout.written(AXES, digits)
