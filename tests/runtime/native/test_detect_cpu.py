"""The CPU at hand as device text: always valid, whatever the system tells."""

from __future__ import annotations

from pathlib import Path

import pytest
from andiron.codegen import targets
from andiron.dsl.device import Device
from andiron.dsl.devices.resolve_device import resolve_devices
from andiron.dsl.errors.target import UnknownTarget
from andiron.dsl.syntax import DeviceDecl
from andiron.dsl.text.parser import parse_text
from andiron.runtime.native import cpu_features, detect_cpu

STDLIB = Path(cpu_features.__file__).parents[2] / "stdlib" / "devices" / "cpu.sched"


def resolved(text: str) -> Device:
    known: dict[str, Device] = {}
    for source in (STDLIB.read_text(encoding="utf-8"), text):
        known |= resolve_devices([d for d in parse_text(source).declarations if isinstance(d, DeviceDecl)], known)
    return known[detect_cpu.NAME]


@pytest.fixture
def sysfs(tmp_path: Path) -> Path:
    """Two cores of two threads: 48K of l1, 1M of l2, 32M of l3."""
    for cpu in range(4):
        base = tmp_path / f"cpu{cpu}"
        pair = f"{cpu % 2},{cpu % 2 + 2}"
        for i, (level, kind, size, shared) in enumerate(
            [
                ("1", "Data", "48K", pair),
                ("1", "Instruction", "32K", pair),
                ("2", "Unified", "1024K", pair),
                ("3", "Unified", "32M", "0-3"),
            ]
        ):
            folder = base / "cache" / f"index{i}"
            folder.mkdir(parents=True)
            for name, text in (("level", level), ("type", kind), ("size", size), ("shared_cpu_list", shared)):
                (folder / name).write_text(text + "\n")
        (base / "cpufreq").mkdir()
        (base / "cpufreq" / "cpuinfo_max_freq").write_text("3500000\n")
    return tmp_path


def test_this_machine():
    device = resolved(detect_cpu.detect_cpu())
    assert device.level("core").most == len(detect_cpu.usable_cpus())
    assert device.memory("l1").capacity is not None
    assert any(i.family == "fma" for i in device.instrs)


@pytest.mark.skipif(detect_cpu.sys.platform == "darwin", reason="reads /sys")
@pytest.mark.parametrize(
    ("architecture", "words", "parent", "width"),
    [
        ("x86_64", detect_cpu.MACHINES["cpu:avx512"].features, "cpu:avx512", 64),
        ("x86_64", detect_cpu.MACHINES["cpu:avx2"].features, "cpu:avx2", 32),
        ("x86_64", frozenset({"sse4_2"}), "cpu:generic", 16),
        ("aarch64", frozenset({"asimd"}), "cpu:neon", 16),
        ("aarch64", frozenset(), "cpu:neon", 16),
        ("riscv64", frozenset(), "cpu:generic", 16),
    ],
)
def test_described_machine(monkeypatch, sysfs, architecture, words, parent, width):
    monkeypatch.setattr(cpu_features, "architecture", lambda: architecture)
    monkeypatch.setattr(cpu_features, "features", lambda: words)
    monkeypatch.setattr(detect_cpu, "usable_cpus", lambda: [0, 1, 2])
    text = detect_cpu.detect_cpu(sysfs)
    assert f"extends {parent}:" in text
    device = resolved(text)
    assert device.level("core").most == 3
    assert device.level("lane").bytes == width
    assert device.memory("l1").capacity == 24 * 1024  # shared by 0 and 2
    assert device.memory("l2").capacity == 512 * 1024
    assert device.memory("l3").capacity == 32 * 2**20
    assert device.memory("l3").backing == "dram"
    assert device.limit("clock") == 3.5e9


def test_silent_machine(monkeypatch, tmp_path):
    monkeypatch.setattr(cpu_features, "architecture", lambda: "")
    monkeypatch.setattr(cpu_features, "features", frozenset)
    monkeypatch.setattr(cpu_features, "_cpuinfo", lambda *keys: "")
    monkeypatch.setattr(cpu_features, "_sysctl", lambda *names: "")
    monkeypatch.delattr(detect_cpu.os, "sysconf", raising=False)
    monkeypatch.delattr(detect_cpu.os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(detect_cpu.os, "cpu_count", lambda: None)
    text = detect_cpu.detect_cpu(tmp_path)
    assert text == "device cpu:native extends cpu:generic:\n    level core: finite 1\n"
    resolved(text)


def test_odd_texts():
    assert detect_cpu._bytes("48K") == 49152
    assert detect_cpu._bytes("nonsense") is None
    assert detect_cpu._bytes("") is None
    assert detect_cpu._cpu_list("0-2,7") == {0, 1, 2, 7}
    assert detect_cpu._cpu_list("") == set()


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch):
    """Sets ANDIRON_CPU on a machine of AVX-512; what is remembered of the machine is forgotten before and after."""

    def forget() -> None:
        cpu_features.features.cache_clear()
        cpu_features.machine_limit.cache_clear()

    def limit(name: str, words: frozenset[str] = targets.MACHINES["cpu:avx512"].features) -> None:
        monkeypatch.setattr(cpu_features, "architecture", lambda: "x86_64")
        monkeypatch.setattr(cpu_features, "_feature_words", lambda: sorted(words))
        monkeypatch.setenv("ANDIRON_CPU", name)
        forget()

    yield limit
    monkeypatch.undo()
    forget()


def test_a_machine_is_used_as_an_older_one(limited):
    limited("cpu:avx2")
    assert detect_cpu.fitting_device() == "cpu:avx2"
    assert cpu_features.missing(targets.MACHINES["cpu:avx512"])
    assert "-march=x86-64-v3" in cpu_features.flags_for(targets.NATIVE, "gcc")
    assert "-march=x86-64-v4" in cpu_features.flags_for(targets.MACHINES["cpu:avx512"], "gcc")


@pytest.mark.parametrize(
    ("name", "words", "reason"),
    [
        ("cpu:avxx", targets.MACHINES["cpu:avx512"].features, "names no CPU device"),
        ("cpu:neon", targets.MACHINES["cpu:avx512"].features, "x86_64 architecture"),
        ("cpu:avx512", targets.MACHINES["cpu:avx2"].features, "lacks avx512bw"),
    ],
)
def test_a_limit_that_this_machine_cannot_be(limited, name, words, reason):
    limited(name, words)
    with pytest.raises(UnknownTarget, match=reason):
        cpu_features.features()
