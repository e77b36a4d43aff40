"""How many blocks a unit holds, as NVIDIA's occupancy calculator and clang's remarks say."""

from __future__ import annotations

import pytest
from andiron.codegen.analysis.occupancy import occupancy
from andiron.dsl.module import loads, std_device

# device, threads, registers, shared bytes, groups -> blocks, threads of a unit, what bounds them
CASES = [
    ("sm_80", 256, 122, 34816, None, (2, 512, "registers")),  # 128 each with the granule: 65536 / (128 * 256)
    ("sm_80", 256, 120, 34816, None, (2, 512, "registers")),
    ("sm_80", 1024, 32, 0, None, (2, 2048, "threads")),
    ("sm_80", 1024, 33, 0, None, (1, 1024, "registers")),
    ("sm_80", 32, 32, 0, None, (32, 1024, "blocks")),
    ("sm_80", 128, 40, 82 << 10, None, (1, 128, "shared")),  # 1 KiB of each block's is the system's
    ("sm_80", 128, 40, 81 << 10, None, (2, 256, "shared")),
    ("sm_75", 33, 32, 0, None, (16, 528, "threads")),  # two warps, 1024 threads
    ("sm_86", 128, 32, 0, None, (12, 1536, "threads")),
    ("gfx90a", 256, 100, 0, 5, (5, 1280, "registers")),
    ("gfx90a", 256, 24, 64 << 10, 8, (1, 256, "shared")),
    ("gfx1100", 256, 100, 0, 12, (6, 1536, "registers")),
]


@pytest.mark.parametrize(("name", "threads", "registers", "shared", "groups", "expected"), CASES)
def test_blocks_of_a_unit(name, threads, registers, shared, groups, expected):
    device = std_device(name)
    assert device is not None
    found = occupancy(device, threads, registers, shared, groups)
    assert found is not None
    assert (found.blocks, found.threads, found.bound) == expected
    assert found.share == pytest.approx(expected[1] / found.most)


def test_a_device_that_does_not_say_has_none():
    assert occupancy(std_device("cpu:avx2"), 1, 16, 0) is None
    bare = loads("device bare extends sm_80:\n    without resident threads\n").devices["bare"]
    assert occupancy(bare, 32, 16, 0) is None
