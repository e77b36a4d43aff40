"""Convolutions on CPUs: blocks of the image in a cache, windows read from there; right at all sizes, and fed back the same."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from andiron.codegen.enumerate_schedules import candidate_schedules
from andiron.codegen.targets import target_of
from andiron.dsl.text.format import format_node
from andiron.runtime.check_results import check
from andiron.runtime.compile import compile
from andiron.runtime.native import cpu_features
from andiron.runtime.random_inputs import shape_of

from ....support.library.unscheduled import library, op_of

CASES = [  # op, sizes, parameters
    ("conv2d", {"N": 2, "C": 3, "H": 9, "W": 11, "O": 5, "R": 3, "S": 3}, {"pad": 1}),
    ("conv2d", {"N": 1, "C": 20, "H": 14, "W": 14, "O": 17, "R": 3, "S": 3}, {"pad": 1}),
    ("conv2d", {"N": 1, "C": 7, "H": 33, "W": 40, "O": 9, "R": 5, "S": 2}, {"pad": 2}),
    ("conv2d", {"N": 1, "C": 2, "H": 4, "W": 100, "O": 1, "R": 1, "S": 1}, {}),
    ("conv2d", {"N": 1, "C": 2, "H": 12, "W": 21, "O": 3, "R": 3, "S": 3}, {"pad": 1, "stride": 2}),
    ("conv1d", {"N": 2, "C": 5, "W": 70, "O": 12, "S": 4}, {"pad": 3, "dilation": 2}),
    ("conv3d", {"N": 1, "C": 3, "D": 4, "H": 6, "W": 18, "O": 10, "T": 3, "R": 3, "S": 3}, {"pad": 1}),
    ("grouped_conv2d", {"N": 1, "G": 3, "C": 4, "H": 7, "W": 17, "O": 6, "R": 3, "S": 3}, {"pad": 1}),
    ("conv2d_bias_relu", {"N": 1, "C": 4, "H": 10, "W": 20, "O": 11, "R": 3, "S": 3}, {"pad": 1}),
]


@pytest.mark.every_second
@pytest.mark.parametrize(("op", "sizes", "params"), CASES)
@pytest.mark.parametrize("target", ["cpu:avx512", "cpu:avx2", "cpu:generic"])
def test_right(target, op, sizes, params):
    lacking = cpu_features.missing(target_of(target).machine)
    if lacking:
        pytest.skip(f"this machine lacks {', '.join(lacking)}")
    kernel = compile(library(), op=op, target=target, threads=2, **sizes, **params)
    rng = np.random.default_rng(3)
    arrays = [rng.standard_normal(shape_of(t, kernel.op.all_sizes(sizes)), np.float32) for t in kernel.op.inputs]
    assert check(kernel.op, arrays, [kernel(*arrays)]).ok


def test_images_are_not_copied_for_each_place_of_the_filter():
    sizes = {"N": 1, "C": 64, "H": 56, "W": 56, "O": 64, "R": 3, "S": 3}
    kernel = compile(library(), op="conv2d", target="cpu:avx512", pad=1, **sizes)
    assert "move I -> l2" in kernel.schedule
    assert "panels" not in kernel.schedule
    again = compile(library(), op="conv2d", schedule=kernel.schedule, target="cpu:avx512", pad=1, **sizes)
    assert again.source == kernel.source


@pytest.mark.parametrize("device", ["cpu:generic", "cpu:avx2", "cpu:avx512", "cpu:neon"])
def test_all_ways_compile(device):
    sizes = {"N": 1, "C": 40, "H": 20, "W": 30, "O": 24, "R": 3, "S": 3}
    given = islice(candidate_schedules(op_of("conv2d", sizes), library().device(device)), 200)
    windows = [x for x in given if "move I" in (text := format_node(x.schedule)) and "panels" not in text]
    assert len(windows) > 3
    for x in windows[:: max(1, len(windows) // 4)]:
        assert compile(library(), op="conv2d", schedule=x.schedule, target=device, **sizes)
