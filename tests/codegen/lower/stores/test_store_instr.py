"""`keep Y in register with I`: an instruction of the device stores what registers hold, where it may and where it pays."""

from __future__ import annotations

import numpy as np
import pytest
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.pipeline import compile_program
from andiron.codegen.targets import MACHINES
from andiron.dsl.errors import UserError
from andiron.dsl.module import loads
from andiron.runtime.arrays.convert import empty
from andiron.runtime.compile import compile
from andiron.runtime.native import cpu_features

TEXT = """
import std.devices.cpu
import std.ops.gemm
op turn[M, N](X: TYPE[M, N]) -> (Y: TYPE[N, M]):
    Y[j, i] = X[i, j]
op twice[N](X: TYPE[N]) -> (Y: TYPE[N]):
    Y[i] = X[i] + X[i]
device cpu:always extends cpu:avx2:
    instr eager on core in eager for f32 x 8:
        op (S: T[N]) -> (D: T[N]):
            D[i] = S[i]
        S in register at (lane): i = lane
        D in dram at (r): i = r
        emit cpp: "for (int l = 0; l < 8; l++) d[l] = s[l];"
        cost 8 cycles
"""


def module(lines: str, op: str = "twice", dtype: str = "f32", device: str = ""):
    text = TEXT.replace("TYPE", dtype) + f"schedule s for {op}{device}:\n"
    return loads(text + "".join(f"    {x}\n" for x in lines.split("\n")))


TWICE = "tile i: 4096 -> core\ntile i: 64\n{}\ntile i: 1 -> lane\ncompute"


@pytest.mark.every_second
@pytest.mark.parametrize(("target", "dtype"), [*(("cpu", t) for t in ("f32", "f64", "i32", "i64")), ("cpu:avx2", "f32")])
@pytest.mark.parametrize("start", [0, 1, 4])
def test_any_address(target: str, dtype: str, start: int) -> None:
    """Aligned or not, above and below the size from which on it pays: the same result."""
    mod = loads(TEXT.replace("TYPE", dtype))
    if cpu_features.missing(MACHINES[target]) if target in MACHINES else []:
        pytest.skip(f"this machine cannot execute code for {target}")
    kernel = compile(mod, op="turn", target=target)
    if target == "cpu:avx2":
        assert "with stream" in kernel.schedule
    for shape in [(2064, 2048), (2061, 2051), (40, 33)]:
        x = np.arange(shape[0] * shape[1], dtype=kernel.op.inputs[0].dtype.numpy).reshape(shape)
        room = np.zeros(x.size + 64, x.dtype)
        first = -room.ctypes.data % 64 // x.itemsize + start
        out = room[first : first + x.size].reshape(shape[::-1])
        for threads in (1, 2):
            out[...] = 0
            kernel(x, out=out, threads=threads)
            np.testing.assert_array_equal(out, x.T)
        assert not room[:first].any()
        assert not room[first + x.size :].any()


def test_results_begin_at_a_line() -> None:
    for shape in [(1 << 20,), (513, 1025), (3, 3), (0,), ()]:
        for dtype in (np.dtype("f4"), np.dtype("f8"), np.dtype("i1"), np.dtype("f2")):
            x = empty(shape, dtype)
            assert (x.shape, x.dtype) == (shape, dtype)
            assert x.flags.c_contiguous
            assert x.flags.writeable
            assert x.nbytes < 1 << 20 or x.ctypes.data % 64 == 0


def test_written_either_way() -> None:
    kept = TWICE.format("keep Y in register with stream"), TWICE.format("keep Y in register:\n        compute with stream")
    programs = []
    for lines in kept:
        mod = module(lines)
        programs.append(compile_program(mod, mod.ops["twice"], mod.schedules["s"], mod.devices["cpu:avx2"]).program)
        x = np.arange(130, dtype="f4")
        np.testing.assert_array_equal(interpret(programs[-1], {"X": x}, finite={"cores": 2})["Y"], x + x)
    assert " using stream" in str(programs[0])
    assert programs[0].launches == programs[1].launches


def test_own_instruction() -> None:
    """One without conditions is taken wherever a vector is whole."""
    mod = module(TWICE.format("keep Y in register with eager"), device=" on cpu:always")
    kernel = compile(mod, op="twice", schedule="s", target="cpu:always")
    assert "put_eager_f32x8(" in kernel.source
    assert "UINTPTR_MAX" not in kernel.source


def test_epilogue() -> None:
    lines = "tile m: 4 -> core\ntile n: 16\nkeep C in register with stream\ntile k: 1\ntile n: 1 -> lane\ncompute"
    mod = module(lines, "gemm")
    kernel = compile(mod, op="gemm", schedule="s", target="cpu")
    rng = np.random.default_rng(0)
    a, b = rng.integers(-3, 4, (2101, 3)).astype("f4"), rng.integers(-3, 4, (3, 2080)).astype("f4")
    np.testing.assert_array_equal(kernel(a, b), a @ b)


def test_refused() -> None:
    mod = module(TWICE.format("keep Y in register with fma"))
    with pytest.raises(UserError, match="does not store what `Y` holds"):
        compile_program(mod, mod.ops["twice"], mod.schedules["s"], mod.devices["cpu:avx2"])


@pytest.mark.parametrize(("device", "instr"), [("sm_80", "store_global_f32x4"), ("gfx942", "store_global_f32x4")])
def test_refused_where_lanes_make_no_vectors(device: str, instr: str) -> None:
    """On GPUs a thread's neighbours are stored together anyhow: the line would do nothing."""
    mod = module(f"tile m: 16, n: 16 -> block\nkeep C in register with {instr}\ntile n: 1 -> thread", "gemm")
    with pytest.raises(
        UserError, match=f"`{instr}` cannot be used here: no vector of lanes stores neighbours of `C`"
    ) as caught:
        compile_program(mod, mod.ops["gemm"], mod.schedules["s"], mod.device(device))
    assert caught.value.id == "schedule-instruction-mismatch"


def test_a_line_with_an_instruction_has_no_block() -> None:
    mod = module(TWICE.format("keep Y in register with stream:\n        compute"))
    with pytest.raises(UserError, match="both the block and `with stream`") as caught:
        compile_program(mod, mod.ops["twice"], mod.schedules["s"], mod.devices["cpu:avx2"])
    assert caught.value.id == "schedule-modifier-argument"


@pytest.mark.parametrize(("device", "instr", "lines", "noted"), [
    ("cpu:avx2", "stream", "tile m: 4 -> core / tile n: 16 / keep C in register with {} / tile n: 1 -> lane", False),
    ("cpu:avx2", "stream", "tile m: 32 -> core / tile n: 16 / keep C in register with {} / tile m: 4 -> lane", True),
])  # fmt: skip
def test_a_note_where_no_vector_is_stored(device: str, instr: str, lines: str, noted: bool) -> None:
    notes = []
    for word in (f" with {instr}", ""):
        mod = module(lines.replace(" with {}", word).replace(" / ", "\n"), "gemm")
        notes.append(compile_program(mod, mod.ops["gemm"], mod.schedules["s"], mod.device(device)).report["notes"])
    why = f"`with {instr}`: no vector of lanes stores neighbours of `C`, which is stored as without it"
    assert [x for x in notes[0] if x not in notes[1]] == ([why] if noted else [])
