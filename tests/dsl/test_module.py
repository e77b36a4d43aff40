"""Modules: what `load` gives, how imports are found, and which are refused."""

import os
import subprocess
import sys

import pytest
from andiron.dsl.device import Device
from andiron.dsl.errors import UserError, UserErrors
from andiron.dsl.module import MOST_IMPORTS, load, loads, std_device, std_module
from andiron.dsl.op import Op
from andiron.dsl.stdlib_files import std_devices, std_names
from andiron.dsl.syntax import ScheduleDecl, StrategyDecl

COPY = "op {0}[M](A: f32[M]) -> (Y: f32[M]):\n    Y[m] = A[m]\n"


def write(folder, **texts):
    for name, text in texts.items():
        path = folder / f"{name.replace('__', '/')}.sched"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def ids(call):
    with pytest.raises(UserError) as caught:
        call()
    error = caught.value
    assert str(error)
    return [e.id for e in (error.errors if isinstance(error, UserErrors) else (error,))]


def test_declarations_by_name_and_in_order():
    text = COPY.format("b") + COPY.format("a") + "schedule s for a: auto\nstrategy g(T):\n    move T -> shared\n"
    module = loads(text)
    assert list(module.ops) == ["b", "a"]
    assert isinstance(module.ops["a"], Op)
    assert isinstance(module.schedules["s"], ScheduleDecl)
    assert isinstance(module.strategies["g"], StrategyDecl)
    assert len(module.file.declarations) == 4


def test_a_file_and_what_it_imports(tmp_path):
    write(
        tmp_path,
        main='import "lib/one.sched"\nimport "two.sched"\nimport std.ops.gemm\n' + COPY.format("mine"),
        lib__one='import "deep/three.sched"\n' + COPY.format("one"),
        lib__deep__three=COPY.format("three"),
        two='import "lib/deep/three.sched"\n' + COPY.format("two"),  # by a second way
    )
    module = load(tmp_path / "main.sched")
    assert list(module.ops)[:3] == ["three", "one", "two"]
    assert list(module.ops)[-1] == "mine"
    assert "gemm" in module.ops
    assert module.path == (tmp_path / "main.sched").resolve()


def test_texts_state_the_version_of_the_language(tmp_path):
    write(tmp_path, main='language 1\nimport "one.sched"\n', one="language 1\n" + COPY.format("one"), next="language 2\nop ?\n")
    module = load(tmp_path / "main.sched")
    assert list(module.ops) == ["one"]
    assert module.file.language is not None
    assert list(loads("\n    language 1\n    import std.ops.gemm\n").ops)
    assert ids(lambda: loads('language 1\nimport "next.sched"\n', base=tmp_path)) == ["newer-language"]


def test_texts_with_and_without_a_base(tmp_path):
    write(tmp_path, one=COPY.format("one"))
    assert list(loads('import "one.sched"\n', base=tmp_path).ops) == ["one"]
    assert ids(lambda: loads('import "one.sched"\n')) == ["import-without-base"]
    assert "gemm" in loads("import std.ops.gemm\n").ops


def test_embedded_text_shows_lines_of_its_file():
    with pytest.raises(UserError) as caught:
        loads("\n    schedule s for f:\n        tyle m: 4\n", "program.py", line_offset=10)
    assert "program.py:13:9" in str(caught.value)


@pytest.mark.parametrize(
    "path", ["../one.sched", "a/../../one.sched", "/one.sched", "~/one.sched", "C:/one.sched", "..\\\\one.sched"]
)
def test_imports_stay_inside(tmp_path, path):
    write(tmp_path, one=COPY.format("one"), sub__main=f'import "{path}"\n')
    assert ids(lambda: load(tmp_path / "sub" / "main.sched")) == ["import-outside"]


def test_links_do_not_lead_outside(tmp_path):
    write(tmp_path, one=COPY.format("one"), sub__main='import "link.sched"\n', sub__two=COPY.format("two"))
    os.symlink(tmp_path / "one.sched", tmp_path / "sub" / "link.sched")
    assert ids(lambda: load(tmp_path / "sub" / "main.sched")) == ["import-outside"]
    os.unlink(tmp_path / "sub" / "link.sched")
    os.symlink(tmp_path / "sub" / "two.sched", tmp_path / "sub" / "link.sched")
    assert list(load(tmp_path / "sub" / "main.sched").ops) == ["two"]
    os.symlink(tmp_path, tmp_path / "sub" / "folder")
    write(tmp_path, sub__main='import "folder/one.sched"\n')
    assert ids(lambda: load(tmp_path / "sub" / "main.sched")) == ["import-outside"]


def test_circles(tmp_path):
    write(tmp_path, a='import "b.sched"\n', b='import "a.sched"\n', self='import "self.sched"\n')
    os.symlink(tmp_path / "loop.sched", tmp_path / "loop.sched")
    assert ids(lambda: load(tmp_path / "a.sched")) == ["import-cycle"]
    assert ids(lambda: load(tmp_path / "self.sched")) == ["import-cycle"]
    assert ids(lambda: load(tmp_path / "loop.sched")) == ["no-such-file"]


