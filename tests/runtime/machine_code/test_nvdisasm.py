"""The disassembler is found, and a machine without one says what to do."""

from __future__ import annotations

import stat

import andiron
import pytest
from andiron.dsl.errors.target import CompilerFailed, NoDisassembler
from andiron.runtime.machine_code import nvdisasm
from andiron.runtime.machine_code.main_loop_report import main_loop_reports

SCALE = "op scale[N](X: f32[N]) -> (Y: f32[N]):\n    Y[i] = 2.0 * X[i]\n"


def command(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IEXEC)
    return path


def test_one_that_the_user_names(monkeypatch, tmp_path):
    monkeypatch.setenv("ANDIRON_NVDISASM", str(command(tmp_path / "mine", 'echo "$@"')))
    assert nvdisasm.find_nvdisasm() == str(tmp_path / "mine")
    assert nvdisasm.disassemble(b"") == "-hex -c -gi kernel.cubin\n"


def test_one_on_the_path(monkeypatch, tmp_path):
    monkeypatch.delenv("ANDIRON_NVDISASM", raising=False)
    command(tmp_path / "nvdisasm", "echo release")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert nvdisasm.find_nvdisasm() == str(tmp_path / "nvdisasm")


def test_one_that_fails(monkeypatch, tmp_path):
    monkeypatch.setenv("ANDIRON_NVDISASM", str(command(tmp_path / "mine", '[ "$1" = --version ] || { echo broken; exit 3; }')))
    with pytest.raises(CompilerFailed, match="broken"):
        nvdisasm.disassemble(b"")


def test_a_machine_without_one(monkeypatch, tmp_path):
    monkeypatch.setenv("ANDIRON_NVDISASM", str(tmp_path / "nowhere"))
    with pytest.raises(NoDisassembler, match="no nvdisasm") as caught:
        nvdisasm.disassemble(b"")
    assert "andiron[cuda-tools]" in (caught.value.help or "")


@pytest.mark.parametrize("target", ["cpu:avx2", "emulate:sm_80"])
def test_machine_code_of_others_is_not_read(target):
    kernel = andiron.compile(SCALE, target=target)
    with pytest.raises(NoDisassembler, match=target) as caught:
        main_loop_reports(kernel.variants[0], {})
    assert "cuda:sm_80" in (caught.value.help or "")
