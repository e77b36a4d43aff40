"""Files of tasks: what they may say, and all of their mistakes at once, each at its line."""

from __future__ import annotations

import pytest
from andiron.dsl.errors import UserErrors
from andiron.dsl.errors.module import NoSuchFile
from andiron.dsl.errors.run import BadTaskFile
from andiron.dsl.errors.text import NotText
from andiron.runtime.tuning.cluster.task_file import read_task_file

from ....support.gemm_file import GEMM_OP as GEMM

GOOD = """
[defaults]
top = 2

[[task]]
op = "softmax"
sizes = { M = 8, N = 16 }

[[task]]
file = "mine.sched"
sizes = [{ M = 61, N = 47, K = 33 }, { K = 8 }]
target = ["cpu", "cpu:generic"]
threads = 1
top = 3
weight = 2.5
"""
BAD = """\
[defaults]
tops = 3
[[task]]
op = "gem"
[[task]]
op = "gemm"
sizes = [
  { M = 3, Q = 5 },
  { M = "x" },
]
[[task]]
op = "gemm"
target = "cpu:avx3"
weigth = 2
[[task]]
op = "gemm"
sizes = { M = -3 }
[[task]]
sizes = {}
[[task]]
file = "broken.sched"
[[task]]
op = "gemm"
target = "cpu:avx3"
[[task]]
op = "gemm"
[task.sizes]
Q = 3
"""


@pytest.fixture
def file(tmp_path):
    (tmp_path / "mine.sched").write_text(GEMM)
    (tmp_path / "broken.sched").write_text("op broken[N](X: f32[N]) -> (Y: f32[N]):\n    Y[i] = Z[i]\n")
    return tmp_path / "tasks.toml"


def test_each_of_the_sizes_for_each_target_is_a_task(file):
    file.write_text(GOOD)
    tasks = read_task_file(file)
    found = [(t.run.task.op, t.run.task.target, t.run.task.given, t.run.task.top, t.run.task.threads, t.weight) for t in tasks]
    mine = (("M", 61), ("N", 47), ("K", 33))
    assert found == [
        ("gemm", "cpu", mine, 3, 1, 2.5),
        ("gemm", "cpu", (("K", 8),), 3, 1, 2.5),
        ("gemm", "cpu:generic", mine, 3, 1, 2.5),
        ("gemm", "cpu:generic", (("K", 8),), 3, 1, 2.5),
        ("softmax", "cpu", (("M", 8), ("N", 16)), 2, None, 1.0),
    ]
    assert "op softmax" in tasks[-1].run.task.module


def test_all_mistakes_are_said_at_once_each_at_its_line(file):
    file.write_text(BAD)
    with pytest.raises(UserErrors) as caught:
        read_task_file(file)
    found = {(e.span.source.name.rpartition("/")[2], e.span.line, e.message) for e in caught.value.errors if e.span}
    assert found == {
        ("tasks.toml", 2, "`[defaults]` has no `tops`"),
        ("tasks.toml", 4, "the library has no op `gem`"),
        ("tasks.toml", 7, "`sizes` is a table of integers, or a list of such tables"),
        ("tasks.toml", 14, "`[[task]]` has no `weigth`"),
        ("tasks.toml", 17, "size `M` of op `gemm` is negative: -3"),
        ("tasks.toml", 18, "a task needs an `op`, or a `file`"),
        ("tasks.toml", 24, "no target `cpu:avx3`"),
        ("tasks.toml", 27, "`Q` is no size and no parameter of op `gemm`"),
        ("broken.sched", 2, "there is no tensor `Z`"),
    }
    assert "did you mean `top`?" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("[[task]]\nop =\n", 2, "this is no TOML: invalid value"),
        ("", 1, "the file has no `[[task]]`"),
        ("tasks = 3\n[[task]]\nop = 'gemm'\n", 1, "a file of tasks has no `tasks`"),
        ("task = 3\n", 1, "tasks are `[[task]]` tables, and defaults a `[defaults]` table"),
    ],
)
def test_what_is_no_file_of_tasks(file, text, line, message):
    file.write_text(text)
    with pytest.raises(BadTaskFile) as caught:
        read_task_file(file)
    assert caught.value.message == message
    assert caught.value.span is not None
    assert caught.value.span.line == line


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("target = []", "`target` is an empty list, so there is no task"),
        ("sizes = []", "`sizes` is an empty list, so there is no task"),
        ("weight = inf", "`weight` is a number, 0 or more and finite"),
        ("weight = nan", "`weight` is a number, 0 or more and finite"),
        ("weight = -1", "`weight` is a number, 0 or more and finite"),
        ("seconds = inf", "`seconds` is a number of seconds, more than 0 and finite"),
        ("seconds = nan", "`seconds` is a number of seconds, more than 0 and finite"),
        ("top = 100000000000000000000", "`top` is an integer from 1 to 10000"),
        ("trials = 100000000000000000000", "`trials` is an integer from 0 to 1000000"),
        ("trials = 4", "`trials` is 4, fewer than `top`, 10: these are measured first"),
    ],
)
def test_values_of_which_there_is_nothing_to_do(file, line, message):
    file.write_text(f"[[task]]\nop = 'softmax'\n{line}\n")
    with pytest.raises(BadTaskFile) as caught:
        read_task_file(file)
    assert caught.value.message == message
    assert caught.value.span is not None
    assert caught.value.span.line == 3


def test_all_keys_are_named(file):
    file.write_text("[[task]]\nop = 'softmax'\nxyz = 3\n")
    with pytest.raises(BadTaskFile) as caught:
        read_task_file(file)
    keys = ("file", "op", "schedule", "seconds", "sizes", "target", "threads", "top", "trials", "weight")
    assert caught.value.help == "known here: " + ", ".join(f"`{key}`" for key in keys)


def test_no_file(file):
    with pytest.raises(NoSuchFile):
        read_task_file(file)


def test_no_text(file):
    file.write_bytes(b"\0\1")
    with pytest.raises(NotText) as caught:
        read_task_file(file)
    assert caught.value.help == "name a file of tasks in TOML, saved as UTF-8"
