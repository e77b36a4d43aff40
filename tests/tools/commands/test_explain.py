"""`andiron explain --sass`."""

from __future__ import annotations

import json

import pytest
from andiron.runtime.gpu.toolchains import toolchain_versions
from andiron.runtime.machine_code.nvdisasm import find_nvdisasm
from andiron.tools.cli import main

ON = ["--target", "cuda:sm_80", "--size", "M=512,N=512,K=512", "--schedule", "auto"]


def test_machine_code(gemm, capsys):
    if not toolchain_versions("cuda") or find_nvdisasm() is None:
        pytest.skip("no compiler of CUDA, or no nvdisasm: pip install 'andiron[cuda-tools]'")
    assert main(["explain", gemm, *ON]) == 0
    plain = capsys.readouterr().out
    assert main(["explain", gemm, *ON, "--sass"]) == 0
    text = capsys.readouterr().out
    assert text.startswith(plain)
    assert "main loop" in text[len(plain) :]
    assert "by the cycle model" in text
    assert main(["explain", gemm, *ON, "--sass", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [k["kernel"] for k in found["sass"]] == [k["kernel"] for k in found["compiled"]]
    assert found["sass"][0]["counts"]["fma"] > 0
    assert main(["explain", gemm, *ON, "--json"]) == 0
    assert "sass" not in json.loads(capsys.readouterr().out)


def test_a_target_without_a_disassembler(gemm, capsys):
    assert main(["explain", gemm, "--target", "cpu:avx2", "--sass", "--json"]) == 1
    said = capsys.readouterr()
    assert json.loads(said.out)["errors"][0]["id"] == "no-disassembler"
    assert "error[no-disassembler]: machine code for cpu:avx2 is not read" in said.err


def test_a_machine_without_a_disassembler(gemm, capsys, monkeypatch, tmp_path):
    if not toolchain_versions("cuda"):
        pytest.skip("no compiler of CUDA: pip install 'andiron[cuda-tools]'")
    monkeypatch.setenv("ANDIRON_NVDISASM", str(tmp_path / "nowhere"))
    assert main(["explain", gemm, *ON, "--sass"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "no nvdisasm" in said.err
    assert "andiron[cuda-tools]" in said.err
