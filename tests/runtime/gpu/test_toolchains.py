"""Compilers of CUDA and HIP text: found, asked, believed, and their refusals passed on."""

from __future__ import annotations

import os
import stat
from dataclasses import replace

import andiron
import pytest
from andiron.codegen.targets import Target
from andiron.dsl.errors import InternalError
from andiron.dsl.errors.target import CompilerFailed, NoCompiler
from andiron.runtime.gpu import clang, nvcc, nvrtc, toolchains
from andiron.runtime.gpu.amdgpu_remarks import parse_remarks
from andiron.runtime.gpu.device_code import FORMATS, KernelUsage
from andiron.runtime.gpu.ptxas import parse_ptxas

from ...support.gpu.compilers import needs

SCALE = "op scale[N](X: f32[N]) -> (Y: f32[N]):\n    Y[i] = 2.0 * X[i]\n"
MAGIC = {"cubin": b"\x7fELF", "hsaco": b"\x7fELF", "ptx": b"//"}


def source_for(target: str) -> tuple[str, Target]:
    kernel = andiron.compile(SCALE, target=target)
    return kernel.source, kernel.variants[0].target


@pytest.mark.parametrize("name", ["cuda:sm_75", "cuda:sm_120a", "hip:gfx90a", "hip:gfx1100"])
def test_code_of_every_format(name, monkeypatch, tmp_path):
    monkeypatch.setenv("ANDIRON_CACHE", str(tmp_path / "cache"))  # where nothing is yet
    text, target = source_for(name)
    needs(target)
    for form in FORMATS[target.family.dialect]:
        first = toolchains.build_code(text, target, form)
        again = toolchains.build_code(text, target, form)
        assert first.data.startswith(MAGIC[form])
        assert not first.cached
        assert again == replace(first, cached=True)
        assert not first.words
        if form != "ptx":
            assert first.usage
            for usage in first.usage:
                assert usage.kernel in text
                assert 1 <= usage.registers <= 64
                assert usage.spills == usage.stack == usage.shared == 0


@pytest.mark.parametrize("name", ["cuda:sm_80", "hip:gfx90a"])
def test_a_text_that_is_not_accepted_is_our_fault(name):
    text, target = source_for(name)
    needs(target)
    with pytest.raises(InternalError, match="nonsense"):
        toolchains.build_code(text + "nonsense\n", target)


def test_both_compilers_of_cuda(tmp_path):
    """NVRTC and nvcc have the same front end, and answer alike."""
    found = [x for x in (nvrtc.find_nvrtc(), nvcc.find_nvcc()) if x]
    if not found:
        pytest.skip("neither NVRTC nor nvcc is here")
    text, _ = source_for("cuda:sm_80")
    for compiler in found:
        assert compiler.knows("sm_80")
        assert compiler.knows("sm_90a")
        assert not compiler.knows("gfx90a")
        answer = compiler.make(text, "sm_80", "cubin", tmp_path)
        assert answer.data.startswith(b"\x7fELF")
        assert "andiron_scale__scale_Y" in {u.kernel for u in answer.usage}
        doubtful = text + "__global__ void odd() { int unused_thing; }\n"
        assert "unused_thing" in compiler.make(doubtful, "sm_80", "ptx", tmp_path).words
        with pytest.raises(CompilerFailed, match="error"):
            compiler.make("nonsense", "sm_80", "cubin", tmp_path)


def test_functions_that_only_rocm_has(tmp_path):
    compilers = [c for c in clang.find_clangs() if c.kind == "zig"]
    if not compilers:
        pytest.skip("no ziglang")
    text = 'extern "C" __attribute__((device)) double __ocml_sin_f64(double);\n'
    text += 'extern "C" __attribute__((global)) void k(double* p) { *p = __ocml_sin_f64(*p); }\n'
    with pytest.raises(CompilerFailed, match="__ocml_sin_f64") as caught:
        compilers[0].make(text, "gfx90a", "hsaco", tmp_path)
    assert "hipcc" in (caught.value.help or "")


