"""What people see of modules, ops, kernels, timings and errors at a prompt."""

import io
import sys

import andiron
import numpy as np
import pytest
from andiron.dsl.errors import AndironError, InternalError, UserError
from andiron.dsl.errors.run import ArgumentCount, ArgumentKind, ArgumentShape
from andiron.runtime import progress
from andiron.runtime.timing import Timing

TEXT = """\
op scale[M, N](x: f32[M, N], a: f32[]) -> (y: f32[M, N]):
    y[i, j] = x[i, j] * a

op sums[N](x: f32[N]) -> (s: f32[], t: f32[]):
    s[] = sum(i) x[i]
    t[] = sum(i) x[i] * x[i]

schedule plain for scale:
    compute
"""


def test_one_line_says_what_it_is():
    module = andiron.loads(TEXT, "two.sched")
    assert repr(module) == "<module two.sched; ops: scale, sums; schedules: plain>"
    assert repr(module.ops["scale"]) == "<op scale(x: f32[M, N], a: f32[]) -> (y: f32[M, N])>"
    assert str(module.ops["sums"].inputs[0]) == "x: f32[N]"
    shown = repr(Timing((2e-3, 1e-3, 4e-3), 10**9, 10**6))
    assert shown.startswith("<timing 2")
    assert "median of 3" in shown
    assert len(shown) < 80


def test_errors_tell_their_id_and_the_way_out():
    error: AndironError
    with pytest.raises(AndironError) as caught:
        andiron.compile(TEXT, "scal", target="cpu:generic")
    error = caught.value
    assert (error.id, error.message, error.help) == ("not-in-module", "no op `scal`", "did you mean `scale`?")
    error = InternalError("so it is")
    assert (error.id, error.message) == ("internal", "so it is")
    assert str(error).startswith("error[internal]: so it is\n  help: this is a fault of Andiron's")
    assert UserError("no").id == "user-error"


def test_shapes_and_counts_are_written_as_they_are_spoken():
    k = andiron.compile(TEXT, "sums", target="cpu:generic")
    with pytest.raises(ArgumentShape, match=r"x has shape \(5, 1\); expected 1 axis: x: f32\[N\]"):
        k(np.ones((5, 1), np.float32))
    with pytest.raises(ArgumentCount, match="sums takes 1 array: x"):
        k()
    with pytest.raises(ArgumentCount, match="out has 1 array; sums has 2 outputs"):
        k(np.ones(5, np.float32), out=np.ones((), np.float32))
    two = andiron.compile(TEXT, "scale", target="cpu:generic")
    with pytest.raises(ArgumentShape, match=r"x has shape \(5,\); expected 2 axes"):
        two(np.ones(5, np.float32), 1.0)


def test_notes_of_copies_are_those_of_the_latest_call():
    k = andiron.compile(TEXT, "scale", target="cpu:generic")
    x = np.ones((6, 4), np.float32)
    noted = lambda: [n for n in k.report.notes if "contiguous" in n]  # noqa: E731
    with pytest.raises(UserError):
        k(x.T, 2.0, out=np.ones(3, np.float32))
    assert noted() == []  # that call was not made
    k(x.T, 2.0)
    assert noted() == ["x was not contiguous: each such call copies it"]
    for _ in range(2):
        k(x, np.full((), 2, np.float32))
        assert noted() == []
    k(x.T, 2.0)
    assert len(noted()) == 1
    k(x, np.full((), 2, np.float32))  # made without Python's own steps, where there is such a way
    assert noted() == []


class Meta:
    """As torch's arrays on the device `meta`."""

    shape, dtype, device = (5,), np.dtype("f4"), "meta"

    def __dlpack__(self, **_):
        raise ValueError("Unknown device type meta for Dlpack")

    def __dlpack_device__(self):
        raise ValueError("Unknown device type meta for Dlpack")


@pytest.mark.parametrize("target", [None, "cpu:generic"])
def test_an_array_without_memory_is_refused(target):
    k = andiron.compile(TEXT, "sums", target=target)
    with pytest.raises(ArgumentKind, match=r"x \(Meta\) has no memory to read: Unknown device type meta"):
        k(Meta())
    with pytest.raises(ArgumentKind, match="Unknown device type meta"):
        k(np.ones(5, np.float32), out=(Meta(), Meta()))


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_what_takes_long_once_is_told_at_a_terminal_alone(monkeypatch):
    screen, file = Terminal(), io.StringIO()
    for stream in (screen, file, None):
        monkeypatch.setattr(sys, "stderr", stream)
        progress.show_progress("compiling")
    closed = Terminal()
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    progress.show_progress("compiling")
    assert (screen.getvalue(), file.getvalue()) == ("andiron: compiling\n", "")


def test_the_emulators_runtime_is_announced_once(monkeypatch, tmp_path):
    from andiron.runtime.emulator import build
    from andiron.runtime.native.cxx_compiler import CxxCompiler, find_compiler

    monkeypatch.setattr(CxxCompiler, "run", lambda self, args, folder: (folder / "fibers.o").write_bytes(b""))
    compiler = find_compiler()
    monkeypatch.setenv("ANDIRON_CACHE", str(tmp_path / "cache"))
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    for _ in range(2):
        build._runtime(compiler)
    assert screen.getvalue().count("compiling the emulator's runtime") == 1
