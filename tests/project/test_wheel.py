"""The wheel: built, installed in an environment of its own, used from another folder."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

from ..support.gemm_file import GEMM_OP as GEMM
from ..support.paths import ROOT


def run(*command, **options):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    if not (ROOT / "pyproject.toml").exists():
        pytest.skip("not a source tree")
    tree, out = tmp_path_factory.mktemp("tree") / "andiron", tmp_path_factory.mktemp("wheels")
    # A copy without what earlier builds left, which setuptools would take for part of the package.
    shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns("build", "*.egg-info", ".git", "__pycache__", ".*_cache"))
    alone = [] if int(version("setuptools").partition(".")[0]) < 77 else ["--no-build-isolation"]
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", *alone, "-q", "-w", out, tree)
    (made,) = out.glob("andiron-*.whl")
    return made


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python]
    run(*pip, "install", "--no-deps", "--no-index", "-q", "--disable-pip-version-check", wheel)
    # The dependencies are those of the environment the tests run in: nothing is downloaded.
    (site,) = (folder / "lib").glob("python*/site-packages")
    (site / "dependencies.pth").write_text("\n".join({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}) + "\n")
    return folder


def test_it_holds_the_package_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    tops = {n.partition("/")[0] for n in names}
    assert tops == {"andiron", f"andiron-{version('andiron')}.dist-info"}
    held = set(names)
    for wanted in ("py.typed", "grammar/sched.lark", "stdlib/devices/cpu.sched", "tools/cli.py", "dsl/errors/run.py"):
        assert f"andiron/{wanted}" in held
    code = {p.relative_to(ROOT).as_posix() for room in PARTS for p in (ROOT / room).rglob("*") if wanted_in_wheel(p)}
    assert {n.removeprefix("andiron/") for n in names if n.startswith("andiron/")} >= code
    assert not any(n.startswith(("andiron/tests", "andiron/docs", "andiron/examples")) for n in names)


PARTS = ("grammar", "dsl", "codegen", "runtime", "stdlib", "tools")


def wanted_in_wheel(path):
    return (
        path.is_file()
        and "__pycache__" not in path.parts
        and path.suffix in (".py", ".lark", ".sched", ".j2", ".h", ".cpp", ".jinja")
    )


def test_it_runs_a_kernel_from_another_folder(environment, tmp_path):
    (tmp_path / "gemm.sched").write_text(GEMM)
    env = {**os.environ, "ANDIRON_CACHE": str(tmp_path / "cache"), "PYTHONPATH": ""}
    where = run(environment / "bin" / "python", "-c", "import andiron; print(andiron.__file__)", cwd=tmp_path, env=env)
    assert Path(where.strip()).is_relative_to(environment)
    said = run(
        environment / "bin" / "andiron", "run", "gemm.sched", "--size", "M=9,N=7,K=5", "--repeat", "1", "--json",
        cwd=tmp_path, env=env,
    )  # fmt: skip
    answer = json.loads(said)
    assert answer["ok"]
    assert answer["sizes"] == {"M": 9, "N": 7, "K": 5}
