"""`check` compiles what a file says, for the devices that it is for, and keeps its answers by content."""

from __future__ import annotations

import json

import andiron
import pytest
from andiron.codegen import pipeline
from andiron.dsl.errors import InternalError
from andiron.runtime.storage.cache import Cache
from andiron.tools import cli
from andiron.tools.checks import compile_schedules, file_findings, spills

GEMM = """\
op gemm[M, N, K](A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]):
    C[m, n] = sum(k) A[m, k] * B[k, n]

"""
BLOCKS = "schedule s for gemm:\n    tile m: 64, n: 64 -> block\n    tile m: 4, n: 4 -> thread\n"


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """A cache of this test's own: an answer is not one of an earlier run."""
    monkeypatch.setenv("ANDIRON_CACHE", str(tmp_path / "cache"))


def check(tmp_path, text, *options):
    (tmp_path / "x.sched").write_text(text, encoding="utf-8")
    return cli.main(["check", *options, str(tmp_path / "x.sched")])


def test_a_schedule_of_blocks_without_a_device_is_checked_for_the_usual_gpus(tmp_path, capsys):
    assert check(tmp_path, GEMM + BLOCKS) == 0
    module = andiron.loads(GEMM + BLOCKS)
    assert [d.name for d in compile_schedules.devices_of(module, module.schedules["s"])] == ["sm_80", "gfx90a"]
    assert check(tmp_path, GEMM + BLOCKS.replace("4 -> thread", "4 -> therad")) == 1
    assert "therad" in capsys.readouterr().err


def test_names_in_strategies_count_too(tmp_path):
    text = (
        GEMM
        + "strategy mine(T):\n    move T -> shared\nschedule s for gemm:\n    tile m: 64, n: 64 -> warp\n    apply mine(A)\n"
    )
    module = andiron.loads(text)
    assert [d.name for d in compile_schedules.devices_of(module, module.schedules["s"])] == ["sm_80"]


def test_a_plain_schedule_is_for_this_machine():
    module = andiron.loads(GEMM + "schedule s for gemm:\n    tile m: 4, n: 4\n    keep C in register\n")
    assert [d.name for d in compile_schedules.devices_of(module, module.schedules["s"])] == ["cpu:native"]


def test_an_unknown_device_is_underlined(tmp_path, capsys):
    assert check(tmp_path, GEMM + "schedule s for gemm on sm_991:\n    auto\n") == 1
    shown = capsys.readouterr().err.splitlines()
    assert "x.sched:4:24" in shown[1]
    assert shown[3].endswith(" " * 23 + "^" * 6)


def test_an_op_without_a_schedule_is_compiled_too(tmp_path, monkeypatch):
    """By the compiler's own: a file without mistakes can be run."""
    seen = []
    monkeypatch.setattr(
        compile_schedules,
        "compile_program",
        lambda m, op, s, d: seen.append((op.name, s)) or pipeline.compile_program(m, op, s, d),
    )
    assert check(tmp_path, GEMM) == 0
    assert seen == [("gemm", None)]


def test_text_is_printed_too(tmp_path, capsys, monkeypatch):
    """A fault in what comes behind lowering is told by `check`, with the schedule that has it."""

    def broken(program, dialect):
        raise InternalError("no text")

    monkeypatch.setattr(compile_schedules, "emit", broken)
    assert check(tmp_path, GEMM + BLOCKS) == 1
    assert "error[internal]: no text (schedule `s` for gemm on sm_80)" in capsys.readouterr().err


