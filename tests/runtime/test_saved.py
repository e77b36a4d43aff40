"""Kernels in files: loaded without a compiler, and refused where their code would be wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile

import andiron
import numpy as np
import pytest
from andiron.dsl.errors.module import NoSuchFile
from andiron.dsl.errors.run import CannotSave, SavedElsewhere
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


def test_loading_takes_no_compiler(path, tmp_path):
    program = "import sys, andiron, numpy as np; k = andiron.load_kernel(sys.argv[1])"
    program += "; print(k(np.ones((2, 3), 'f4'), np.ones((3, 2), 'f4')))"
    env = {"PATH": "/nowhere", "ANDIRON_CXX": "/nowhere/c++", "ANDIRON_CACHE": str(tmp_path)}
    env["PYTHONPATH"] = os.environ.get("PYTHONPATH", "")
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], env=env, capture_output=True, text=True, timeout=120, cwd=tmp_path
    )
    assert done.stdout.split() == ["[[9.", "9.]", "[9.", "9.]]"], done.stderr


def test_it_can_be_saved_again(path, tmp_path):
    andiron.load_kernel(path).save(tmp_path / "again")
    a, b = arrays(3, 4, 5)
    np.testing.assert_array_equal(andiron.load_kernel(tmp_path / "again")(a, b), 3 * (a @ b))


def changed(path, tmp_path, **changes):
    """The file with other words in its description."""
    other = tmp_path / "changed"
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(other, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            new.writestr(name, json.dumps(json.loads(data) | changes) if name == "kernel.json" else data)
    return other


@pytest.mark.parametrize(
    "changes",
    [{"version": "0.0.1"}, {"machine": "another"}, {"texts": ["00", "11"]}, {"form": 99}, {"given": {"scale": 4, "R": 4}}],
)
def test_a_file_from_elsewhere_is_refused(path, tmp_path, changes):
    with pytest.raises(SavedElsewhere):
        andiron.load_kernel(changed(path, tmp_path, **changes))


def test_files_that_are_no_kernels(tmp_path, path):
    (tmp_path / "text").write_text("hello")
    (tmp_path / "half").write_bytes(path.read_bytes()[:500])
    for name in ("text", "half"):
        with pytest.raises(SavedElsewhere):
            andiron.load_kernel(tmp_path / name)
    with pytest.raises(NoSuchFile):
        andiron.load_kernel(tmp_path / "nowhere")


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
