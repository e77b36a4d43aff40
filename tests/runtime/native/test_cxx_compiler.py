"""Finding a compiler, building, and what is said when it cannot be done."""

import ctypes
import os
import stat

import pytest
from andiron.codegen import targets
from andiron.dsl.errors import InternalError
from andiron.dsl.errors.target import CompilerFailed, NoCompiler, UnknownTarget
from andiron.runtime.native import build_library, cpu_features, cxx_compiler

TEXT = """\
extern "C" int twice(void* const* args, const long long* dims, int threads) {
    const float* x = (const float*)args[0];
    float* y = (float*)args[1];
    for (long long i = 0; i < dims[0]; ++i) y[i] = 2.0f * x[i];
    return threads;
}
"""


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("ANDIRON_CACHE", str(tmp_path / "cache"))
    cxx_compiler._find.cache_clear()
    yield
    cxx_compiler._find.cache_clear()


def call(library):
    x, y, dims = (ctypes.c_float * 3)(1, 2, 3), (ctypes.c_float * 3)(), (ctypes.c_int64 * 1)(3)
    args = (ctypes.c_void_p * 2)(ctypes.addressof(x), ctypes.addressof(y))
    return library.call(args, dims, 5), list(y)


def script(path, text):
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_builds_loads_and_remembers():
    cpu = targets.target_of("cpu")
    first = build_library.build(TEXT, "twice", cpu)
    assert call(first) == (5, [2.0, 4.0, 6.0])
    assert not first.cached
    second = build_library.build(TEXT, "twice", cpu)
    assert second.cached
    assert second.compiler == str(cxx_compiler.find_compiler())
    assert call(second) == (5, [2.0, 4.0, 6.0])
    other = build_library.build(TEXT, "twice", targets.target_of("cpu:generic"))
    assert not other.cached
    assert not build_library.build(TEXT, "twice", cpu, schedule="another").cached


def test_what_a_compiler_is_and_obeys_is_part_of_keys(monkeypatch, tmp_path):
    """Another compiler of the same name and first line, other variables: other libraries."""
    cpu, real = targets.target_of("cpu"), cxx_compiler.find_compiler().command[0]
    wrapped = f'[ "$1" = --version ] && {{ echo "c++ 1.0"; echo "build NUMBER"; exit; }}\nexec {real} "$@"\n'
    monkeypatch.setenv("ANDIRON_CXX", script(tmp_path / "cxx", wrapped.replace("NUMBER", "1")))
    assert not build_library.build(TEXT, "twice", cpu).cached
    assert build_library.build(TEXT, "twice", cpu).cached
    script(tmp_path / "cxx", wrapped.replace("NUMBER", "2"))
    cxx_compiler._find.cache_clear()
    assert not build_library.build(TEXT, "twice", cpu).cached
    monkeypatch.setenv("CPATH", str(tmp_path))
    assert not build_library.build(TEXT, "twice", cpu).cached
    monkeypatch.delenv("CPATH")
    assert build_library.build(TEXT, "twice", cpu).cached


