"""The interactive shell: what a session answers to lines and commands."""

from __future__ import annotations

import andiron
import pytest
from andiron.dsl.errors import UserError
from andiron.dsl.errors.op import BadSize
from andiron.dsl.errors.repl import NothingToDo, NothingToSchedule, NotUnderstood
from andiron.tools.repl.session import cells
from andiron.tools.repl.state import declarations, draft_of

from ...support.gemm_file import GEMM_OP as GEMM
from ...support.repl import Talk

# ---------------------------------------------------------------- lines


def test_a_line_shows_the_spec_it_leaves(talk):
    said = talk("tile m: 16 -> core")
    assert "C[16, 64] += A[16, 32] * B[32, 64]  @core" in said
    assert "7 tiles over the cores" in said
    assert "C[16, 8] += A[16, 32] * B[32, 8]" in talk("tile n: 8")


def test_what_a_step_changed_is_beside_it(talk):
    talk("tile n: 16, m: 6")
    talk("tile k: 1")
    assert "(was" in talk("compute with fma")


def test_a_nested_block(talk):
    said = talk("move B -> l3:\n    tile k: 1\n    tile n: 1 -> lane\n    compute")
    assert "B: l3" in said
    assert "        tile n: 1 -> lane" in talk("show")


def test_a_line_with_one_op_begins_a_schedule():
    talk = Talk(GEMM, "tile m: 4")
    assert talk("show").startswith("schedule draft for gemm:\n    tile m: 4")


@pytest.mark.parametrize("text", ["", "import std.ops.gemm"])
def test_a_line_needs_an_op(text):
    talk = Talk(text)
    with pytest.raises(NothingToSchedule):
        talk("tile m: 4")


def test_a_mistake_changes_nothing(talk):
    before = talk.session.now
    for wrong in ("tile q: 4", "move A -> nowhere", "tile m: ", "frobnicate", "size M=x", "keep C in register\nbogus"):
        with pytest.raises(UserError):
            talk(wrong)
    assert talk.session.now == before


def test_words_that_nobody_knows():
    with pytest.raises(NotUnderstood, match="tyle") as found:
        Talk()("tyle m: 4")
    assert "`tile`" in found.value.help


# ---------------------------------------------------------------- commands


def test_undo_and_redo_are_inverse(talk):
    start = talk.session.now
    talk("tile m: 16 -> core")
    after = talk.session.now
    talk("undo")
    assert talk.session.now == start
    talk("redo")
    assert talk.session.now == after
    with pytest.raises(NothingToDo):
        talk("redo")


def test_try_changes_nothing_and_tells_what_is_refused(talk):
    before = talk.session.now
    said = talk("try tile m: 16 -> core | tile q: 4 | compute")
    assert talk.session.now == before
    assert "tile m: 16 -> core" in said
    assert "at least" in said
    assert "tile q: 4: " in said


def test_try_proposes_lines_of_its_own(talk):
    talk("tile m: 16 -> core")
    talk("tile n: 16, m: 4")
    talk("tile k: 1")
    assert "compute with fma" in talk("try")


def test_complete_gives_the_same_kernel(talk):
    talk("tile m: 16 -> core")
    before = talk.session.kernel()
    explicit = talk("complete")
    assert explicit.startswith("schedule s for gemm on cpu:avx2:\n    tile m: 16 -> core\n")
    talk("complete keep")
    assert talk.session.kernel().source == before.source
    assert explicit.strip() in talk("show")


def test_code_for_several_targets(talk):
    assert 'extern "C"' in talk("code")
    talk = Talk(GEMM)
    assert "__global__" in talk("code cuda:sm_80")


def test_diff(talk):
    talk("tile m: 16 -> core")
    talk("tile m: 4")
    assert "+    tile m: 4" in talk("diff")
    assert talk("diff code").startswith("--- before")


def test_run_checks_the_result():
    talk = Talk(GEMM, "size M=33 N=17 K=9", "tile m: 16 -> core")
    assert "check     OK" in talk("run")


def test_save_and_load(talk, tmp_path):
    talk("tile m: 16 -> core")
    path = tmp_path / "s.sched"
    talk(f"save {path}")
    assert list(andiron.load(path).schedules) == ["s"]
    other = Talk(f"load {path}")
    assert other.session.now.draft == talk.session.now.draft
    assert "tile m: 16 -> core" in other("show")


