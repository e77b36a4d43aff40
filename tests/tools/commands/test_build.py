"""`andiron build`: device code and libraries, called as a program that is not Python's would."""

import ctypes
import json
import shutil
import subprocess

import andiron
import numpy as np
import pytest
from andiron.runtime.gpu import nvcc
from andiron.tools.cli import main

from ...support.gpu.compilers import needs

SCALE = """
op scale[N](X: f32[N], a: f32[]) -> (Y: f32[N]) where N >= 3:
    Y[i] = a[] * X[i]
schedule fours for scale on nvidia:
    tile i: 256 -> block
    tile i: 4 -> thread
    compute
schedule waves for scale on amd:
    tile i: 256 -> block
    tile i: 4 -> thread
    compute
"""
ROWS = """
op row_sum[M, N](X: f32[M, N]) -> (S: f32[M]):
    S[i] = sum(j) X[i, j]
schedule short for row_sum where N <= 64:
    tile i: 2
    auto
schedule long for row_sum:
    auto
"""
MAIN = """
#include "scale.h"
#include <stdio.h>
int main(void) {
    float x[5] = {1, 2, 3, 4, 5}, a = 3, y[5];
    if (andiron_call_scale(x, &a, y, 5, 1)) return 1;
    printf("%g %g", y[0], y[4]);
    return andiron_call_scale(x, &a, y, 2, 1) == 100 ? 0 : 2;
}
"""