def test_a_compiler_named_relative_to_where_the_process_works(monkeypatch, tmp_path):
    real = cxx_compiler.find_compiler().command[0]
    script(tmp_path / "cxx", f'exec {real} "$@"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANDIRON_CXX", "./cxx")
    assert call(build_library.build(TEXT, "twice", targets.target_of("cpu"))) == (5, [2.0, 4.0, 6.0])


def test_a_truncated_library_is_built_again():
    cpu = targets.target_of("cpu")
    path = build_library.build(TEXT, "twice", cpu).path
    path.unlink()  # not truncated in place: this process has it mapped
    path.write_bytes(b"\x7fELF")
    with pytest.warns(RuntimeWarning, match="is damaged: it was removed"):
        again = build_library.build(TEXT, "twice", cpu)
    assert not again.cached
    assert call(again)[0] == 5


def test_text_that_does_not_compile_is_our_fault_and_shown_in_the_compilers_words():
    with pytest.raises(InternalError, match="nonsense"):
        build_library.build("nonsense", "f", targets.target_of("cpu"))


def test_a_compiler_that_dies_is_the_machines_fault(monkeypatch, tmp_path):
    real = cxx_compiler.find_compiler()
    killed = script(tmp_path / "c++", f'case "$*" in *kernel.cpp*) kill -9 $$;; esac; exec {real.command[0]} "$@"')
    monkeypatch.setenv("ANDIRON_CXX", killed)
    with pytest.raises(CompilerFailed, match="ended by signal 9"):
        build_library.build(TEXT, "twice", targets.target_of("cpu"))


def test_a_compiler_named_by_the_environment_must_work(monkeypatch, tmp_path):
    monkeypatch.setenv("ANDIRON_CXX", str(tmp_path / "missing"))
    with pytest.raises(NoCompiler, match="ANDIRON_CXX"):
        cxx_compiler.find_compiler()


def test_a_broken_compiler_is_passed_over(monkeypatch, tmp_path):
    bad = script(tmp_path / "c++", 'case "$*" in *--version*) echo "broken 1.0";; *) echo "no cc1plus" >&2; exit 1;; esac')
    monkeypatch.setenv("CXX", bad)
    assert "broken" not in str(cxx_compiler.find_compiler())


def test_none_at_all_says_the_way_out(monkeypatch, tmp_path):
    monkeypatch.setattr(cxx_compiler.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(NoCompiler) as caught:
        cxx_compiler.find_compiler()
    assert "pip install 'andiron[compiler]'" in str(caught.value)
    assert "clang++: not found" in str(caught.value)


def test_the_packaged_compiler_serves_a_machine_with_only_python(monkeypatch, tmp_path):
    pytest.importorskip("ziglang")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    assert cxx_compiler.find_compiler().kind == "zig"
    assert call(build_library.build(TEXT, "twice", targets.target_of("cpu"))) == (5, [2.0, 4.0, 6.0])


def test_flags_are_data():
    avx2 = targets.target_of("cpu:avx2")
    assert "-march=x86-64-v3" in targets.compiler_flags(avx2.machine, "gcc")
    assert "-mcpu=x86_64_v3" in targets.compiler_flags(avx2.machine, "zig")
    assert "-march=native" in targets.compiler_flags(targets.target_of("cpu").machine, "clang")
    assert all("-ffp-contract=off" in targets.compiler_flags(m, "gcc") for m in targets.MACHINES.values())


def test_unknown_targets():
    with pytest.raises(UnknownTarget, match="did you mean `cpu`"):
        targets.target_of("cpus")
    with pytest.raises(UnknownTarget, match="cpu:avx2"):
        targets.target_of("cpu:avx3")
    with pytest.raises(UnknownTarget, match="emulate:sm_80"):
        targets.target_of("emulate:sm_81", {"sm_80": []})
    with pytest.raises(UnknownTarget, match="needs a device"):
        targets.target_of("emulate")


def test_compilers_know_the_library_s_devices():
    known = {"sm_80": ["sm_75", "nvidia"], "mine": ["sm_80", "sm_75", "nvidia"], "gfx90a": ["amd"], "other": []}
    assert targets.target_of("cuda:sm_80", known).arch == "sm_80"
    assert targets.target_of("cuda:mine", known).arch == "sm_80"
    assert targets.target_of("hip:gfx90a", known).family.dialect == "hip"
    for name in ("cuda:gfx90a", "hip:sm_80", "cuda:other", "cuda:sm_81", "cuda:nvidia"):
        with pytest.raises(UnknownTarget):
            targets.target_of(name, known)


def test_a_machine_is_refused_what_it_cannot_execute(monkeypatch):
    wide = targets.MACHINES["cpu:avx512"]
    monkeypatch.setattr(cpu_features, "features", lambda: targets.MACHINES["cpu:avx2"].features)
    monkeypatch.setattr(cpu_features, "architecture", lambda: "x86_64")
    assert "avx512f" in cpu_features.missing(wide)
    assert cpu_features.missing(targets.MACHINES["cpu:avx2"]) == []
    assert cpu_features.missing(targets.MACHINES["cpu:neon"]) == ["the aarch64 architecture"]
    assert cpu_features.missing(targets.NATIVE) == []


def test_this_machine_is_known():
    assert cpu_features.architecture()
    assert 1 <= cpu_features.usable_cores() <= (os.cpu_count() or 1)