def test_long_chains(tmp_path):
    write(tmp_path, **{f"f{i}": f'import "f{i + 1}.sched"\n' for i in range(300)}, f300="")
    assert ids(lambda: load(tmp_path / "f0.sched")) == ["import-too-deep"]
    assert load(tmp_path / f"f{301 - MOST_IMPORTS}.sched").ops == {}


def test_what_cannot_be_read(tmp_path):
    (tmp_path / "dir.sched").mkdir()
    (tmp_path / "bytes.sched").write_bytes(b"# \xff")
    assert ids(lambda: load(tmp_path / "nothing.sched")) == ["no-such-file"]
    assert ids(lambda: load(tmp_path / "dir.sched")) == ["no-such-file"]
    assert ids(lambda: load("a\0b")) == ["no-such-file"]
    assert ids(lambda: load(tmp_path / "bytes.sched")) == ["not-utf8"]
    assert ids(lambda: loads('import "dir.sched"\nimport "x.txt"\n', base=tmp_path)) == ["no-such-file", "import-not-sched"]


def test_mistakes_of_all_files_come_together(tmp_path):
    write(tmp_path, bad="op f(A: f32[]) -> (Y: f32[]):\n    Y[] = B\n", worse="schedule s for f:\n    tyle m: 4\n")
    text = 'import "bad.sched"\nimport "worse.sched"\nop g(A: f33[]) -> (Y: f32[]):\n    Y[] = A\n'
    assert set(ids(lambda: loads(text, base=tmp_path))) == {"unknown-name", "unknown-line", "unknown-type"}


def test_names_meet(tmp_path):
    write(tmp_path, one=COPY.format("f"), two=COPY.format("f"))
    assert ids(lambda: loads('import "one.sched"\nimport "two.sched"\n', base=tmp_path)) == ["duplicate-declaration"]
    assert ids(lambda: loads(2 * COPY.format("f"))) == ["duplicate-declaration"]
    assert ids(lambda: loads("schedule s for f: auto\nschedule s for g: auto\n")) == ["duplicate-declaration"]
    assert loads(COPY.format("f") + "schedule f for f: auto\nstrategy f(T):\n    move T -> x\n").ops.keys() == {"f"}
    assert list(loads('import "one.sched"\nimport "one.sched"\n', base=tmp_path).ops) == ["f"]


def test_an_own_op_takes_the_place_of_imported_ones(tmp_path):
    """OWN_OP: schedules that come along are for it; of other names there is one."""
    own = "op gemm[M, N, K](A: f16[M, K], B: f16[K, N]) -> (C: f16[M, N]):\n    C[m, n] = sum(k) f32(A[m, k]) * f32(B[k, n])\n"
    module = loads("import std.schedules.gemm_nvidia\n" + own)
    assert [str(t.dtype) for t in module.ops["gemm"].tensors] == ["f16"] * 3
    assert module.schedules["sgemm_maxwell"].op == "gemm"
    write(tmp_path, one=COPY.format("f"), two=COPY.format("f"), three='import "one.sched"\n' + COPY.format("f"))
    both = 'import "one.sched"\nimport "two.sched"\n' + COPY.format("f")
    assert list(loads(both, base=tmp_path).ops) == ["f"]
    assert list(loads('import "three.sched"\n', base=tmp_path).ops) == ["f"]
    write(tmp_path, four=COPY.format("f") + "schedule s for f: auto\n")
    again = 'import "four.sched"\n' + COPY.format("f") + "schedule s for f: auto\n"
    assert ids(lambda: loads(again, base=tmp_path)) == ["duplicate-declaration"]


def test_schedules_of_the_library_serve_an_own_op_of_the_same_name():
    from andiron.codegen.pipeline import compile_program
    from andiron.dsl.ops.specialise import bind_params

    text = "import std.schedules.gemm_nvidia\nop gemm_f16[M, N, K](A: f16[M, K], B: f16[N, K]) -> (C: f16[M, N]):\n"
    text += "    H[m, n] = sum(k) f32(A[m, k]) * f32(B[n, k])\n    C[m, n] = relu(H[m, n])\n"
    module = loads(text)
    op = bind_params(module.ops["gemm_f16"])
    compiled = compile_program(module, op, module.schedules["hgemm_ampere"], module.device("sm_80"))
    assert "compute with mma_m16n8k16_f16" in compiled.schedule


def test_devices_of_the_library_need_no_import():
    assert "cpu:generic" in std_devices()
    module = loads("device mine extends cpu:generic:\n    clock 3 GHz\n")
    assert isinstance(module.devices["mine"], Device)
    assert module.device("cpu:generic") is std_device("cpu:generic")
    assert module.device("mine").limit("clock") == 3e9
    assert ids(lambda: module.device("cpu:generik")) == ["unknown-device"]
    with pytest.raises(UserError, match="did you mean `cpu:generic`"):
        module.device("cpu:generik")


def test_the_library_is_whole():
    assert {"ops.gemm", "devices.cpu"} <= set(std_names())
    for name in std_names():
        if not name.startswith("devices."):  # slow; tested with the devices
            std_module(name)


def test_importing_costs_nothing():
    code = "import sys, andiron.dsl.module; sys.exit('lark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
