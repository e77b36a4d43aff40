"""What the README says is so: its commands, its table, its examples."""

import re
import subprocess

import andiron
import pytest
from andiron.tools.cli import COMMANDS

from ..support.paths import ROOT

TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)[^\n]*\n(.*?)^```$", TEXT, flags=re.MULTILINE | re.DOTALL)


def test_it_opens_with_the_two_commands():
    (_, run), (_, tests) = BLOCKS[:2]
    install, example = run.strip().split(" && ")
    assert install == "python -m pip install '.[compiler]'"
    program, command, path = example.split()
    assert (program, command) == ("andiron", "run")
    assert (ROOT / path).is_file()
    assert "[test]" in tests
    assert "pytest" in tests


def test_ci_runs_the_second_command():
    script = (ROOT / ".ci" / "run").read_text()
    (awk,) = re.findall(r"command=\$\((awk .*? README\.md)\)", script)
    said = subprocess.run(["bash", "-c", awk], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert said == BLOCKS[1][1]


def test_the_table_lists_the_commands():
    assert re.findall(r"^\| `andiron (\w+)", TEXT, flags=re.MULTILINE) == [c.NAME for c in COMMANDS]


def test_its_schedule_compiles():
    (schedule,) = [body for _, body in BLOCKS if body.startswith("op ")]
    k = andiron.compile(schedule, M=8, N=8, K=8)
    assert "keep C in register" in k.schedule


def test_its_python_compiles():
    (python,) = [body for kind, body in BLOCKS if kind == "python"]
    compile(python, "README.md", "exec")
    for name in re.findall(r"andiron\.(\w+)", python):
        assert name in andiron.__all__


@pytest.mark.parametrize("path", sorted(ROOT.glob("docs/decisions/*.md")), ids=lambda p: p.name)
def test_decisions_say_what_why_and_what_was_rejected(path):
    said = path.read_text(encoding="utf-8")
    assert said.startswith("# ")
    assert len(said.splitlines()) < 60
