"""A schedule whose lines break off is, for every command, the one that ends with `auto`; on processors and on GPUs."""

from __future__ import annotations

import json

import pytest
from andiron.codegen.schedule.implicit_auto import append_auto, lacks_compute
from andiron.dsl.module import loads
from andiron.dsl.syntax import AutoLine
from andiron.runtime.tuning import racing
from andiron.tools.cli import main

SOFTMAX = """\
op softmax[M, N](X: f32[M, N]) -> (Y: f32[M, N]):
    top[i]  = max(j) X[i, j]
    e[i, j] = exp(X[i, j] - top[i])
    Y[i, j] = e[i, j] / (sum(j2) e[i, j2])

"""
GEMM = """\
op gemm[M, N, K](A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]):
    C[m, n] = sum(k) A[m, k] * B[k, n]

strategy rows(size):
    tile m: size -> LEVEL

"""
LEVELS = {"cpu": "core", "emulate:sm_80": "block", "cuda:sm_80": "block"}
SIZES = {"softmax": "M=5,N=67", "gemm": "M=37,N=29,K=21"}
BEGINS = {  # how far the lines go
    "softmax": ["    tile i: 1 -> LEVEL\n"],
    "gemm": ["    tile m: 16 -> LEVEL\n", "    apply rows(16)\n", "    param BM in 16, 32\n    tile m: BM -> LEVEL\n"],
}
CASES = [(target, op, n) for target in LEVELS for op, lines in BEGINS.items() for n in range(len(lines))]


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("ANDIRON_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(racing, "ROUNDS", 2)


def written(tmp_path, op: str, lines: str, target: str, end: str) -> list[str]:
    """The command line's file, target and sizes; the same name of the file each time, for it is in what is printed."""
    text = {"softmax": SOFTMAX, "gemm": GEMM}[op] + f"schedule mine for {op}:\n{lines}{end}"
    path = tmp_path / "mine.sched"
    path.write_text(text.replace("LEVEL", LEVELS[target]))
    return [str(path), "--target", target, "--size", SIZES[op]]


@pytest.mark.parametrize(("target", "op", "n"), CASES)
def test_commands_agree(target, op, n, tmp_path, capsys):
    said = []
    for end in ("", "    auto\n"):
        given = written(tmp_path, op, BEGINS[op][n], target, end)
        row = []
        for command in ("complete", "emit", "explain"):
            assert main([command, *given, *(["--json"] if command == "explain" else [])]) == 0
            row.append(capsys.readouterr().out)
        row[2] = json.loads(row[2])["schedule"]
        said.append(row)
    assert said[0] == said[1]
    assert "auto" not in said[0][0].replace("mine_auto", "")


@pytest.mark.parametrize("target", ["cpu", "emulate:sm_80"])
@pytest.mark.parametrize("op", BEGINS)
def test_it_runs(op, target, tmp_path, capsys):
    given = written(tmp_path, op, BEGINS[op][0], target, "")
    assert main(["run", *given, "--compare", "--repeat", "1"]) == 0
    assert "wrong" not in capsys.readouterr().out


@pytest.mark.parametrize("end", ["", "    auto\n"])
def test_it_can_be_tuned(end, tmp_path, capsys):
    assert main(["tune", *written(tmp_path, "gemm", BEGINS["gemm"][0], "cpu", end), "--top", "2"]) == 0
    assert "2 candidates" in capsys.readouterr().out


@pytest.mark.parametrize("target", ["cpu", "cuda:sm_80"])
def test_tuning_has_the_same_candidates(target, tmp_path):
    from andiron.runtime.compile import resolve_request
    from andiron.runtime.tuning.candidates import tuning_candidates

    found = []
    for end in ("", "    auto\n"):
        file = written(tmp_path, "gemm", BEGINS["gemm"][1], target, end)[0]
        request = resolve_request(file, "gemm", "mine", target, None, {"M": 256, "N": 256, "K": 256})
        found.append([str(p.about) for p, _ in (x for x, _ in zip(tuning_candidates(request, 0), range(4), strict=False))])
    assert found[0] == found[1]
    assert len(found[0]) > 2


def test_what_breaks_off():
    def lines(*written: str):
        text = GEMM.replace("LEVEL", "block") + "schedule s for gemm:\n" + "".join(f"    {x}\n" for x in written)
        module = loads(text)
        return module.schedules["s"].lines, module.strategies

    for begun, strategies in (lines("tile m: 4"), lines("apply rows(4)"), lines("tile m: 4", "param N0 in 4, 8")):
        assert lacks_compute(begun, "global", strategies)
    for whole, strategies in (lines("tile m: 4", "compute"), lines("tile m: 4", "auto")):
        assert not lacks_compute(whole, "global", strategies)
        assert append_auto(whole, "global") == whole
    own, _ = lines("compute", "keep C in global:", "    tile m: 4")
    (_, kept) = append_auto(own, "global")
    assert isinstance(kept.block[-1], AutoLine)  # a launch of its own
    assert len(kept.block) == 2
    (_, kept, end) = append_auto(own, "dram")
    assert len(kept.block) == 1  # a write-back, which has no `compute`
    assert isinstance(end, AutoLine)
