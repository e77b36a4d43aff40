"""Kernels in files: loaded without a compiler, and refused where their code would be wrong."""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import subprocess
import sys
import zipfile

import andiron
import numpy as np
import pytest
from andiron.dsl.errors.module import NoSuchFile
from andiron.dsl.errors.run import ArgumentKind, CannotSave, DamagedFile, SavedElsewhere
from andiron.dsl.errors.target import CannotWrite

TEXT = """\
op gemm[M, N, K](A: f32[M, K], B: f32[K, N], scale: int = 1) -> (C: f32[M, N]):
    C[m, n] = scale * (sum(k) A[m, k] * B[k, n])

schedule few for gemm where M <= 8:
    param R in 2, 4
    tile m: R -> core

schedule many for gemm:
    tile m: 6 -> core
    tile n: 16
"""


def arrays(m: int, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.integers(-3, 4, (m, k)).astype(np.float32), rng.integers(-3, 4, (k, n)).astype(np.float32)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    file = tmp_path_factory.mktemp("saved") / "gemm.kernel"
    andiron.compile(TEXT, scale=3, R=4).save(file)
    return file


def test_a_loaded_kernel_is_the_kernel(path):
    k = andiron.load_kernel(path)
    assert len(k.variants) == 2
    for m in (5, 9):
        a, b = arrays(m, 11, 7)
        np.testing.assert_array_equal(k(a, b), 3 * (a @ b))
    assert "saved in" in k.report.compiler
    assert "tile m: 4 -> core" in k.schedule


def test_a_wrong_number_of_threads_is_not_a_fault_of_the_file(path):
    with pytest.raises(ArgumentKind, match="threads is 0"):
        andiron.load_kernel(path, threads=0)


def test_loading_takes_no_compiler(path, tmp_path):
    program = "import sys, andiron, numpy as np; k = andiron.load_kernel(sys.argv[1])"
    program += "; print(k(np.ones((2, 3), 'f4'), np.ones((3, 2), 'f4')))"
    env = {"PATH": "/nowhere", "ANDIRON_CXX": "/nowhere/c++", "ANDIRON_CACHE": str(tmp_path)}
    env |= {name: os.environ[name] for name in ("PYTHONPATH", "ANDIRON_CPU") if name in os.environ}
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], env=env, capture_output=True, text=True, timeout=120, cwd=tmp_path
    )
    assert done.stdout.split() == ["[[9.", "9.]", "[9.", "9.]]"], done.stderr


def test_it_can_be_saved_again(path, tmp_path):
    andiron.load_kernel(path).save(tmp_path / "again")
    a, b = arrays(3, 4, 5)
    np.testing.assert_array_equal(andiron.load_kernel(tmp_path / "again")(a, b), 3 * (a @ b))


def changed(path, tmp_path, leave_out="", **changes):
    """The file with other words in its description, and the checksum of that."""
    other, data = tmp_path / "changed", io.BytesIO()
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(data, "w") as new:  # a zip may have something in front
        for name in old.namelist():
            if name != leave_out:
                part = old.read(name)
                new.writestr(name, json.dumps(json.loads(part) | changes) if name == "kernel.json" else part)
    sum = hashlib.sha256(data.getvalue()).hexdigest()
    other.write_bytes(b"andiron kernel\n" + sum.encode() + b"\n" + data.getvalue())
    return other


@pytest.mark.parametrize(
    "changes",
    [{"version": "0.0.1"}, {"machine": "another"}, {"texts": ["00", "11"]}, {"form": 99}, {"given": {"scale": 4, "R": 4}}],
)
def test_a_file_from_elsewhere_is_refused(path, tmp_path, changes):
    with pytest.raises(SavedElsewhere):
        andiron.load_kernel(changed(path, tmp_path, **changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"texts": []},
        {"texts": ["00"]},
        {"texts": 7},
        {"texts": None},
        {"schedules": "auto"},
        {"given": [1]},
        {"given": {"R": "4"}},
        {"op": None},
        {"target": 1},
        {"form": "2"},
        {"more": 1},
        {"leave_out": "kernel.json"},
        {"leave_out": "module.sched"},
        {"leave_out": "variant1"},
    ],
)
def test_a_file_that_is_no_kernel_though_its_checksum_is_right(path, tmp_path, changes):
    with pytest.raises(DamagedFile, match="does not hold a kernel") as caught:
        andiron.load_kernel(changed(path, tmp_path, **changes))
    assert caught.value.help


@pytest.mark.parametrize(
    "changes", [{"given": {"op": 1}}, {"op": "another"}, {"target": "cpu:none"}, {"schedules": ["x\n", "y"]}]
)
def test_a_file_whose_text_is_refused(path, tmp_path, changes):
    with pytest.raises(SavedElsewhere):
        andiron.load_kernel(changed(path, tmp_path, **changes))


def test_files_that_are_no_kernels(tmp_path, path):
    (tmp_path / "text").write_text("hello")
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "half").write_bytes(path.read_bytes()[:500])
    for name in ("text", "empty", "half"):
        with pytest.raises(DamagedFile, match=name) as caught:
            andiron.load_kernel(tmp_path / name)
        assert caught.value.help
    with zipfile.ZipFile(tmp_path / "zip", "w"):
        pass
    with pytest.raises(SavedElsewhere, match="earlier"):
        andiron.load_kernel(tmp_path / "zip")
    for nowhere in (tmp_path / "nowhere", tmp_path, "a\0b"):
        with pytest.raises(NoSuchFile):
            andiron.load_kernel(nowhere)


def test_every_flipped_bit_and_every_cut_is_seen(path, tmp_path):
    whole, bad = path.read_bytes(), tmp_path / "bad"
    rng = random.Random(0)
    flips = [*range(8 * 82), *rng.sample(range(8 * len(whole)), 400)]  # of the first lines all
    cuts = [0, 1, 15, 16, 79, 80, 81, len(whole) - 1, *rng.sample(range(len(whole)), 40)]
    assert len(whole) > 8 * 82
    for flip in flips:
        data = bytearray(whole)
        data[flip // 8] ^= 1 << flip % 8
        bad.write_bytes(data)
        with pytest.raises(DamagedFile):
            andiron.load_kernel(bad)
    for data in (*(whole[:cut] for cut in cuts), whole + b"\0", whole + whole):
        bad.write_bytes(data)
        with pytest.raises(DamagedFile):
            andiron.load_kernel(bad)
    bad.write_bytes(whole)
    assert andiron.load_kernel(bad).op.name == "gemm"


def test_a_failed_save_leaves_nothing(tmp_path):
    k = andiron.compile(TEXT)
    with pytest.raises(CannotWrite):
        k.save(tmp_path / "no" / "folder" / "k")
    with pytest.raises(CannotSave):
        andiron.compile(TEXT.split("schedule")[0], target="emulate:sm_80").save(tmp_path / "k")
    assert list(tmp_path.iterdir()) == []


def test_benchmark():
    k = andiron.compile(TEXT)
    found = k.benchmark(*arrays(8, 8, 8), repeat=3)
    assert len(found.samples) == 3
    assert 0 < min(found.samples) <= found.seconds <= max(found.samples)
    assert found.flops == 2 * 8 * 8 * 8 + 8 * 8
    assert "GFLOP/s" in str(found)