@pytest.fixture
def files(tmp_path, monkeypatch):
    (tmp_path / "scale.sched").write_text(SCALE)
    (tmp_path / "rows.sched").write_text(ROWS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def built(capsys, *args):
    assert main(["build", *args, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("output", ["scale.so", "scale.a"])
@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")
def test_a_program_in_c(files, capsys, output):
    answer = built(capsys, "scale.sched", "-o", output)
    assert [f["file"] for f in answer["files"]] == [output, "scale.h"]
    assert answer["symbol"] == "andiron_scale"
    (files / "main.c").write_text(MAIN)
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic"]
    subprocess.run(["gcc", *flags, "main.c", output, "-lm", "-pthread", "-Wl,-rpath,.", "-o", "main"], check=True)
    done = subprocess.run(["./main"], capture_output=True, text=True, check=True)
    assert done.stdout == "3 15"
    if shutil.which("g++"):
        subprocess.run(["g++", "-Wall", "-Werror", "-fsyntax-only", "-x", "c++", "scale.h"], check=True)


def test_several_variants_are_one_function(files, capsys):
    answer = built(capsys, "rows.sched")
    assert answer["files"][0]["file"] == "row_sum.so"
    call = ctypes.CDLL(str(files / "row_sum.so")).andiron_row_sum
    for n in (7, 64, 65, 300):
        x, s = np.random.default_rng(n).integers(-8, 9, (5, n)).astype("f4"), np.zeros(5, "f4")
        pointers = (ctypes.c_void_p * 2)(x.ctypes.data, s.ctypes.data)
        assert call(pointers, (ctypes.c_int64 * 2)(5, n), 2) == 0
        np.testing.assert_array_equal(s, x.sum(1))
    assert built(capsys, "rows.sched")["cached"]


@pytest.mark.parametrize(("target", "ending"), [("cuda:sm_90a", "cubin"), ("cuda:sm_80", "ptx"), ("hip:gfx942", "hsaco")])
def test_device_code(files, capsys, target, ending):
    needs(andiron.compile(SCALE, target=target).variants[0].target)
    answer = built(capsys, "scale.sched", "--target", target, "-o", f"k.{ending}")
    (file,) = answer["files"]
    data = (files / f"k.{ending}").read_bytes()
    assert file["bytes"] == len(data)
    assert data.startswith(b"\x7fELF" if ending != "ptx" else b"//")
    kernel, other = file["kernels"]
    assert kernel["name"] == "andiron_scale__scale_Y"
    assert kernel["needs"][-1] == "Y at a multiple of 16 bytes"
    assert other["name"] == "andiron_scale__scale_Y_any"
    assert other["needs"] == []
    assert kernel["name"].encode() in data
    assert kernel["parameters"] == ["X", "a", "Y", "N"]
    assert kernel["threads"] > 0
    assert "N" in kernel["blocks"]
    assert main(["build", "scale.sched", "--target", target, "--format", ending]) == 0
    said = capsys.readouterr().out
    assert f"scale.{ending}: {len(data):,} bytes, for N >= 3" in said
    assert "blocks of" in said


def test_device_code_of_each_variant(files, capsys):
    needs(andiron.compile(SCALE, target="cuda:sm_80").variants[0].target)
    answer = built(capsys, "rows.sched", "--target", "cuda:sm_80", "-o", "r.ptx")
    assert [f["file"] for f in answer["files"]] == ["r.ptx", "r.1.ptx"]
    assert (files / "r.1.ptx").exists()


def test_a_library_that_launches(files, capsys):
    """It loads, and says so where there is no GPU to launch on."""
    if nvcc.find_nvcc() is None:
        pytest.skip("no nvcc")
    answer = built(capsys, "rows.sched", "--target", "cuda:sm_80", "-o", "rows.so")
    assert answer["symbol"] == "andiron_row_sum"
    library = ctypes.CDLL(str(files / "rows.so"))
    library.andiron_row_sum__workspace.restype = ctypes.c_int64
    dims = (ctypes.c_int64 * 2)(5, 70)
    assert library.andiron_row_sum__workspace(dims) >= 0
    header = (files / "rows.h").read_text()
    assert "int andiron_row_sum(void* const* args, const int64_t* dims, void* stream);" in header
    empty = (ctypes.c_int64 * 2)(0, 70)
    assert library.andiron_row_sum((ctypes.c_void_p * 3)(), empty, None) == 0  # nothing to launch


def test_files_are_replaced_whole_or_not_at_all(files, capsys):
    (files / "scale.so").write_text("old")
    assert main(["build", "scale.sched", "--op", "none"]) == 1
    assert (files / "scale.so").read_text() == "old"
    assert main(["build", "scale.sched", "-o", "no/such/folder.so"]) == 1
    assert "cannot-write" in capsys.readouterr().err
    assert main(["build", "scale.sched"]) == 0
    assert (files / "scale.so").read_bytes().startswith(b"\x7fELF")


@pytest.mark.parametrize(
    ("target", "form", "known"),
    [("cpu", "ptx", "lib, archive"), ("cuda:sm_80", "hsaco", "cubin, ptx, lib"), ("hip:gfx90a", "archive", "hsaco, lib")],
)
def test_a_format_that_cannot_be(files, capsys, target, form, known):
    assert main(["build", "scale.sched", "--target", target, "--format", form]) == 1
    said = capsys.readouterr().err
    assert "wrong-format" in said
    assert known in said


def test_the_ending_of_the_file_says_the_format(files, capsys):
    assert main(["build", "scale.sched", "-o", "x.cubin"]) == 1
    assert "cannot be `cubin`" in capsys.readouterr().err


def test_no_compiler_for_a_library(files, capsys, monkeypatch):
    from andiron.runtime.gpu import clang

    monkeypatch.setattr(nvcc, "_find", lambda *_: None)
    monkeypatch.setattr(clang, "_find", lambda *_: ())
    for target, tool in (("cuda:sm_80", "nvcc"), ("hip:gfx90a", "hipcc")):
        assert main(["build", "scale.sched", "--target", target, "--format", "lib"]) == 1
        assert tool in capsys.readouterr().err


# ------------------------------------------------------------ what explain says of compiled code


def test_explain_with_a_compiler(files, capsys):
    needs(andiron.compile(SCALE, target="cuda:sm_80").variants[0].target)
    assert main(["explain", "scale.sched", "--target", "cuda:sm_80"]) == 0
    said = capsys.readouterr().out
    assert "kernel" in said
    assert "none spilled" in said
    assert "threads a unit" in said
    assert main(["explain", "scale.sched", "--target", "cuda:sm_80", "--json"]) == 0
    kernel, _ = json.loads(capsys.readouterr().out)["compiled"]
    assert kernel["registers"] > 0
    assert kernel["occupancy"]["blocks"] > 0


def test_explain_without_one(files, capsys, monkeypatch):
    from andiron.runtime.gpu import nvrtc

    monkeypatch.setattr(nvcc, "_find", lambda *_: None)
    monkeypatch.setattr(nvrtc, "_find", lambda *_: None)
    assert main(["explain", "scale.sched", "--target", "cuda:sm_80"]) == 0
    assert "not compiled: no compiler for cuda:sm_80" in capsys.readouterr().out
    assert main(["explain", "scale.sched", "--target", "cuda:sm_80", "--json"]) == 0
    assert "no compiler" in json.loads(capsys.readouterr().out)["compiled"]["note"]
