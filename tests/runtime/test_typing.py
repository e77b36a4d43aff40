"""What a user's type checker says: a program that uses the public names is strictly typed, and runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import andiron
import pytest

ROOT = Path(andiron.__file__).parent
PROGRAM = """\
import andiron
import numpy as np

TEXT = "op gemm[M, N, K](A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]):\\n    C[m, n] = sum(k) A[m, k] * B[k, n]\\n"

module = andiron.loads(TEXT)
names: list[str] = [*module.ops, *module.schedules, *module.devices]
k = andiron.compile(module, "gemm", target="cpu", threads=2, M=64)
A, B = np.ones((64, 3), np.float32), np.ones((3, 4), np.float32)
C = k(A, B)
k(A=A, B=B, out=C, threads=1)
k.prepare()
k.counting = False
text: str = k.source + k.schedule + str(k.report) + str(k.program)
seconds: float = k.benchmark(A, B, repeat=3).seconds
samples: tuple[float, ...] = k.benchmark(A, B).samples
notes: tuple[str, ...] = k.report.notes
flops: int | None = k.report.flops
k.save("gemm.kernel")
loaded = andiron.load_kernel("gemm.kernel")
D = loaded(A, B)


@andiron.kernel(TEXT)
def gemm(A: np.ndarray, B: np.ndarray) -> np.ndarray: ...


E = gemm(A, B, out=C)
made: str = gemm.kernel.source
scale = andiron.op("op scale[N](X: f32[N]) -> (Y: f32[N]):\\n    Y[i] = 2.0 * X[i]\\n")
F = scale(np.ones(3, np.float32))


def blocked(rows: int) -> andiron.Schedule:
    s = andiron.Schedule("blocked", "gemm", on="cpu:avx2", where=["M <= 4096"])
    s.param("R", 2, 4, default=rows).tile(k=256).tile(m=72, to="core")
    with s.move("A", "l2", layout={"panels": {"m": "R"}}):
        s.tile(m=1)
        s.compute()
    return s.tile(n=16, m="R").keep("C", "register").tile(k=1, unroll=4).compute("fma")


print(blocked(4), andiron.compile(module, schedule=blocked(4), target="cpu:avx2"))
try:
    andiron.load("nowhere.sched")
except andiron.AndironError as error:
    print(error)
R = andiron.reference(module.ops["gemm"])(A, B)
"""
WRONG = """\
import andiron

k = andiron.compile("gemm.sched", target=3)
number: int = k.source
k.nothing()
andiron.Schedule("s", "gemm").tiles(m=3)
"""


def complaints(program: str, folder: Path) -> list[str]:
    """What pyright, in strict mode, says of a program; each begins with the number of its line."""
    pytest.importorskip("pyright", reason="pyright checks types")
    (folder / "user.py").write_text(program)
    settings = {"typeCheckingMode": "strict", "include": ["user.py"], "extraPaths": [str(ROOT.parent)]}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    if not done.stdout.startswith("{"):
        pytest.skip("pyright does not run here: " + (done.stderr or done.stdout).strip()[-200:])
    return [f"{d['range']['start']['line'] + 1}: {d['message']}" for d in json.loads(done.stdout)["generalDiagnostics"]]


def test_a_program_is_strictly_typed(tmp_path):
    assert complaints(PROGRAM, tmp_path) == []


def test_mistakes_of_types_are_seen(tmp_path):
    assert sorted({line.split(":")[0] for line in complaints(WRONG, tmp_path)}) == ["3", "4", "5", "6"]


def test_that_program_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made: dict[str, object] = {"__name__": "user"}
    exec(compile(PROGRAM, "user.py", "exec"), made)
    for name in "CDER":
        assert (made[name] == 3).all()