def test_a_device_that_compilers_do_not_know():
    target = (
        andiron.compile(SCALE + "device mine extends sm_80:\n    units 2\n", "scale", target="cuda:mine").variants[0].target
    )
    assert target.arch == "sm_80"
    with pytest.raises(NoCompiler, match="extends none"):
        toolchains.find_toolchain(replace(target, arch=""))
    with pytest.raises(NoCompiler, match="sm_10"):
        toolchains.find_toolchain(replace(target, arch="sm_10"))


def test_a_machine_without_compilers(monkeypatch, tmp_path):
    for module, name in ((nvrtc, "_find"), (nvcc, "_find")):
        monkeypatch.setattr(module, name, lambda *_: None)
    monkeypatch.setattr(clang, "_find", lambda *_: ())
    for name, way_out in (("cuda:sm_80", "andiron[cuda-tools]"), ("hip:gfx90a", "andiron[hip]")):
        text, target = source_for(name)
        with pytest.raises(NoCompiler) as caught:
            toolchains.build_code(text, target)
        assert way_out in str(caught.value)


def test_compilers_that_were_named(monkeypatch, tmp_path):
    fake = tmp_path / "mine"
    fake.write_text("#!/bin/sh\necho 'release 99.1, V99.1.2'\n")
    fake.chmod(fake.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("ANDIRON_NVCC", str(fake))
    found = nvcc.find_nvcc()
    assert found
    assert found.version == "nvcc V99.1.2"
    monkeypatch.setenv("ANDIRON_NVCC", str(tmp_path / "nowhere"))
    assert nvcc.find_nvcc() is None
    monkeypatch.setenv("ANDIRON_HIPCC", str(tmp_path / "nowhere"))
    assert clang.find_clangs() == ()
    assert os.environ["ANDIRON_NVCC"]


# ------------------------------------------------------------ what compilers print

PTXAS = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'first' for 'sm_80'
ptxas info    : Function properties for first
    128 bytes stack frame, 96 bytes spill stores, 100 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 1024 bytes smem, 400 bytes cmem[0]
ptxas info    : Compile time = 39.047 ms
ptxas warning : something is odd
ptxas info    : Compiling entry function 'second' for 'sm_80'
ptxas info    : Function properties for second
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 70 registers, 400 bytes cmem[0]
"""
CLANG = """\
k.hip:51:1: remark: Function Name: first [-Rpass-analysis=kernel-resource-usage]
   51 | first(const float* A) {
      | ^
k.hip:51:1: remark:     TotalSGPRs: 33 [-Rpass-analysis=kernel-resource-usage]
k.hip:51:1: remark:     VGPRs: 128 [-Rpass-analysis=kernel-resource-usage]
k.hip:51:1: remark:     AGPRs: 64 [-Rpass-analysis=kernel-resource-usage]
k.hip:51:1: remark:     ScratchSize [bytes/lane]: 48 [-Rpass-analysis=kernel-resource-usage]
k.hip:51:1: remark:     Dynamic Stack: False [-Rpass-analysis=kernel-resource-usage]
k.hip:51:1: remark:     Occupancy [waves/SIMD]: 2 [-Rpass-analysis=kernel-resource-usage]
k.hip:51:1: remark:     SGPRs Spill: 1 [-Rpass-analysis=kernel-resource-usage]
k.hip:51:1: remark:     VGPRs Spill: 12 [-Rpass-analysis=kernel-resource-usage]
k.hip:51:1: remark:     LDS Size [bytes/block]: 256 [-Rpass-analysis=kernel-resource-usage]
k.hip:9:1: warning: something is odd
    9 | int x;
"""


def test_ptxas_is_read():
    usage, words = parse_ptxas(PTXAS)
    assert usage == (KernelUsage("first", 255, 96, 128, 1024), KernelUsage("second", 70))
    assert words == "ptxas warning : something is odd"


def test_remarks_are_read():
    usage, words = parse_remarks(CLANG)
    assert usage == (KernelUsage("first", 192, 48, 48, 256, 2),)
    assert words == "k.hip:9:1: warning: something is odd\n    9 | int x;"