@pytest.mark.parametrize("change", [lambda t: t.replace("\n", "\r\n"), lambda t: "\ufeff" + t, lambda t: t.rstrip("\n")])
def test_load_files_of_other_editors(tmp_path, change):
    text = f"language 1\n\n{GEMM}\nschedule s for gemm:\n    tile m: 16\n"
    (tmp_path / "a.sched").write_bytes(change(text).encode())
    assert Talk(f"load {tmp_path}/a.sched")("show all") == text.rstrip("\n")


def test_the_version_of_the_language_comes_first(talk, tmp_path):
    assert talk("language 1") == "language 1"
    talk("import std.ops.reduce")
    talk("language 1  # again")
    assert talk("show all").startswith("language 1  # again\n\nimport std.ops.reduce\n\nop gemm")
    talk(f"save {tmp_path}/a.sched")
    assert (tmp_path / "a.sched").read_text().startswith("language 1  # again\n\nimport")
    again = Talk(f"load {tmp_path}/a.sched")
    assert again("show all") == talk("show all")
    with pytest.raises(UserError, match="version 2"):
        talk("language 2")
    assert "first statement" in talk("help language")


def test_use_another_schedule(talk):
    talk("tile m: 16 -> core")
    talk("schedule t for gemm:\n    tile n: 8")
    assert "tile n: 8" in talk("show")
    assert "tile m: 16" in talk("use s")
    assert "schedule t for gemm" in talk("show all")
    with pytest.raises(NothingToDo):
        talk("use r")


def test_an_op_may_be_declared_anew(talk):
    talk(GEMM.replace("f32", "f64"))
    assert talk.session.kernel().op.inputs[0].dtype.name == "f64"


def test_help(talk):
    every = talk("help")
    assert all(word in every for word in ("undo", "try", "save FILE", "complete"))
    assert "Cuts the spec" in talk("help tile")
    assert "neither a declaration" in talk("help not-understood")
    with pytest.raises(NothingToDo):
        talk("help frobnication")


@pytest.mark.parametrize(
    ("topic", "said"),
    [
        ("op", "Reductions"),
        ("swizzle", "move TENSOR -> MEMORY swizzle"),
        ("vector", "vector COUNT"),
        ("l2", "memory l2"),
        ("core", "level core"),
        ("fma_f32x8", "instr fma_f32x8"),
        ("fma", "instructions of cpu:avx2"),
    ],
)
def test_help_on_words_of_the_language_and_of_the_device(talk, topic, said):
    assert said in talk(f"help {topic}")


def test_help_lists_every_command_once(talk):
    lines = [line.split(":")[0].split()[0] for line in talk("help").splitlines() if line.startswith("    ")]
    assert len(lines) == len(set(lines))


def test_what_a_command_does_not_take_is_told(talk):
    for wrong in ("undo 5", "show foo", "complete all", "diff text", "run fast", "code cuda hip", "use", "use a b"):
        before = talk.session.now
        with pytest.raises(NotUnderstood):
            talk(wrong)
        assert talk.session.now == before


def test_sizes_that_nothing_has(talk):
    with pytest.raises(UserError, match="has a size `Q`"):
        talk("size Q=3")
    with pytest.raises(UserError, match="0 or more"):
        talk("size M=-1")
    talk("op half[L](X: f32[L]) -> (Y: f32[L]):\n    Y[i] = 0.5 * X[i]")  # has none of the sizes that are fixed
    talk("schedule h for half:\n    tile i: 8")
    assert "size=" not in talk("size L=24")


@pytest.mark.parametrize(("target", "said"), [("cpp", 'extern "C"'), ("cuda", "__global__"), ("hip", "__global__")])
def test_code_for_another_kind_of_machine(talk, monkeypatch, target, said):
    from andiron.dsl.errors.target import NoDevice
    from andiron.runtime.gpu import dispatch

    def nothing(family):
        raise NoDevice(f"no driver of {family} on this machine")

    monkeypatch.setattr(dispatch, "find_driver", nothing)
    text = talk(f"code {target}")
    assert said in text
    if target != "cpp":
        assert "`s` is for cpu:avx2; for" in text
    assert talk.session.now.draft.device == "cpu:avx2"


def test_when_nothing_is_left_open_it_is_said(talk):
    talk("tile m: 4")
    assert "nothing is open" in talk("compute")
    with pytest.raises(NothingToDo, match="nothing can follow"):
        talk("try")


