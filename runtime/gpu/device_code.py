"""Device code: the output of GPU compilers, with their report of the resources of each kernel."""

from __future__ import annotations

from dataclasses import dataclass

# What each dialect's device code can be; the first one is what a driver loads.
FORMATS = {"cuda": ("cubin", "ptx"), "hip": ("hsaco",)}


@dataclass(frozen=True)
class KernelUsage:
    """One kernel, in a compiler's words.

    registers  of a thread; on AMD vector and accumulation registers together
    spills     bytes that a thread stores for lack of registers
    stack      bytes of memory of its own that a thread has, spills included
    shared     bytes of a block, those asked for at the launch left out
    groups     warps or waves that a scheduler holds at a time by their registers, where the compiler says so
    """

    kernel: str
    registers: int
    spills: int = 0
    stack: int = 0
    shared: int = 0
    groups: int | None = None


@dataclass(frozen=True)
class CompilerOutput:
    """The answer of one run of a compiler. `words`: what it said besides, warnings and the like; "" when there was nothing."""

    data: bytes
    usage: tuple[KernelUsage, ...]
    words: str = ""


@dataclass(frozen=True)
class DeviceCode(CompilerOutput):
    """Code of a `format` by a `compiler`, in its own words; whether the cache had it."""

    format: str = ""
    compiler: str = ""
    cached: bool = False
