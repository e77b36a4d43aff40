"""The GPUs of the library: their facts, where the operands of their instructions lie, what they compute, their texts."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from functools import lru_cache
from importlib.util import find_spec
from math import prod
from pathlib import Path

import andiron
import numpy as np
import pytest
from andiron.codegen.interpret.machine import interpret
from andiron.codegen.ir.program import Program
from andiron.codegen.ir.tile_ir import Alloc, Barrier, Buffer, Call, Commit, For, Launch, Piece, Stmt, Store, Units, Wait
from andiron.dsl.device import GROUPED, Device, Instr, Operand
from andiron.dsl.devices.resolve_device import resolve_devices
from andiron.dsl.fragment import FragmentLayout
from andiron.dsl.index.expr import Expr, Var, as_expr
from andiron.dsl.syntax import DeviceDecl
from andiron.dsl.text.parser import parse_text
from andiron.dsl.values import Load

from ..support.gpu import matrix_fragments as manual
from ..support.gpu.instr_kernels import source

NVIDIA = ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a"]
CDNA = ["gfx908", "gfx90a", "gfx942", "gfx950"]
RDNA = ["gfx1100", "gfx1201"]
ALL = [*NVIDIA, *CDNA, *RDNA]


@lru_cache(maxsize=1)
def devices() -> dict[str, Device]:
    found: dict[str, Device] = {}
    for name in ("nvidia", "amd"):
        text = (Path(andiron.__file__ or "").parent / "stdlib" / "devices" / f"{name}.sched").read_text(encoding="utf-8")
        found |= resolve_devices([d for d in parse_text(text).declarations if isinstance(d, DeviceDecl)], {})
    return found


@lru_cache(maxsize=1)
def instructions() -> dict[str, tuple[Device, Instr]]:
    """Each instruction once, with the first device that has it."""
    found: dict[tuple, tuple[str, Device, Instr]] = {}
    for name in ALL:
        device = devices()[name]
        for i in device.instrs:
            key = (i.name, i.operands, i.statement, device.levels[-1].width)
            found.setdefault(key, (f"{name}:{i.name}", device, i))
    return {title: (d, i) for title, d, i in found.values()}


def family(*names: str) -> list[str]:
    return [t for t, (_, i) in instructions().items() if i.family in names]


# ---------------------------------------------------------------- facts


@pytest.mark.parametrize("name", ALL)
def test_levels_and_memories(name: str) -> None:
    device = devices()[name]
    wave = "warp" if name in NVIDIA else "wave"
    assert [x.name for x in device.levels] == ["grid", "block", wave, "thread"]
    assert [x.siblings for x in device.levels] == ["nothing", "nothing", "barrier", "lockstep"]
    assert device.level("grid").most == 1
    assert device.level("thread").width == (64 if name in CDNA else 32)
    assert device.limit("block thread") == 1024
    width, most = device.level("thread").width, device.level(wave).most
    assert (width or 0) * (most or 0) == 1024
    assert [(m.name, m.level, m.backing) for m in device.memories] == [
        ("global", "grid", None), ("l2", "grid", "global"), ("shared", "block", None), ("register", "thread", None),
    ]  # fmt: skip
    assert device.memory("shared").banks == (32, 4)
    assert all(m.bandwidth for m in device.memories if m.name in ("global", "shared"))
    assert all(m.capacity for m in device.memories if m.name != "global")


@pytest.mark.parametrize("name", ALL)
def test_figures_agree_with_each_other(name: str) -> None:
    device = devices()[name]
    for figure in ("units", "clock", "f32", "f64", "f16", "schedulers", "registers", "resident threads", "shared"):
        assert device.limit(figure), figure
    clock, units = device.limit("clock") or 0, device.limit("units") or 0
    threads = device.limit("resident threads") or 0
    shared = device.memory("shared")
    assert (device.limit("shared") or 0) >= (shared.capacity or 0) + shared.reserve
    assert shared.bandwidth == pytest.approx(128 * units * clock * (2 if name in RDNA else 1), rel=0.01)
    waves = device.limit("resident warps") or device.limit("resident waves")
    assert threads == (waves or 0) * (device.level("thread").width or 0) or (name in RDNA and threads == 2048)
    for t in ("f16", "bf16", "tf32", "f32", "f64", "f8", "i8"):
        rate = device.limit(f"matrix {t}")
        if rate is not None and name != "sm_90a":  # whose matrix clock differs from that of the rest
            a_cycle = rate / clock
            assert a_cycle == pytest.approx(2 ** round(np.log2(a_cycle)), rel=0.01), t


@pytest.mark.parametrize("name", [n for n in ALL if n not in ("sm_90a", "sm_100a")])
def test_matrix_costs_are_the_rates(name: str) -> None:
    """m*n*k multiply-adds over what the device states for the type: the same cycles, unless the text says why not."""
    device = devices()[name]
    for i in device.instrs:
        if i.family not in ("mma", "mfma", "wmma"):
            continue
        dtype, (a, b, c) = i.operands[0].dtype.name, i.operands
        rate = device.limit(f"matrix {'f8' if dtype.startswith('f8') else dtype}")
        assert rate, i.name
        per_scheduler = rate / (device.limit("clock") or 1) / (device.limit("schedulers") or 1)
        expected = 2 * a.shape[0] * a.shape[1] * b.shape[1] / per_scheduler
        if c.dtype.name == "f16" and name in ("sm_86", "sm_89", "sm_120a"):
            expected /= 2
        if name == "gfx950" and (i.name in OLD_SHAPES or dtype.startswith("f8")):
            expected *= 2
        if name == "gfx90a" and i.name in ("mfma_32x32x4_bf16", "mfma_16x16x8_bf16"):
            expected *= 2
        assert i.cycles == pytest.approx(expected, rel=0.01), i.name


# what an older device had keeps its cycles, or has half the rate
OLD_SHAPES = {f"mfma_{s}_{t}" for s in ("32x32x8", "16x16x16") for t in ("f16", "bf16")}
OLD_SHAPES |= {"mfma_32x32x16_i8", "mfma_16x16x32_i8"}


def test_what_is_where() -> None:
    has = {name: {i.name for i in devices()[name].instrs} for name in ALL}
    assert has["sm_75"] < has["sm_80"] <= has["sm_86"] < has["sm_89"] == has["sm_90a"] == has["sm_120a"]
    for instr, there, not_there in (
        ("mma_m16n8k16_f16", "sm_80", "sm_75"),
        ("mma_m16n8k32_f8e4m3", "sm_89", "sm_86"),
        ("mfma_32x32x8_i8", "gfx90a", "gfx942"),
        ("mfma_16x16x8_tf32", "gfx942", "gfx950"),
        ("mfma_16x16x32_f8e4m3", "gfx950", "gfx942"),  # the f8 of gfx942 is another one
    ):
        assert instr in has[there]
        assert instr not in has[not_there]
    assert devices()["gfx950"].limit("matrix tf32") is None


# ---------------------------------------------------------------- fragments


def test_fragments_are_bijections_or_replicate_inputs() -> None:
    for title, (_, i) in instructions().items():
        for o in (o for o in i.operands if o.shape):
            f = FragmentLayout.of(o)
            held = [tuple(x) for x in f.table().reshape(-1, len(o.shape)).tolist()]
            assert set(held) == set(np.ndindex(*o.shape)), (title, o.name)
            if o.role != "input":
                assert len(held) == prod(o.shape), (title, o.name)
            elif len(held) != prod(o.shape):  # the replications there are
                assert i.family == "ldmatrix" or title.startswith("gfx1100:wmma"), (title, o.name)


@pytest.mark.parametrize("title", family("mma"))
def test_nvidia_fragments_are_the_manuals(title: str) -> None:
    _, i = instructions()[title]
    for o, place in zip(i.operands, manual.NVIDIA[i.name], strict=True):
        f = FragmentLayout.of(o)
        np.testing.assert_array_equal(f.table(), manual.table_of(place, 32, f.registers), err_msg=o.name)


@pytest.mark.parametrize("title", family("mfma"))
def test_cdna_fragments_are_the_manuals(title: str) -> None:
    _, i = instructions()[title]
    (m, k), f64 = i.operands[0].shape, i.operands[2].dtype.name == "f64"
    assert re.fullmatch(rf"mfma_{m}x{m}x{k}_\w+", i.name)
    for o in i.operands:
        np.testing.assert_array_equal(FragmentLayout.of(o).table(), manual.mfma(o.name, m, k, f64), err_msg=o.name)


@pytest.mark.parametrize("title", family("wmma"))
def test_rdna_fragments_are_the_manuals(title: str) -> None:
    _, i = instructions()[title]
    for o in i.operands:
        expected = manual.wmma(o.name, 3 if title.startswith("gfx1100") else 4)
        np.testing.assert_array_equal(FragmentLayout.of(o).table(), expected, err_msg=o.name)


@pytest.mark.parametrize("title", family("ldmatrix"))
def test_ldmatrix_is_the_manuals(title: str) -> None:
    """The element that a lane gets is the one at that row and column of the matrix whose rows other lanes addressed."""
    _, i = instructions()[title]
    number, trans = int(re.search(r"_x(\d)", i.name).group(1)), "trans" in i.name  # type: ignore[union-attr]
    s, d = (FragmentLayout.of(o) for o in i.operands)
    per_word = 4 // i.operands[0].dtype.bytes
    addressed = s.table()  # the row that each lane addresses
    assert addressed.shape[1] == 4 * per_word
    got = d.table().reshape(-1, 2)
    for element, (matrix, row, column) in zip(got, manual.ldmatrix(number, trans, per_word), strict=True):
        np.testing.assert_array_equal(element, addressed[8 * matrix + row, column])


def turned(f: FragmentLayout) -> FragmentLayout:
    return FragmentLayout(f.coords, f.map[::-1], f.shape[::-1])


# ldmatrix, the instruction that takes what it loads, which operand of it
FEEDS = [
    ("ldmatrix_x4_a_f16x2", "mma_m16n8k16_f16", "A"),
    ("ldmatrix_x4_a_bf16x2", "mma_m16n8k16_bf16", "A"),
    ("ldmatrix_x4_a_i8x4", "mma_m16n8k32_i8", "A"),
    ("ldmatrix_x4_a_f8e4m3x4", "mma_m16n8k32_f8e4m3", "A"),
    ("ldmatrix_x4_a_tf32x1", "mma_m16n8k8_tf32", "A"),
    ("ldmatrix_x2_a_f16x2", "mma_m16n8k8_f16", "A"),
    ("ldmatrix_x2_a_i8x4", "mma_m16n8k16_i8", "A"),
    ("ldmatrix_x2_a_tf32x1", "mma_m16n8k4_tf32", "A"),
    ("ldmatrix_x2_b_f16x2", "mma_m16n8k16_f16", "Bt"),
    ("ldmatrix_x2_b_i8x4", "mma_m16n8k32_i8", "Bt"),
    ("ldmatrix_x2_b_tf32x1", "mma_m16n8k8_tf32", "Bt"),
    ("ldmatrix_x1_b_f16x2", "mma_m16n8k8_f16", "Bt"),
    ("ldmatrix_x1_b_i8x4", "mma_m16n8k16_i8", "Bt"),
    ("ldmatrix_x4_bb_f16x2", "mma_m16n8k16_f16", "BBt"),
    ("ldmatrix_x4_bb_i8x4", "mma_m16n8k32_i8", "BBt"),
    ("ldmatrix_x4_trans_a_f16", "mma_m16n8k16_f16", "At"),
    ("ldmatrix_x2_trans_a_bf16", "mma_m16n8k8_bf16", "At"),
    ("ldmatrix_x2_trans_b_f16", "mma_m16n8k16_f16", "B"),
    ("ldmatrix_x1_trans_b_f16", "mma_m16n8k8_f16", "B"),
    ("ldmatrix_x4_trans_bb_bf16", "mma_m16n8k16_bf16", "BB"),
]


@pytest.mark.parametrize(("load", "mma", "operand"), FEEDS)
def test_ldmatrix_gives_the_operands(load: str, mma: str, operand: str) -> None:
    device = devices()["sm_89"]
    d = FragmentLayout.of(next(i for i in device.instrs if i.name == load).operand("D"))
    wanted = FragmentLayout.of(next(i for i in device.instrs if i.name == mma).operand(operand[0]))
    if operand.startswith("BB"):
        wanted = wanted.tiled((1, 2))
    if operand.endswith("t"):
        wanted = turned(wanted)
    assert d.equal(wanted)


# ---------------------------------------------------------------- what they compute


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
    if names == ["S", "D"]:
        return x["S"]
    if names == ["S", "L", "D"]:  # as many elements as the last operand says, then zeros
        return np.where(np.arange(x["S"].shape[-1]) < x["L"].reshape(-1, 1), x["S"], np.zeros((), x["S"].dtype))
    a, b, c = (x[n].astype("i8" if instr.operands[2].dtype.kind == "int" else "f8") for n in names)
    a, b, c = (v.reshape(v.shape[0], *o.shape) for v, o in zip((a, b, c), instr.operands, strict=True))
    if a.ndim == 3:
        return c + a @ b
    if a.ndim == 1:
        return c + a[:, None] * b
    return c + (a * b).sum(axis=1)


def some(rng: np.random.Generator, o: Operand, shape: tuple[int, ...], whole: bool) -> np.ndarray:
    if o.dtype.kind in ("int", "uint"):
        low = 0 if o.dtype.kind == "uint" else -100
        return rng.integers(low, 100, shape).astype(o.dtype.numpy)
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


# ---------------------------------------------------------------- their texts


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