def test_declarations_are_all_right_or_not_taken(talk):
    before = talk.session.now
    wrong = ("a for gemm on sm_81:\n    auto", "b for gem:\n    auto", "c for gemm:\n    tile q: 4")
    with pytest.raises(UserError) as found:
        talk("\n\n".join(f"schedule {text}" for text in wrong))
    assert [e.id for e in found.value.errors] == ["unknown-device", "schedule-unknown-op", "schedule-unknown-index"]
    assert talk.session.now == before


def test_mistakes_of_a_file_are_told_by_its_name_and_lines(tmp_path):
    path = tmp_path / "wrong.sched"
    path.write_text(GEMM + "\nschedule s for gemm:\n    tile q: 4\n\nschedule t for gemm on nowhere:\n    auto\n")
    with pytest.raises(UserError) as found:
        Talk(f"load {path}")
    assert f"{path}:5:10" in str(found.value)
    assert f"{path}:7:24" in str(found.value)


def test_a_file_of_several_schedules_shows_the_last_one_only(tmp_path):
    path = tmp_path / "two.sched"
    path.write_text(GEMM + "\nschedule s for gemm:\n    tile m: 4\n\nschedule t for gemm:\n    tile n: 8\n")
    said = Talk(f"load {path}").said
    assert said[0].startswith("op gemm")
    assert said[1] == "schedule s"
    assert said[2].startswith("schedule t for gemm\n")
    assert len(said) == 3


# ---------------------------------------------------------------- text


def test_cells_of_a_text():
    text = f"# a comment\n{GEMM}\nschedule s for gemm:\n    tile m: 4\n\n    auto\ntile n: 4\nmove A -> l2:\n    compute\nrun\n"
    assert [c.split("\n")[0].split("(")[0] for c in cells(text.splitlines())] == [
        "# a comment", "schedule s for gemm:", "tile n: 4", "move A -> l2:", "run"
    ]  # fmt: skip


def test_a_declaration_keeps_its_comments():
    text = f"# first\n{GEMM}\n# second\nschedule s for gemm:  # beside\n    tile m: 4  # a\n    # above\n    auto\n"
    (_, _, op, _), (_, _, schedule, _) = declarations(text)
    assert op.startswith("# first\nop gemm")
    draft = draft_of(schedule + "\n")
    assert draft.lines == ("tile m: 4  # a\n# above", "auto")
    assert draft.text.startswith("# second\nschedule s for gemm:\n")


def test_try_takes_no_empty_line(talk):
    assert len(talk("try tile m: 4 || tile m: 8 |").splitlines()) == 2
    with pytest.raises(NotUnderstood, match="wants lines"):
        talk("try |")


def test_sizes_have_64_bits_before_there_is_a_schedule():
    talk = Talk(GEMM)
    for value in (2**63, -(2**63)):
        with pytest.raises(BadSize, match="does not fit 64 bits"):
            talk(f"size M={value}")
    assert talk(f"size M={2**63 - 1}") == f"sizes: M={2**63 - 1}"


def test_try_lists_whole_schedules_too(talk):
    talk = Talk(GEMM, "schedule s for gemm on sm_80:", "size M=256 N=256 K=256")
    said = talk("try").split("all that is left at once:")
    assert len(said) == 2
    assert said[1].count("predicted") == 5
    assert "contraction" in said[1]
    talk("tile m: 32, n: auto -> block")
    after = talk("try").split("all that is left at once:")[1]
    assert "bm=32" in after
    assert "bm=64" not in after
    assert "at once" not in talk("try compute")


def test_tune_in_the_shell(monkeypatch, tmp_path):
    from andiron.dsl.errors.run import CannotTune
    from andiron.runtime.tuning import racing, search

    monkeypatch.setenv("ANDIRON_CACHE", str(tmp_path))
    monkeypatch.setattr(racing, "ROUNDS", 2)
    monkeypatch.setattr(search, "winner", lambda trials: [t for t in trials if t.samples and not t.rejected][-1])
    talk = Talk(GEMM, "schedule s for gemm:", "size M=40 N=33 K=20")
    before = talk("complete")
    assert "kept in the cache" in talk("tune 3")
    assert talk("complete") != before
    talk("complete keep")
    with pytest.raises(CannotTune):
        talk("tune")
    with pytest.raises(NotUnderstood):
        talk("tune fast")