def test_answers_are_kept_by_content(tmp_path, capsys, monkeypatch):
    compiled = []
    monkeypatch.setattr(compile_schedules, "compile_program", lambda *a: compiled.append(a) or pipeline.compile_program(*a))
    assert check(tmp_path, GEMM + BLOCKS) == 0
    first = len(compiled)
    assert first == 3  # two GPUs, and the op by the compiler's own on this machine
    assert check(tmp_path, GEMM + BLOCKS) == 0
    assert len(compiled) == first
    assert check(tmp_path, GEMM + BLOCKS.replace("64, n", "32, n")) == 0
    assert len(compiled) == 2 * first
    wrong = BLOCKS.replace("tile m: 64", "tile q: 64")
    assert check(tmp_path, GEMM + wrong, "--json") == 1
    assert check(tmp_path, GEMM + wrong, "--json") == 1
    both = capsys.readouterr().out
    answers = [json.loads("{" + x) for x in both.split("\n{")[-2:]]
    assert answers[0] == answers[1]
    assert answers[0]["errors"][0]["id"] == "schedule-unknown-index"


def test_an_answer_of_other_code_is_not_taken(tmp_path, monkeypatch):
    assert check(tmp_path, GEMM) == 0
    monkeypatch.setattr(file_findings, "own_code_hash", lambda: "another state")
    asked = []
    monkeypatch.setattr(compile_schedules, "compile_program", lambda *a: asked.append(a) or pipeline.compile_program(*a))
    assert check(tmp_path, GEMM) == 0
    assert asked


def test_answers_have_a_name_in_the_cache(tmp_path, capsys):
    assert check(tmp_path, GEMM) == 0
    assert cli.main(["cache", "list"]) == 0
    said = capsys.readouterr().out
    assert "check of " in said
    assert "damaged" not in said


def test_a_damaged_answer_is_made_again(tmp_path, monkeypatch):
    assert check(tmp_path, GEMM) == 0
    for entry in Cache().entries():
        (entry.path / "answer.json").write_text("{}")
    assert check(tmp_path, GEMM) == 0


MANY = GEMM + "schedule s for gemm on cpu:avx2:\n    tile m: 8, n: 8\n    keep C in register\n    tile k: 1\n    compute\n"


def test_warnings_are_no_mistakes(tmp_path, capsys):
    """With their line and a way out; the exit status is 0, and an answer from the cache has them too."""
    for _ in range(2):
        assert check(tmp_path, MANY) == 0
        said = capsys.readouterr()
        assert said.out == "1 file: no mistakes, 1 warning\n"
        assert said.err.startswith("warning[too-many-registers]: ")
        assert "x.sched:6:5" in said.err
        assert "  help: " in said.err
    assert check(tmp_path, MANY, "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["errors"] == []
    (warning,) = answer["warnings"]
    assert (warning["id"], warning["line"], warning["column"]) == ("too-many-registers", 6, 5)


def test_an_imported_schedule_is_not_warned_of(tmp_path, capsys):
    (tmp_path / "other.sched").write_text(MANY)
    assert check(tmp_path, 'import "other.sched"\n') == 0
    assert capsys.readouterr().out == "1 file: no mistakes\n"


def test_spills_that_a_compiler_reported(tmp_path, capsys, monkeypatch):
    from andiron.dsl.errors.target import NoCompiler
    from andiron.runtime.gpu.resource_usage import ResourceUsage

    text = GEMM + "schedule s for gemm on sm_80:\n    tile m: 64, n: 64 -> block\n    tile m: 4, n: 4 -> thread\n"
    said = ResourceUsage("gemm_C", 256, 64, 255, 96, 0, None)
    monkeypatch.setattr(spills, "resource_usage", lambda variant: [said])
    monkeypatch.setattr(file_findings, "VERIFIERS", (spills.spill_warnings,))  # the others take seconds
    assert check(tmp_path, text, "--verify") == 0
    assert "warning[spills]: gemm_C: the compiler stores 96 B a thread for lack of registers" in capsys.readouterr().err
    assert check(tmp_path, text) == 0
    assert "spills" not in capsys.readouterr().err

    def missing(variant):
        raise NoCompiler("none")

    monkeypatch.setattr(spills, "resource_usage", missing)
    assert check(tmp_path, text, "--verify") == 0
    assert "spills" not in capsys.readouterr().err
