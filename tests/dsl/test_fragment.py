"""Fragments: the maps of matrix instructions, against the manuals' pictures and by enumeration."""

from __future__ import annotations

import numpy as np
from andiron.dsl.fragment import FragmentLayout
from andiron.dsl.index.expr import Var, as_expr

lane = Var("lane", 0, 31)
r4, r2, r8 = Var("r", 0, 3), Var("r", 0, 1), Var("r", 0, 7)

# mma.m16n8k16, f16 operands (PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type").
A = FragmentLayout((lane, r8), (lane // 4 + 8 * (r8 // 2 % 2), 2 * (lane % 4) + r8 % 2 + 8 * (r8 // 4)), (16, 16))
C = FragmentLayout((lane, r4), (lane // 4 + 8 * (r4 // 2), 2 * (lane % 4) + r4 % 2), (16, 8))


def test_table_follows_the_manual():
    table = A.table()
    assert table.shape == (32, 8, 2)
    # a0, a1: (group, 2*t + i); a2, a3: (group + 8, ...); a4..a7: the same at column + 8
    assert table[5].tolist() == [[1, 2], [1, 3], [9, 2], [9, 3], [1, 10], [1, 11], [9, 10], [9, 11]]


def test_cover_and_unique():
    for f in (A, C):
        assert f.inside
        assert f.covers
        assert f.unique
    row = FragmentLayout((lane,), (as_expr(lane) % 8,), (8,))
    assert row.covers
    assert not row.unique
    assert not FragmentLayout((lane,), (as_expr(lane),), (8,)).inside
    assert not FragmentLayout((lane,), (as_expr(lane),), (64,)).covers


def test_owner_and_equality():
    assert A.owner((9, 11)) == ((5, 7),)
    twin = FragmentLayout((lane, r4), (lane // 4 % 8 + 8 * (r4 // 2 % 2), lane % 4 * 2 + (r4 - r4 // 2 * 2)), (16, 8))
    assert C.equal(twin)
    assert not C.equal(FragmentLayout((lane, r4), (lane // 4 + 8 * (r4 % 2), 2 * (lane % 4) + r4 // 2), (16, 8)))
    scalar = FragmentLayout((), (), ())
    assert scalar.units == scalar.registers == 1
    assert scalar.covers
    assert scalar.owner(()) == ((0, 0),)


def test_inverse_is_the_inverse():
    for f in (A, C):
        i, j = Var("i", 0, f.shape[0] - 1), Var("j", 0, f.shape[1] - 1)
        back = f.inverse((i, j))
        assert back is not None
        grid = dict(zip("ij", np.indices(f.shape), strict=True))
        table = f.table()
        found = table[back["lane"].evaluate(grid), back["r"].evaluate(grid)]
        assert np.array_equal(found, np.stack(list(grid.values()), axis=-1))
    assert FragmentLayout((lane,), (as_expr(lane) * lane,), (1000,)).inverse((0,)) is None


def test_tiled():
    big = C.tiled((2, 3))
    assert big.shape == (32, 24)
    assert big.registers == 24
    assert big.covers
    assert big.unique
    table = big.table()
    assert np.array_equal(table[:, 4 * (3 * 1 + 2) :][:, :4], C.table() + np.array([16, 16]))
