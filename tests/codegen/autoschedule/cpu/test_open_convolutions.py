"""Convolutions of open sizes on CPUs: schedules for windows, single points, wide, narrow and short images; right at all."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.autoschedule.default_schedules import default_schedules
from andiron.codegen.targets import target_of
from andiron.dsl.ops.index_syntax import node_text
from andiron.runtime.check_results import check
from andiron.runtime.compile import compile
from andiron.runtime.native import cpu_features
from andiron.runtime.random_inputs import shape_of

from ....support.library.unscheduled import library


def named(names: str, *sizes: tuple[int, ...]) -> list[dict[str, int]]:
    return [dict(zip(names, s, strict=True)) for s in sizes]


# wide, narrow and short images, filters of one element and of more than any copy has room for, nothing at all
SIZES = [
    (2, 3, 9, 21, 5, 3, 3), (1, 35, 5, 70, 66, 3, 2), (1, 5, 17, 13, 9, 3, 3), (1, 4, 9, 7, 3, 3, 3), (1, 5, 8, 40, 9, 1, 1),
    (2, 5, 8, 13, 9, 1, 1), (1, 3, 7, 7, 17, 1, 1), (1, 2, 12, 33, 3, 9, 9), (1, 2, 12, 33, 3, 3, 1), (1, 1, 7, 1, 1, 7, 1),
    (1, 1, 1, 1, 1, 1, 1), (0, 2, 9, 20, 3, 3, 3), (1, 0, 9, 20, 3, 3, 3), (1, 2, 9, 20, 0, 3, 3), (1, 0, 9, 12, 3, 1, 1),
]  # fmt: skip
CASES = [
    ("conv2d", {"pad": 1}, named("NCHWORS", *SIZES)),
    ("conv2d", {"pad": 0}, named("NCHWORS", *SIZES)),
    ("conv2d", {"pad": 3, "stride": 2}, named("NCHWORS", *SIZES)),
    ("conv2d", {"stride": 3}, named("NCHWORS", *SIZES)),
    ("conv2d_bias_relu", {"pad": 1}, named("NCHWORS", *SIZES[:8])),
    ("conv1d", {"pad": 2, "dilation": 2}, named("NCWOS", (2, 5, 70, 12, 4), (1, 3, 9, 5, 1))),
    ("conv3d", {"pad": 1}, named("NCDHWOTRS", (1, 3, 4, 6, 18, 10, 3, 3, 3), (1, 2, 3, 4, 5, 3, 1, 1, 1))),
    ("grouped_conv2d", {"pad": 1}, named("NGCHWORS", (1, 3, 4, 7, 17, 6, 3, 3), (2, 2, 3, 7, 7, 5, 1, 1))),
    ("conv2d_f16", {"pad": 1}, named("NCHWORS", *SIZES[:8])),
    ("conv2d_i8", {"pad": 1}, named("NCHWORS", *SIZES)),
    ("conv2d_nhwc", {"pad": 1}, named("NCHWORS", *SIZES)),
    ("conv2d_nhwc", {"pad": 3, "stride": 2}, named("NCHWORS", *SIZES)),
    ("conv2d_nhwc_f16", {}, named("NCHWORS", *SIZES[:8])),
    ("depthwise_conv2d", {"pad": 1}, named("NCHWRS", *(s[:4] + s[5:] for s in SIZES))),
    ("depthwise_conv2d", {"pad": 3, "stride": 2}, named("NCHWRS", *(s[:4] + s[5:] for s in SIZES))),
    ("depthwise_conv2d", {"stride": 3}, named("NCHWRS", *(s[:4] + s[5:] for s in SIZES))),
    ("separable_conv2d", {"pad": 1}, named("NCHWORS", *SIZES)),
]  # fmt: skip


@pytest.mark.every_second
@pytest.mark.parametrize("target", ["cpu:avx512", "cpu:avx2", "cpu:generic"])
@pytest.mark.parametrize(("op", "params", "sizes"), CASES)
def test_right(op, params, sizes, target):
    lacking = cpu_features.missing(target_of(target).machine)
    if lacking:
        pytest.skip(f"this machine lacks {', '.join(lacking)}")
    kernel = compile(library(), op=op, target=target, threads=2, **params)
    rng = np.random.default_rng(3)
    for s in sizes:
        every = kernel.op.all_sizes(s)
        if min(every.values()) < 0:
            continue
        arrays = [few_values(rng, shape_of(t, every), t.dtype.numpy) for t in kernel.op.inputs]
        out = kernel.op.outputs[0]
        poisoned = np.full(shape_of(out, every), np.nan if out.dtype.kind == "float" else 99, out.dtype.numpy)
        assert check(kernel.op, arrays, [kernel(*arrays, out=poisoned)]).ok, s


def few_values(rng, shape, dtype):
    return rng.integers(-5, 6, shape).astype(dtype)


def cases(op: str, device: str, **known: int) -> list[str]:
    module = library()
    found = default_schedules(module.ops[op], module.device(device), known)
    return [
        ", ".join(f"{node_text(w.left)} {w.op} {node_text(w.right)}" for w in x.where) if x is not None else "" for x in found
    ]


def test_open_sizes_of_filters():
    windows = ["R + S > 2, R <= 7, S <= 7, Q > 8", "R == 1, S == 1, Q > 4", "R == 1, S == 1, Q <= 4"]
    assert cases("conv2d", "cpu:avx2") == [*windows, "R <= 7, S <= 7, Q > 4, Q <= 8", "Q <= 4", ""]
    assert cases("conv2d", "cpu:avx2", stride=2)[1:3] == ["R == 1, S == 1, Q > 8", "R == 1, S == 1, Q > 4, Q <= 8"]
    assert cases("conv2d", "cpu:avx512", R=3, S=3) == ["Q > 16", "Q > 8, Q <= 16", "Q <= 8", ""]
    assert cases("conv2d", "cpu:avx512", R=1, S=1) == ["Q > 8", "Q <= 8", ""]
    assert cases("conv2d", "cpu:avx512", R=3, S=3, H=9, W=9) == [""]
    depthwise = ["R <= 7, S <= 7, Q > 32", "R <= 7, S <= 7, Q > 16, Q <= 32", "R <= 7, S <= 7, Q <= 16", ""]
    assert cases("depthwise_conv2d", "cpu:avx512") == cases("separable_conv2d", "cpu:avx512") == depthwise
    assert cases("conv2d_nhwc", "cpu:avx512") == ["R == 3, S == 3", "R == 1, S == 1", "R <= 7, S <= 7", ""]
    assert cases("avg_pool2d", "cpu:avx512", size=3) == [""]


@pytest.mark.parametrize("device", ["cpu:generic", "cpu:avx2", "cpu:avx512", "cpu:neon"])
@pytest.mark.parametrize("stride", [1, 2])
def test_windows_are_not_gathered(device, stride):
    kernel = compile(library(), op="conv2d", target=device, pad=1, stride=stride)
    assert "panels" not in kernel.schedule
    assert ("I.3 % 2" in kernel.schedule) == (stride == 2)
    again = compile(library(), op="conv2d", schedule=kernel.schedule, target=device, pad=1, stride=stride)
    assert again.source == kernel.source


def test_filters_of_one_element_read_the_image_as_it_is():
    """As many lines and columns of results as of the image: none of its positions is taken apart."""
    text = "schedule s for conv2d where R == 1, S == 1:\n    auto\n"
    kernel = compile(library(), op="conv2d", schedule=text, target="cpu:avx512")
    body = kernel.source[kernel.source.index("launch__conv2d_Y") :]
    assert "% W" not in body
    assert "/ W" not in body


def test_each_second_point_is_copied_alone():
    text = "schedule s for conv2d where R == 1, S == 1:\n    auto\n"
    kernel = compile(library(), op="conv2d", schedule=text, target="cpu:avx2", stride=2)
    assert "move I as (n, c, r, s, p, q) -> l2" in kernel.schedule


@pytest.mark.parametrize("device", ["cpu:avx2", "cpu:avx512"])
def test_open_depthwise(device):
    """A core's cache has the edges: what is read of it is asked nothing."""
    kernel = compile(library(), op="depthwise_conv2d", target=device, pad=1)
    columns = 64 if device == "cpu:avx512" else 32
    assert f"tile n: 1, c: 1, p: 16, q: {columns} -> core\n    move I -> l2" in kernel.schedule
    body = kernel.source[kernel.source.index("launch__depthwise_conv2d_Y") :]
    assert "tile r: 1" in body
    loop = body[body.index("// tile r: 1") : body.index("store", body.index("// tile r: 1"))]
    assert "load_part" not in loop
    assert "load_between" not in loop


@pytest.mark.parametrize("device", ["cpu:avx2", "cpu:avx512", "cpu:generic"])
def test_channels_last(device):
    kernel = compile(library(), op="conv2d_nhwc", target=device, pad=1)
    assert "move I -> l2" in kernel.schedule
    assert "move F -> l2 layout (r, s, c, o)" in kernel.schedule
    assert ("tile q: 7\n" in kernel.schedule) == (device == "cpu:avx512")
    assert "p: 8," in kernel.schedule
