"""Copies of frozen dataclasses with other fields."""

from __future__ import annotations

import dataclasses

import pytest
from andiron.codegen.ir.tile_ir import For
from andiron.dsl.index.expr import Var, as_expr
from andiron.dsl.support.fast_replace import replace


def test_replace():
    loop = For(Var("i", 0, 7), as_expr(0), as_expr(8), as_expr(1), (), unroll=2)
    loop.__dict__["_kept"] = 1  # what it was asked once is of these fields
    new = replace(loop, stop=as_expr(4))
    assert new == dataclasses.replace(loop, stop=as_expr(4)) != loop
    assert "_kept" not in new.__dict__
    with pytest.raises(dataclasses.FrozenInstanceError):
        new.stop = as_expr(5)  # type: ignore[misc]
    with pytest.raises(TypeError, match="stopp"):
        replace(loop, stopp=as_expr(4))
