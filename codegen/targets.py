"""Targets: a typed manifest each, for CPU devices with the compiler's flags and the machine's features. All of it is data.

A target's name is a family, or a family and a device of it: `cpu`, `cpu:avx2`, `cuda:sm_80`. The device's own text
(levels, memories, instructions) is in `stdlib/devices`; here are only a C++ compiler's options for it. Compilers for GPUs know
the library's devices by the same names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..dsl.device import Device
from ..dsl.errors import did_you_mean
from ..dsl.errors.target import UnknownTarget
from ..dsl.stdlib_files import std_devices
from . import abi


@dataclass(frozen=True)
class Family:
    """One way of building and launching.

    dialect    the folder of templates and the key of an instruction's `emit`
    devices    how the device's name is made of what follows the colon (`{}`)
    toolchain  what turns the text into something to load: `c++`, or what `runtime.gpu` has for a dialect
    launcher   how it is called: `ctypes`, `driver` (modules loaded by a GPU's driver), `emulator` (this machine plays it)
    root       the device of the library that all of this family extend; "" where any will do
    usual      the device whose text is shown where none is named and none is at hand; "" where one always is
    """

    name: str
    dialect: str
    devices: str
    toolchain: str
    launcher: str
    root: str = ""
    usual: str = ""


FAMILIES = {
    f.name: f
    for f in [
        Family("cpu", dialect="cpp", devices="cpu:{}", toolchain="c++", launcher="ctypes"),
        Family("cuda", dialect="cuda", devices="{}", toolchain="cuda", launcher="driver", root="nvidia", usual="sm_80"),
        Family("hip", dialect="hip", devices="{}", toolchain="hip", launcher="driver", root="amd", usual="gfx90a"),
        Family("emulate", dialect="emulate", devices="{}", toolchain="c++", launcher="emulator"),
    ]
}


@dataclass(frozen=True)
class TargetMachine:
    """What code for one CPU device needs.

    architecture  the machine's family (`x86_64`, `aarch64`); None: any
    features      names of CPU features that must be there to execute the code, as Linux spells them
    flags         for gcc and clang; `zig` for the same compiler under zig's spelling (it takes the CPU it runs on by default)
    """

    device: str
    architecture: str | None
    features: frozenset[str]
    flags: tuple[str, ...]
    zig: tuple[str, ...]


_V2 = frozenset({"sse4_2", "ssse3", "popcnt", "cx16"})
_V3 = _V2 | {"avx", "avx2", "fma", "f16c", "bmi1", "bmi2", "movbe"}
_V4 = _V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}

# `native` is this machine: nothing to require, it is what was detected. Named devices carry the features of the
# x86-64 psABI's micro-architecture levels, so that one name means one set of instructions for every compiler.
NATIVE = TargetMachine("native", None, frozenset(), ("-march=native",), ("-mcpu=native",))
MACHINES = {
    m.device: m
    for m in [
        TargetMachine("cpu:generic", None, frozenset(), (), ("-mcpu=baseline",)),
        TargetMachine("cpu:avx2", "x86_64", _V3, ("-march=x86-64-v3",), ("-mcpu=x86_64_v3",)),
        TargetMachine("cpu:avx512", "x86_64", _V4, ("-march=x86-64-v4",), ("-mcpu=x86_64_v4",)),
        TargetMachine("cpu:neon", "aarch64", frozenset({"asimd"}), ("-march=armv8-a",), ("-mcpu=generic",)),
    ]
}

# What a build adds to the flags that the text asks for: a shared library, neither exceptions nor run-time types.
FLAGS = ("-std=c++17", *abi.FLAGS, "-fno-exceptions", "-fno-rtti", "-shared", "-fPIC")


@dataclass(frozen=True)
class Target:
    """A target as asked for.

    device   the name of its device, None for the machine at hand
    machine  what a C++ compiler and a CPU need for it
    arch     the name by which compilers know a device of a driver: its own, or that of the nearest one of the library that
             it extends; "" where they know none
    """

    name: str
    family: Family
    device: str | None = None
    machine: TargetMachine = NATIVE
    arch: str = ""


def target_of(name: str, known: Mapping[str, Sequence[str]] | None = None) -> Target:
    """The target of that name. Raises UnknownTarget.

    known  devices, each with the names of the devices it extends, nearest first: what a CPU must have for one is what it must
           have for the nearest that is in `MACHINES`
    """
    head, colon, rest = name.partition(":")
    family = FAMILIES.get(head)
    if family is None:
        raise UnknownTarget(f"no target `{name}`", help=_families(name, known or {}))
    if not colon and family.launcher == "emulator":
        raise UnknownTarget(f"`{name}` needs a device", help=f"name one, as in `{name}:sm_80`")
    if not colon:
        return Target(name, family)
    device = family.devices.format(rest)
    known = known or {}
    line = (device, *known.get(device, ()))
    if family.root:
        if family.root not in line[1:]:
            others = (f"{head}:{n}" for n in known if family.root in known[n])
            raise UnknownTarget(f"no target `{name}`", help=did_you_mean(name, others))
        return Target(name, family, device, arch=next((n for n in line if n in std_devices()), ""))
    if family.launcher == "emulator":
        if device not in known:
            # of what has no blocks there is nothing to emulate, so no such target is proposed
            others = (f"{head}:{n}" for n in known if n.partition(":")[0] not in FAMILIES)
            raise UnknownTarget(f"no target `{name}`", help=did_you_mean(name, others))
        return Target(name, family, device)
    if device not in MACHINES and device not in known:
        others = (n for n in known if n.startswith(f"{head}:"))
        raise UnknownTarget(f"no target `{name}`", help=did_you_mean(name, ["cpu", *MACHINES, *others]))
    parents = [MACHINES[n] for n in line if n in MACHINES]
    return Target(name, family, device, parents[0] if parents else MACHINES["cpu:generic"])


def _families(name: str, known: Mapping[str, Sequence[str]]) -> str:
    """What may be meant by a target of no family: a device without one, or a family misspelt."""
    if name in known:
        fitting = (f for f in FAMILIES.values() if (f.root in known[name] if f.root else f.launcher == "emulator"))
        return "a target is a family and a device: " + ", ".join(f"`{f.name}:{name}`" for f in fitting)
    shown = ", ".join(f"`{n}`" for n in sorted(FAMILIES))
    near = did_you_mean(name, FAMILIES) or ""
    near = f"{near} " if near.startswith("did you mean") else ""
    return f"{near}targets are {shown}, most with a device, as in `emulate:sm_80`; `andiron targets` lists them"


def has_blocks(device: Device) -> bool:
    """Whether the dialects of GPUs fit it: as many blocks as there are tiles, of units whose number the schedule fixes."""
    kinds = [level.units for level in device.levels]
    return "open" in kinds and set(kinds[len(kinds) - kinds[::-1].index("open") :]) == {"shaped"}


def compiler_flags(machine: TargetMachine, kind: str) -> tuple[str, ...]:
    """All flags for code of `machine` with a compiler of this kind (`gcc`, `clang`, `zig`)."""
    return (*FLAGS, *(abi.GCC_FLAGS if kind == "gcc" else ()), *(machine.zig if kind == "zig" else machine.flags))
