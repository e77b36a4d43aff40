"""Nodes become tasks with their numbers of calls, in a file that `andiron tune --tasks` reads."""

from __future__ import annotations

from andiron.runtime.tuning.cluster.task_file import read_task_file
from andiron.tools.from_torch.collect import collect
from andiron.tools.from_torch.graph import Node, dense
from andiron.tools.from_torch.task_text import task_text


def f32(*shape):
    return dense("f32", *shape)


def conv2d(batch, bias=None):
    arguments = {"input": f32(batch, 3, 8, 8), "weight": f32(4, 3, 3, 3), "bias": bias, "stride": [1, 1], "padding": [1, 1]}
    return Node("aten.conv2d", {**arguments, "dilation": [1, 1], "groups": 1}, (f32(batch, 4, 8, 8),))


RELU = Node("aten.relu", {"self": f32(2, 6)}, (f32(2, 6),))
SINH = Node("aten.sinh", {"self": f32(2, 6)}, (f32(2, 6),))
VIEW = Node("aten.view", {"self": f32(2, 6), "size": [12]}, (f32(12),))
PRODUCT = Node("aten.mm", {"self": f32(5, 7), "mat2": f32(7, 3)}, (f32(5, 3),))


def of(found):
    return [(t.op, t.sizes, t.calls) for t in found.tasks]


def test_equal_calls_are_one_task():
    longer = Node("aten.relu", {"self": f32(12)}, (f32(12),))
    found = collect([RELU, VIEW, SINH, longer, PRODUCT, SINH])
    assert of(found) == [("relu_map", {"N": 12}, 2), ("gemm", {"M": 5, "N": 3, "K": 7}, 1)]
    assert [(u.text, u.calls) for u in found.rest] == [("aten.sinh(f32[2, 6]) -> f32[2, 6]", 2)]
    assert (found.served, found.partly, found.unserved, found.free) == (3, 0, 2, 1)


def test_a_bias_is_an_addition():
    size = {"C": 3, "H": 8, "W": 8, "O": 4, "R": 3, "S": 3, "stride": 1, "pad": 1}
    one = collect([conv2d(1, f32(4))])
    assert of(one) == [("conv2d", {"N": 1, **size}, 1), ("add_column", {"M": 4, "N": 64}, 1)]
    two = collect([conv2d(2, f32(4))])
    assert of(two) == [("conv2d", {"N": 2, **size}, 1)]
    assert two.partly == 1
    assert two.rest[0].part_of == "aten.conv2d"
    assert two.rest[0].text == "aten.add.Tensor(f32[2, 4, 8, 8], f32[4, 1, 1]) -> f32[2, 4, 8, 8]"


def test_a_recurrent_layer_is_cells():
    params = [f32(96, 16), f32(96, 32), f32(96), f32(96)] * 2
    arguments = {"input": f32(5, 3, 16), "hx": f32(2, 3, 32), "params": params, "has_biases": True, "num_layers": 1}
    arguments |= {"dropout": 0.0, "train": False, "bidirectional": True, "batch_first": False}
    found = collect([Node("aten.gru.input", arguments, (f32(5, 3, 64), f32(2, 3, 32)))])
    assert of(found) == [("gru_cell", {"B": 3, "I": 16, "H": 32}, 10)]
    assert found.served == 1


def test_parts_count_where_all_are_served_or_a_product_is():
    half = {"aten.sinh": [RELU, VIEW], "aten.odd": [RELU, SINH], "aten.big": [PRODUCT, SINH]}
    odd, big = (Node(name, {"self": f32(2, 6)}, (f32(2, 6),)) for name in ("aten.odd", "aten.big"))
    assert of(collect([SINH], lambda n: half.get(n.target, ()))) == [("relu_map", {"N": 12}, 1)]
    alone = collect([odd], lambda n: half[n.target])
    assert (of(alone), alone.unserved, alone.rest[0].target) == ([], 1, "aten.odd")
    part = collect([big], lambda n: half[n.target])
    assert ([t.op for t in part.tasks], part.partly, part.rest[0].part_of) == (["gemm"], 1, "aten.big")


def test_the_file_is_read_by_tune(tmp_path):
    found = collect([RELU, RELU, SINH, conv2d(1)])
    path = tmp_path / "tasks.toml"
    path.write_text(task_text(found, "net:make", {"target": ["cpu", "cuda:sm_80"], "top": 2, "seconds": 5, "threads": None}))
    tasks = read_task_file(path)
    assert [(t.run.request.op.name, t.run.request.target.name, t.weight) for t in tasks] == [
        ("relu_map", "cpu", 2.0), ("relu_map", "cuda:sm_80", 2.0), ("conv2d", "cpu", 1.0), ("conv2d", "cuda:sm_80", 1.0),
    ]  # fmt: skip
    assert tasks[0].run.task.top == 2
    assert path.read_text().splitlines()[-2:] == [
        "# Not served:",
        "# 1 x aten.sinh(f32[2, 6]) -> f32[2, 6]: the library has no op for it",
    ]
