"""The instructions of the library's GPUs: the interpreter agrees with NumPy, and compilers accept their source code."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.util import find_spec
from math import prod
from pathlib import Path

import numpy as np
import pytest
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.ir.program import Program
from andiron.codegen.ir.tile_ir import Alloc, Barrier, Buffer, Call, Commit, For, Launch, Piece, Stmt, Store, Units, Wait
from andiron.dsl.device import GROUPED, Device, Instr, Operand
from andiron.dsl.fragment import FragmentLayout
from andiron.dsl.index.expr import Expr, Var, as_expr
from andiron.dsl.values import Load

from ..support.gpu.instr_kernels import source
from ..support.gpu.library_instrs import CDNA, NVIDIA, RDNA, devices, family, instructions


def flat(memory: str, kind: str, name: str, level: str, o: Operand, extents: tuple[int, ...]) -> Buffer:
    strides, size = [], 1
    for n in reversed(extents):
        strides.append(as_expr(size))
        size *= n
    shape = tuple(map(as_expr, extents))
    return Buffer(name, o.dtype, kind, memory, level, shape, tuple(reversed(strides)), as_expr(size))


def one_call(device: Device, instr: Instr) -> Program:
    """One block of one wave: operands are fetched element by element where the maps say, the instruction is executed, the
    result is stored. Arguments have an axis in front that numbers the units that execute the instruction."""
    wave, thread = device.levels[-2].name, device.levels[-1]
    width = thread.width or 1
    t = Var("t", 0, width - 1)
    alone = instr.level == thread.name
    unit, groups = (as_expr(t), width) if alone else (as_expr(0), 1)
    before: list[Stmt] = []
    after: list[Stmt] = []
    buffers, allocs, pieces = [], [], []
    for o in instr.operands:
        f = FragmentLayout.of(o)
        shape = o.shape or (1,)
        argument = flat("global", "output" if o.role == "output" else "input", o.name, "grid", o, (groups, *shape))
        buffers.append(argument)
        result = argument
        if o.role == "inout":
            result = flat("global", "output", o.name + "_out", "grid", o, (groups, *shape))
            buffers.append(result)

        def where(register: Expr, f: FragmentLayout = f, o: Operand = o) -> tuple[Expr, ...]:
            at = f.at({"lane": as_expr(t), "r": register})
            return (unit, *(at if o.shape else (as_expr(0),)))

        if o.memory == "register":
            held = flat("register", "local", o.name + "_r", thread.name, o, (f.registers,))
            allocs.append(held)
            loop = Var("r", 0, f.registers - 1)
            if o.role != "output":
                value = Load(argument.name, where(as_expr(loop)), o.dtype)
                before.append(loop_over(loop, Store(held.name, (as_expr(loop),), value)))
            if o.role != "input":
                value = Load(held.name, (as_expr(loop),), o.dtype)
                after.append(loop_over(loop, Store(result.name, where(as_expr(loop)), value)))
            pieces.append(Piece(held.name, (as_expr(0),), f.registers))
        elif o.memory == "global":
            pieces.append(Piece(result.name, where(as_expr(0)), f.registers))
        else:
            tile = flat("shared", "local", o.name + "_s", "block", o, (groups, *shape))
            allocs.append(tile)
            each = prod(shape) * groups // width
            loop = Var("e", 0, max(each - 1, 0))
            e = as_expr(t) * each + loop
            at = tuple(e // prod((groups, *shape)[d + 1 :]) % (groups, *shape)[d] for d in range(len(shape) + 1))
            if o.role == "input":
                before.append(loop_over(loop, Store(tile.name, at, Load(argument.name, at, o.dtype))))
            else:
                after.append(loop_over(loop, Store(result.name, at, Load(tile.name, at, o.dtype))))
            pieces.append(Piece(tile.name, where(as_expr(0)), f.registers))
    call: list[Stmt] = [Call(instr.name, tuple(pieces))]
    if instr.awaits:
        call += [Commit(instr.awaits[0])] if instr.awaits[0] in GROUPED else []
        call.append(Wait(instr.awaits[0], 0))
    body: tuple[Stmt, ...] = (*before, Barrier("block"), *call, Barrier("block"), *after)
    for b in allocs:
        body = (Alloc(b, body),)
    units = (
        Units("block", Var("b", 0, 0), as_expr(1)),
        Units(wave, Var("w", 0, 0), as_expr(1)),
        Units(thread.name, t, as_expr(width)),
    )
    return Program(instr.name, device, (), (), (), tuple(buffers), (Launch("main", units, body),), (instr,))


def loop_over(v: Var, *body: Stmt) -> For:
    return For(v, as_expr(0), as_expr((v.hi or 0) + 1), as_expr(1), body)


def wanted(instr: Instr, x: dict[str, np.ndarray]) -> np.ndarray:
    """What the manuals say it computes, in double precision, for each group."""
    names = [o.name for o in instr.operands]
    if instr.function is not None:
        functions = {"exp2": np.exp2, "div": np.divide, "rcp": np.reciprocal, "max": np.maximum, "min": np.minimum}
        function = functions[instr.function]
        with np.errstate(divide="ignore", invalid="ignore"):
            exact = function(*(x[o.name].astype("f8") for o in instr.operands[:-1]))
        return exact if instr.function == "exp2" else exact.astype("f4")  # quotients are rounded, powers of whole numbers exact
    if instr.conversion == "tf32":  # the 13 lowest bits are rounded off, ties to even
        bits = x["X"].view(np.uint32).astype("u8")
        return ((bits + 0xFFF + (bits >> 13 & 1)) & 0xFFFFE000).astype(np.uint32).view(np.float32)
    if instr.conversion is not None:
        return x["X"].astype(instr.operands[1].dtype.numpy)
    if names == ["S", "D"]:
        return x["S"]
    if names == ["S", "L", "D"]:  # as many elements as the last operand says, then zeros
        return np.where(np.arange(x["S"].shape[-1]) < x["L"].reshape(-1, 1), x["S"], np.zeros((), x["S"].dtype))
    told = instr.condition.tensor if instr.condition is not None else ""
    names = [n for n in names if n != told]
    a, b, c = (x[n].astype("i8" if instr.operands[2].dtype.kind == "int" else "f8") for n in names)
    a, b, c = (v.reshape(v.shape[0], *instr.operand(n).shape) for v, n in zip((a, b, c), names, strict=True))
    if told:  # NaN of a term that does not count is nowhere in the result
        terms = a[:, :, :, None] * b[:, None]
        counts = x[told].reshape(-1, *instr.operand(told).shape)
        index = [v.name for e in instr.condition.indices for v in e.variables()] if instr.condition else []
        counts = counts[:, :, :, None] if index[0] == instr.statement.indices[0] else counts[:, None]
        return c + np.where(counts, terms, 0).sum(axis=2)
    if a.ndim == 3:
        return c + a @ b
    if a.ndim == 1:
        return c + a[:, None] * b
    return c + (a * b).sum(axis=1)


def some(rng: np.random.Generator, o: Operand, shape: tuple[int, ...], whole: bool) -> np.ndarray:
    if o.dtype.kind in ("int", "uint"):
        low = 0 if o.dtype.kind == "uint" else -100
        return rng.integers(low, 100, shape).astype(o.dtype.numpy)
    if o.dtype.kind == "bool":
        return rng.random(shape) < 0.7
    x = rng.integers(-4, 5, shape) if whole else rng.standard_normal(shape)
    x = np.asarray(x, np.float32)
    if o.dtype.name == "tf32":  # what the type can hold: the 13 lowest bits are 0
        x = (x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    return x.astype(o.dtype.numpy)


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "random"])
@pytest.mark.parametrize("title", instructions())
def test_agrees_with_numpy(title: str, whole: bool) -> None:
    device, instr = instructions()[title]
    program, rng = one_call(device, instr), np.random.default_rng(5)
    arrays = {}
    for o, b in zip((o for o in instr.operands if o.role != "output"), inputs_of(program), strict=True):
        arrays[b.name] = some(rng, o, tuple(e.constant or 0 for e in b.shape), whole)
    (out,) = interpret(program, arrays).values()
    expected = wanted(instr, arrays).reshape(out.shape)
    if out.dtype == expected.dtype:
        assert (out.view(f"u{out.itemsize}") == expected.view(f"u{out.itemsize}")).all()
    elif whole or out.dtype.kind == "i":
        np.testing.assert_array_equal(out.astype("f8"), expected)
    else:
        eps = {"f16": 2e-3, "bf16": 2e-2, "f32": 1e-6, "f64": 1e-15}[instr.operands[-1].dtype.name]
        np.testing.assert_allclose(out.astype("f8"), expected, atol=16 * eps, rtol=eps)


def inputs_of(program: Program) -> list[Buffer]:
    return [b for b in program.buffers if b.kind == "input"]


@pytest.mark.parametrize("title", family("shuffle"))
def test_shuffles_move_words_between_lanes(title: str) -> None:
    _, i = instructions()[title]
    distance, lanes = int(i.name.rpartition("x")[2]), i.operands[0].shape[0]
    d = FragmentLayout.of(i.operand("D")).table()[:, 0, 0]
    np.testing.assert_array_equal(d, np.arange(lanes) ^ distance)


def test_a_direct_load_to_shared_memory_takes_one_address() -> None:
    i = next(x for x in devices()["gfx950"].instrs if x.name == "load_lds_f16x8")
    s, d = (FragmentLayout.of(o) for o in i.operands)
    assert (s.units, s.registers, d.units, d.registers) == (64, 8, 1, 512)
    assert i.awaits == ("counter",)


@pytest.mark.parametrize("name", NVIDIA)
def test_nvcc_takes_the_texts(name: str, tmp_path: Path) -> None:
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("no nvcc on PATH")
    device = devices()[name]
    (tmp_path / "k.cu").write_text(source(device, list(device.instrs), "cuda"))
    command = [nvcc, f"-arch={name}", "-std=c++17", "-cubin", "-o", str(tmp_path / "k.cubin"), str(tmp_path / "k.cu")]
    accepted(subprocess.run(command, capture_output=True, text=True))


@pytest.mark.parametrize("name", [*CDNA, *RDNA])
def test_clang_takes_the_texts(name: str, tmp_path: Path) -> None:
    if find_spec("ziglang") is None:
        pytest.skip("no ziglang in this environment")
    device = devices()[name]
    (tmp_path / "k.hip").write_text(source(device, list(device.instrs), "hip"))
    command = [sys.executable, "-m", "ziglang", "clang", "-cc1", "-triple", "amdgcn-amd-amdhsa"]
    command += ["-aux-triple", "x86_64-unknown-linux-gnu", "-target-cpu", name, "-fcuda-is-device", "-x", "hip", "-O3"]
    command += ["-std=c++17", "-Wall", "-Wextra", "-Wno-unused-parameter", "-emit-obj"]
    command += [str(tmp_path / "k.hip"), "-o", str(tmp_path / "k.o")]
    accepted(subprocess.run(command, capture_output=True, text=True))


def accepted(done: subprocess.CompletedProcess[str]) -> None:
    said = (done.stdout + done.stderr).strip()
    assert (done.returncode, said) == (0, ""), said[:4000]
