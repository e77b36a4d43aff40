"""Lines as a tree: nothing is lost on the way there and back, nodes are checked, keys survive changes."""

from __future__ import annotations

from dataclasses import fields

import pytest
from andiron.codegen.ir.schedule_tree import (
    Axis,
    Keep,
    Leaf,
    Materialise,
    Move,
    Node,
    ShareOut,
    Step,
    Tile,
    all_nodes,
    chain,
    steps_of,
    with_leaf,
)
from andiron.codegen.schedule.build_tree import lines_of, schedule_tree
from andiron.codegen.schedule.explicit_lines import explicit_lines
from andiron.codegen.schedule.roles import roles_of
from andiron.codegen.schedule.size_bounds import with_size_bounds
from andiron.dsl import syntax
from andiron.dsl.errors import Diagnostics, InternalError
from andiron.dsl.module import load, loads
from andiron.dsl.text.format import format_node

from ...support.paths import STDLIB

FILES = sorted((STDLIB / "schedules").glob("*.sched"))
OP = """op gemm[M, N, K](A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]):
    C[m, n] = sum(k) A[m, k] * B[k, n]
"""


def parsed(lines: str) -> tuple[syntax.Line, ...]:
    body = "".join(f"    {x}\n" for x in lines.splitlines())
    (schedule,) = loads(OP + "schedule s for gemm:\n" + body).schedules.values()
    return schedule.lines


def explicit(module, schedule):
    op = with_size_bounds(module.ops[schedule.op], schedule)
    device = module.device(schedule.device) if schedule.device else module.device("cpu:avx2")
    return explicit_lines(module, op, schedule, device, roles_of(module, op, schedule), None, Diagnostics())


def alike(a: object, b: object) -> bool:
    """Whether two trees say the same: the same fields, but for the lines that they come from."""
    if isinstance(a, Node) and isinstance(b, Node):
        names = [f.name for f in fields(a) if f.name not in ("line", "key")]
        return type(a) is type(b) and all(alike(getattr(a, n), getattr(b, n)) for n in names)
    return a == b


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_a_tree_says_what_its_lines_say(path):
    module, count = load(path), 0
    for schedule in module.schedules.values():
        if schedule.op not in module.ops:
            continue
        lines = tuple(x for x in explicit(module, schedule) if not isinstance(x, syntax.Inline))
        if any(isinstance(x, syntax.AutoLine) or "auto" in format_node(x) for x in lines):
            continue
        tree = schedule_tree(lines)
        again = schedule_tree(lines_of(tree))
        assert alike(tree, again), schedule.name
        assert [format_node(x) for x in lines_of(tree)] == [format_node(x) for x in lines_of(again)]
        count += 1
    assert count


def test_axes_are_in_the_order_of_visiting():
    tree = schedule_tree(parsed("tile m: 4, n: 8 -> core order n, m\ncompute"))
    assert isinstance(tree, Tile)
    assert tree.axes == (Axis("n", 8), Axis("m", 4))


def test_a_block_is_a_tree():
    tree = schedule_tree(
        parsed("move B -> l3 layout panels(n: 16) pipeline 3 through:\n    tile k: 1\n    compute\ncompute with fma")
    )
    assert isinstance(tree, Move)
    assert (tree.pipeline.depth, tree.pipeline.through) == (3, True)
    assert isinstance(tree.block, Tile)
    assert tree.leaf.instr == "fma"
    assert [type(x).__name__ for x in all_nodes(tree)] == ["Move", "Tile", "Leaf", "Leaf"]
    assert tree.staged == {"B"}


def test_a_leaf_that_no_line_says():
    assert schedule_tree(()).is_implied
    assert not schedule_tree(parsed("compute")).is_implied
    assert lines_of(schedule_tree(parsed("tile m: 4"))) == parsed("tile m: 4")


def test_a_key_survives_changes():
    tree = schedule_tree(parsed("tile m: 4 unroll\nkeep C in register\ncompute"))
    changed = tree.but(unroll=None)
    assert changed.key is tree.key
    assert changed is not tree
    assert changed != tree
    other = with_leaf(tree, ShareOut(keep=tree.below))
    assert [x.key for x in steps_of(other)] == [x.key for x in steps_of(tree)]
    assert len({x.key for x in all_nodes(tree)}) == 3


def test_steps_are_put_above_a_node():
    first, then, leaf = (
        Tile(axes=(Axis("m", 4),), below=Leaf()),
        Keep(names=("C",), memory=None, below=Leaf()),
        Leaf(instr="fma"),
    )
    tree = chain(first, then, below=leaf)
    assert [x.key for x in tree.path()] == [first.key, then.key, leaf.key]
    assert isinstance(tree, Step)
    assert isinstance(tree.below, Materialise)


def test_lowering_s_own_leaves_are_no_lines():
    keep = Keep(names=("C",), memory=None, below=Leaf())
    with pytest.raises(TypeError, match="no line says"):
        lines_of(ShareOut(keep=keep))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Tile(axes=(Axis("m", 0),), below=Leaf()),
        lambda: Tile(axes=(Axis("m", 4, 0),), below=Leaf()),
        lambda: Tile(axes=(Axis("m", 4), Axis("m", 2)), below=Leaf()),
        lambda: Keep(names=(), memory=None, below=Leaf()),
    ],
)
def test_nodes_are_checked(wrong):
    with pytest.raises(InternalError):
        wrong()
