"""Checks can be left out: results stay, reports do not."""

from __future__ import annotations

import andiron
import numpy as np
import pytest
from andiron.codegen.ir.tile_ir import Barrier
from andiron.dsl.errors.emulate import DivergentBarrier, NotEmulated, Race
from andiron.runtime.native.build_library import NativeLibrary
from andiron.tools.cli import main

from ...support.gpu.faulty_kernels import SIZES, compiled, each_without, emulated, faults_of

ROWS = "op total[M, N](X: f32[M, N]) -> (Y: f32[M]):\n    Y[i] = sum(j) X[i, j]\n"
WHERE = ("simt", "tiled")


def without(kernel: andiron.Kernel) -> andiron.Kernel:
    kernel.variants[0].checks = False
    return kernel


def test_a_race_is_reported_with_checks_alone() -> None:
    op, program = compiled(*WHERE)
    reported = []
    for _, less in each_without(program, Barrier):
        reported.append(any(isinstance(e, Race) for e in faults_of(emulated(op, less), op, SIZES[WHERE])))
        x = np.zeros([e.evaluate(SIZES[WHERE]) for e in op.inputs[0].shape], "f4")
        without(emulated(op, less))(x)  # the numbers may be wrong; nothing is said
    assert any(reported)


def test_the_same_results() -> None:
    x = np.random.default_rng(0).integers(-4, 5, (37, 300)).astype("f4")
    for target in ("emulate:sm_80", "emulate:gfx90a"):
        kernel = andiron.compile(ROWS, target=target, checks=False)
        np.testing.assert_array_equal(kernel(x), x.sum(1))
        assert kernel.source == andiron.compile(ROWS, target=target).source


def test_no_access_is_told() -> None:
    """Both are kept, apart from each other; the one without checks has no calls of an observer, so it is quicker."""
    libraries = []
    for checks in (True, False):
        kernel = andiron.compile(ROWS, target="emulate:sm_80", checks=checks, M=3, N=40)
        kernel(np.ones((3, 40), "f4"))
        library = kernel.variants[0].load()
        assert isinstance(library, NativeLibrary)
        libraries.append((library.path, b"__tsan_read4" in library.path.read_bytes()))
    (checked, told), (unchecked, silent) = libraries
    assert told
    assert not silent
    assert checked != unchecked


def test_what_cannot_go_on_is_an_error_still() -> None:
    op, program = compiled(*WHERE)

    def edit(text: str) -> str:
        first = text.index('extern "C" __global__')
        return text[:first] + text[first:].replace("__syncthreads();", "if (threadIdx.x < 40) __syncthreads();")

    (error,) = faults_of(without(emulated(op, program, edit)), op, SIZES[WHERE])
    assert isinstance(error, DivergentBarrier)
    assert error.span is not None


def test_only_the_emulator_has_checks() -> None:
    with pytest.raises(NotEmulated):
        andiron.compile(ROWS, target="cpu:generic", checks=False)
    kernel = andiron.compile(ROWS, target="emulate:sm_80", checks=False)
    with pytest.raises(NotEmulated):
        kernel.counting = True


def test_command(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "rows.sched"
    file.write_text(ROWS, encoding="utf-8")
    given = ["run", str(file), "--target", "emulate:sm_80", "--size", "M=5,N=70"]
    assert main([*given, "--no-checks"]) == 0
    assert "without checks" in capsys.readouterr().out
    assert main(given) == 0
    assert "without checks" not in capsys.readouterr().out
    assert main(["run", str(file), "--target", "cpu:generic", "--no-checks"]) == 1
    assert "not-emulated" in capsys.readouterr().err
