"""The list of passes: each leaves a well-formed tile program whose text can be read back, and each can be looked at."""

from __future__ import annotations

import pytest
from andiron.codegen import pipeline
from andiron.codegen.interpret.faults import Fault
from andiron.codegen.ir.parser import parse
from andiron.codegen.ir.printer import show
from andiron.codegen.passes import Compilation
from andiron.codegen.pipeline import A_TRY, PASSES, Pass, compile_program
from andiron.codegen.record_passes import record_passes
from andiron.codegen.verify.well_formed import check_well_formed
from andiron.dsl.ops.specialise import bind_params
from andiron.tools.cli import main

from ..support.gemm_file import GEMM_OP as GEMM
from ..support.library.cases import library
from ..support.rotation import rotated

OPS = (
    *("gemm", "gemm_f16", "conv2d_nhwc", "softmax", "layernorm", "row_argmax", "full_sum", "transpose", "attention"),
    "depthwise_conv2d",
)
DEVICES = ("cpu:generic", "cpu:avx512", "sm_80", "gfx90a")


@pytest.fixture
def gemm(tmp_path):
    path = tmp_path / "gemm.sched"
    path.write_text(GEMM)
    return str(path)


@pytest.mark.parametrize(("name", "device"), rotated(OPS, DEVICES))
def test_programs_between_passes(name: str, device: str) -> None:
    module = library()
    seen = []

    def observer(x: Pass, c: Compilation, seconds: float) -> None:
        if not hasattr(c, "program"):
            return
        for program in (c.program, c.unaligned):
            if program is not None:
                check_well_formed(program, staged=x.name not in ("lower_launches", "check_coverage", "check_contributions"))
                text = show(program)
                assert show(parse(text, module.device)) == text, x.name
        seen.append(x.name)

    compile_program(module, bind_params(module.ops[name]), None, module.device(device), observer=observer)
    assert seen == [x.name for x in A_TRY[2:]]


def test_a_pass_that_leaves_no_program_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check above can fail: staging that is left over is not well formed."""
    module = library()
    left = tuple(x for x in A_TRY if x.name != "pipeline_copies")
    monkeypatch.setattr(pipeline, "A_TRY", left)
    with pytest.raises(Fault, match="is not staged yet"):
        check_well_formed(compile_program(module, bind_params(module.ops["gemm_f16"]), None, module.device("sm_80")).program)


def test_each_pass_says_why_it_stands_where_it_stands() -> None:
    assert len({x.name for x in PASSES}) == len(PASSES)
    assert all(x.why.endswith(".") and x.takes and x.gives for x in PASSES)


def test_records() -> None:
    module = library()
    compiled, records = record_passes(module, bind_params(module.ops["gemm"]), None, module.device("sm_80"))
    assert [x.name for x in records] == [x.name for x in PASSES]
    assert records[-1].text == show(compiled.program)
    assert all(x.seconds >= 0 for x in records)
    assert any("barrier" in x.text for x in records)
    before = [x.name for x in records].index("place_barriers")
    assert not any("barrier block" in x.text for x in records[:before])


# ---------------------------------------------------------------- the command


@pytest.mark.parametrize("name", [x.name for x in PASSES])
def test_every_pass_is_a_stage(name, gemm, capsys) -> None:
    assert main(["emit", gemm, "--target", "cuda:sm_80", "--stage", name]) == 0
    text = capsys.readouterr().out
    assert "program gemm(M, N, K)" in text or "op gemm" in text or "launch of C" in text


def test_what_a_pass_changed(gemm, capsys) -> None:
    assert main(["emit", gemm, "--target", "cuda:sm_80", "--stage", "place_barriers", "--diff"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["--- prove_guards", "+++ place_barriers"]
    assert any(x.startswith("+") and "barrier block" in x for x in lines)
    assert not any(x.startswith("-") for x in lines[2:])
    assert main(["emit", gemm, "--target", "cuda:sm_80", "--stage", "check_names", "--diff"]) == 0
    assert capsys.readouterr().out == "check_names changed nothing\n"


def test_timings(gemm, capsys) -> None:
    assert main(["emit", gemm, "--timings"]) == 0
    rows = [x.split() for x in capsys.readouterr().out.splitlines()]
    assert [x[0] for x in rows] == [*(x.name for x in PASSES), "text", "total"]
    assert float(rows[-1][1]) == pytest.approx(sum(float(x[1]) for x in rows[:-1]), abs=0.2)


def test_no_such_stage(gemm, capsys) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["emit", gemm, "--stage", "lowering"])
    assert caught.value.code == 2
    said = capsys.readouterr().err
    assert "there is no stage `lowering`" in said
    assert "place_barriers" in said
    assert main(["emit", gemm, "--diff"]) == 2
    assert "--diff is for a pass" in capsys.readouterr().err
