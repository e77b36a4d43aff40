"""Devices from text: levels, memories, limits, instructions; what extending one changes."""

from __future__ import annotations

from pathlib import Path

import andiron
import numpy as np
import pytest
from andiron.dsl.device import Device
from andiron.dsl.devices.resolve_device import resolve_devices
from andiron.dsl.fragment import FragmentLayout
from andiron.dsl.op import Reduction
from andiron.dsl.syntax import DeviceDecl
from andiron.dsl.text.parser import parse_text

from ...support.paths import DEVICES

STDLIB = Path(andiron.__file__).parent / "stdlib" / "devices"


def devices(text: str, known: dict[str, Device] | None = None) -> dict[str, Device]:
    decls = [d for d in parse_text(text).declarations if isinstance(d, DeviceDecl)]
    return resolve_devices(decls, known or {})


@pytest.fixture(scope="module")
def cpus() -> dict[str, Device]:
    return devices((STDLIB / "cpu.sched").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def simt() -> Device:
    return devices((DEVICES / "simt.sched").read_text(encoding="utf-8"))["simt"]


@pytest.mark.parametrize(
    ("name", "wide", "f32", "f64"), [("generic", 16, 4, 2), ("avx2", 32, 8, 4), ("avx512", 64, 16, 8), ("neon", 16, 4, 2)]
)
def test_cpus(cpus, name, wide, f32, f64):
    device = cpus[f"cpu:{name}"]
    assert [x.name for x in device.levels] == ["socket", "core", "lane"]
    assert device.levels[0].units == "open"
    assert (device.level("lane").siblings, device.level("lane").bytes, device.level("lane").most) == ("lockstep", wide, 64)
    assert device.level("core").siblings == "barrier"
    assert device.memories[0].name == "dram"
    assert device.memory("dram").transaction == 64
    assert {m.backing for m in device.memories} == {None, "dram"}
    assert {i.family for i in device.instrs} <= {"fma", "dot", "transpose", "stream"}
    fused = [i for i in device.instrs if i.family == "fma"]
    whole = [("i32", f32)] * any(i.name.startswith("madd") for i in fused)
    assert bool(whole) == (name in ("avx2", "avx512"))
    for i, (dtype, lanes) in zip(fused, (("f32", f32), ("f64", f64), *whole), strict=True):
        assert i.name == f"{'madd' if dtype == 'i32' else 'fma'}_{dtype}x{lanes}"
        assert i.accumulate
        assert i.statement.reduction is None
        assert [(o.role, o.dtype.name, o.shape) for o in i.operands] == [
            ("input", dtype, ()), ("input", dtype, (lanes,)), ("inout", dtype, (lanes,)),
        ]  # fmt: skip
        assert FragmentLayout.of(i.operands[0]).units == 1
        assert FragmentLayout.of(i.operands[2]).linear().ravel().tolist() == list(range(lanes))
        assert dict(i.emits)["cpp"].startswith("c = ")
        assert i.cycles is not None
    dots = [i for i in device.instrs if i.family == "dot"]
    assert bool(dots) == bool(whole)
    for i in dots:  # pairs that lie side by side, in both operands
        assert [(o.role, o.dtype.name, o.shape) for o in i.operands] == [
            ("input", "i16", (2,)), ("input", "i16", (2, f32)), ("inout", "i32", (f32,)),
        ]  # fmt: skip
        at = [tuple(int(e.evaluate({"r": r})) for e in i.operands[1].map) for r in range(2 * f32)]
        assert at == [(k, n) for n in range(f32) for k in range(2)]
        assert i.accumulate
        assert i.statement.reduction is not None
    peak = device.limit("f32")
    assert peak == 2 * f32 * (device.limit("clock") or 0) / device.instrs[0].cycles


def test_an_extending_device_changes_only_what_it_states(cpus):
    base, avx2 = cpus["cpu:base"], cpus["cpu:avx2"]
    assert base.instrs == ()
    assert avx2.level("lane").siblings == base.level("lane").siblings
    assert avx2.memory("l2").capacity == 512 * 1024
    assert avx2.memory("l2").backing == "dram"
    assert avx2.memory("l1") == base.memory("l1")
    child = devices(
        "device mine extends cpu:avx2:\n    level core: finite 3\n    memory scratch of core: 64 KiB\n    clock 4 GHz\n", cpus
    )["mine"]
    assert child.level("core").most == 3
    assert child.level("core").siblings == "barrier"
    assert [m.name for m in child.memories] == ["dram", "l3", "l2", "l1", "scratch", "register"]  # outermost first
    assert [m.name for m in avx2.memories] == ["dram", "l3", "l2", "l1", "register"]
    assert child.limit("clock") == 4e9
    assert child.limit("f32") == avx2.limit("f32")
    assert child.instrs == avx2.instrs


def test_declaration_order_does_not_matter():
    found = devices("device b extends a: clock 1 GHz\ndevice a: clock 2 GHz, units 3\n")
    assert found["b"].limit("clock") == 1e9
    assert found["b"].limit("units") == 3


def test_simt_levels_and_memories(simt):
    assert [(x.name, x.units, x.siblings, x.most, x.width) for x in simt.levels] == [
        ("grid", "finite", "nothing", 1, None),
        ("block", "open", "nothing", None, None),
        ("warp", "shaped", "barrier", 32, None),
        ("thread", "shaped", "lockstep", 32, 32),
    ]
    assert simt.limit("block thread") == 1024
    shared = simt.memory("shared")
    assert (shared.capacity, shared.banks, shared.reserve) == (163 * 1024, (32, 4), 1024)
    assert simt.memory("register").registers == (255, 4)


def test_mma_fragments(simt):
    mma = next(i for i in simt.instrs if i.family == "mma")
    assert mma.accumulate
    assert mma.statement.reduction == Reduction("sum", ("k",))
    assert [(FragmentLayout.of(o).units, FragmentLayout.of(o).registers) for o in mma.operands] == [(32, 8), (32, 4), (32, 4)]
    # The manual's pictures: groupID = lane >> 2, threadID_in_group = lane % 4.
    for lane in (0, 5, 31):
        group, t = lane >> 2, lane % 4
        a = [(group + 8 * (i in (2, 3, 6, 7)), t * 2 + (i & 1) + 8 * (i >= 4)) for i in range(8)]
        b = [(t * 2 + (i & 1) + 8 * (i >= 2), group) for i in range(4)]
        c = [(group + 8 * (i >= 2), t * 2 + (i & 1)) for i in range(4)]
        for operand, expected in zip(mma.operands, (a, b, c), strict=True):
            assert [tuple(x) for x in FragmentLayout.of(operand).table()[lane].tolist()] == expected


def test_ldmatrix_gives_the_mma_fragment(simt):
    ldmatrix = next(i for i in simt.instrs if i.family == "ldmatrix")
    mma = next(i for i in simt.instrs if i.family == "mma")
    assert FragmentLayout.of(ldmatrix.operand("D")).equal(FragmentLayout.of(mma.operand("A")))
    source = ldmatrix.operand("S")
    assert (source.memory, source.role, source.alignment) == ("shared", "input", 16)
    table = FragmentLayout.of(source).table()
    assert (table[..., 1] - table[:, :1, 1] == np.arange(8)).all()  # a lane's address is that of 8 elements in a row
    assert table[9, 0].tolist() == [9, 0]
    assert table[16, 0].tolist() == [0, 8]


def test_asynchronous_copy(simt):
    copies = [i for i in simt.instrs if i.family == "cp_async"]
    assert [i.awaits for i in copies] == [("group",)] * 2
    for i in copies:
        assert i.level == "thread"
        assert [o.memory for o in i.operands] == ["global", "shared"]
        assert {o.shape[0] * o.dtype.bytes for o in i.operands} == {16}
        assert not i.accumulate
