"""Threads of kernels are compiled once for each compiler, and linked; a kernel's own text has them as well."""

from __future__ import annotations

from pathlib import Path

import andiron
import numpy as np
import pytest
from andiron.runtime.native.cxx_compiler import CxxCompiler, find_compiler

# Names that the text of the threads would have to leave to the op.
OP = """op f[M, m_team, PATIENCE](A: f32[M, PATIENCE], B: f32[PATIENCE, m_team]) -> (C: f32[M, m_team]):
    C[m, n] = sum(k) A[m, k] * B[k, n]
"""


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """What the compiler is asked from now on, with a cache that has nothing."""
    monkeypatch.setenv("ANDIRON_CACHE", str(tmp_path / "cache"))
    said: list[list[str]] = []
    run = CxxCompiler.run
    monkeypatch.setattr(CxxCompiler, "run", lambda self, args, folder: (said.append(args), run(self, args, folder))[1])
    return said


def compiled(text: str) -> andiron.Kernel:
    kernel = andiron.compile(text, threads=3, tune=0)
    rng = np.random.default_rng(1)
    a, b = rng.random((130, 70), dtype=np.float32), rng.random((70, 90), dtype=np.float32)
    np.testing.assert_allclose(kernel(a, b), a @ b, rtol=1e-5)
    return kernel


def objects(said: list[list[str]]) -> list[str]:
    return [x for args in said for x in args if x.endswith("team.o") and "-c" not in args]


def test_two_kernels_share_one_object(commands: list[list[str]]) -> None:
    compiled(OP)
    compiled(OP.replace("A[m, k] *", "2.0 * A[m, k] * 0.5 *"))
    assert sum("-c" in args for args in commands) == 1
    first, second = objects(commands)
    assert first == second


def test_a_kernel_is_built_though_the_object_is_removed(commands: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    run = CxxCompiler.run

    def remove(self: CxxCompiler, args: list[str], folder: Path) -> None:
        for x in objects([args]):
            Path(x).unlink()
        run(self, args, folder)

    monkeypatch.setattr(CxxCompiler, "run", remove)
    compiled(OP)
    assert "m_team_is_linked" not in " ".join(commands[-1])


def test_the_text_alone_is_a_library(commands: list[list[str]], tmp_path: Path) -> None:
    kernel = compiled(OP)
    (tmp_path / "kernel.cpp").write_text(kernel.source)
    assert "pthread_create" in kernel.source
    find_compiler().build(tmp_path / "kernel.cpp", tmp_path / "kernel.so", ("-shared", "-fPIC", "-pthread", "-Wno-psabi"))
