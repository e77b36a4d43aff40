"""The lanes that take part in a statement or a load are known inside it, and nowhere else."""

from __future__ import annotations

import pytest
from andiron.codegen.emit.c.c_expr import I64, CExpr
from andiron.codegen.emit.c.text_builder import SourceText
from andiron.codegen.emit.emission_context import EmissionContext
from andiron.codegen.emit.lane_analysis import LaneInfo
from andiron.codegen.emit.partial_lanes import ChosenLanes, FirstLanes, LaneRange
from andiron.codegen.ir.program import Program
from andiron.dsl.module import loads

COUNT = CExpr("n", I64)


@pytest.fixture
def ctx() -> EmissionContext:
    program = Program("op", loads("").device("cpu:generic"), (), (), (), (), ())
    text = SourceText(lambda v: v.name, lambda name: None)
    return EmissionContext(program, LaneInfo(None, 1, frozenset(), {}, frozenset()), text, {}, {})


def test_the_inner_lanes_count(ctx):
    with ctx.masked(FirstLanes(COUNT)):
        with ctx.masked(LaneRange("1, n")):
            assert ctx.mask == LaneRange("1, n")
            assert ctx.first_lanes is None
        assert ctx.first_lanes == COUNT
    assert ctx.mask is None


def test_all_lanes_take_part_after_an_error(ctx):
    with pytest.raises(ValueError, match="inside"), ctx.masked(ChosenLanes("t1")):
        raise ValueError("inside")
    assert ctx.mask is None
    assert ctx.first_lanes is None
