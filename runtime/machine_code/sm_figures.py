"""What an SM takes for each instruction: cycles of its pipe, latency, bytes.

Rates come from the text of the device: its clock, its peaks, the cycles and latencies of its matrix instructions, and the
bandwidths of its memories. What no device states is a constant here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...dsl.device import Device, Instr
from ...dsl.support.cached import cached_property
from .instruction import Instruction
from .sass_classes import ALU, CLASS, FMA, FP64, SHARED, SPECIAL, TENSOR, UNIFORM, sass_pipe

LANES = 32  # threads: of a warp [fact: CUDA C++ Programming Guide]
# bytes: that the shared memory pipe of an SM moves in a cycle [fact: CUDA C++ Programming Guide, "Shared Memory"]
WAVEFRONT = 128


# A warp's instruction takes a scheduler's pipe 32 cycles over its results in a cycle, a quarter of those of the SM.
# cycles: of an addition, a comparison or a logical operation [fact: CUDA C++ Programming Guide, "Arithmetic Instructions"]
ALU_CYCLES = 2
IMAD_CYCLES = 2  # cycles: of an integer multiplication [fact: CUDA C++ Programming Guide, "Arithmetic Instructions"]
SPECIAL_CYCLES = 8  # cycles: of a special function [fact: CUDA C++ Programming Guide, "Arithmetic Instructions"]
UNIFORM_CYCLES = 1  # cycles: of an instruction for a whole warp [estimate; test_cycles_of_a_pipe]

# From the end of an instruction's share of a pipe to its result.
SHARED_LATENCY = 23  # cycles: of shared memory and of shuffles [fact: arXiv 2208.11174, an A100]
LDSM_LATENCY = 29  # cycles: of ldmatrix [fact: arXiv 2206.02874, an A100]
# cycles: of global memory under load [estimate; test_a_result_from_global_memory_is_waited_for]
GLOBAL_LATENCY = 500
RETURN_LATENCY = 200  # cycles: from the L2 cache to the SM [fact: arXiv 2208.11174, an A100]
SPECIAL_LATENCY = 18  # cycles: of a special function [fact: arXiv 2208.11174, an A100]
UNIFORM_LATENCY = 10  # cycles: of an instruction for a whole warp [fact: arXiv 2208.11174, an A100]
ARITHMETIC_LATENCY = 4  # cycles: of FFMA and IADD3, which ptxas mostly counts itself [fact: arXiv 2208.11174, an A100]
# cycles: of a matrix instruction, where the device states none: 25 less the 8 of its pipe [fact: arXiv 2206.02874, an A100]
MMA_LATENCY = 17

# bytes: of the L2 cache, a cycle and SM, where the device states none; 5120 for 108 SMs [fact: NVIDIA A100 whitepaper]
L2_BYTES = 47

_MATRIX = {"HMMA": "f16", "IMMA": "i8", "QMMA": "f8e4m3", "DMMA": "f64"}
# elements: m, n and k of a matrix instruction with this modifier [fact: PTX ISA, "Matrix Shape"]
_SHAPES = {
    "16816": (16, 8, 16),
    "1688": (16, 8, 8),
    "1684": (16, 8, 4),
    "16832": (16, 8, 32),
    "8816": (8, 8, 16),
    "884": (8, 8, 4),
    "8x8x4": (8, 8, 4),
}


@dataclass(frozen=True)
class Work:
    """What an instruction of one warp takes.

    pipe     None: only its issue slot
    cycles   of the pipe
    latency  cycles from the end of these to the result
    l2       bytes that it reads by way of the L2 cache
    """

    pipe: str | None
    cycles: float = 0
    latency: float = 0
    l2: int = 0


@dataclass(frozen=True)
class SmFigures:
    """The figures of one device."""

    device: Device

    @property
    def known(self) -> bool:
        """Whether the device states what the model needs."""
        return all(self.device.limit(n) for n in ("clock", "units", "schedulers", "f32"))

    @cached_property
    def schedulers(self) -> int:
        return int(self._limit("schedulers"))

    @cached_property
    def clock(self) -> float:
        """Cycles a second."""
        return self._limit("clock")

    @cached_property
    def l2_bytes(self) -> float:
        """Bytes of the L2 cache, a cycle and SM."""
        return next((b for m in self.device.memories if m.backing and (b := self._bytes(m.bandwidth))), L2_BYTES)

    @cached_property
    def dram_bytes(self) -> float | None:
        """Bytes of the outermost memory, a cycle and SM."""
        return self._bytes(self.device.memories[0].bandwidth)

    def _bytes(self, bandwidth: float | None) -> float | None:
        return bandwidth / (self._limit("units") * self.clock) if bandwidth else None

    def _limit(self, name: str) -> float:
        value = self.device.limit(name)
        assert value
        return value

    def _cycles(self, rate: str, flops: float) -> float:
        """Of a warp's instruction with so many operations a lane, at a rate of the device in operations a second and SM. A
        scheduler gives a pipe no more than one a cycle, though a device may state its peak at a higher clock."""
        known = self.device.limit(rate)
        return max(1, flops * LANES / (known / self.clock / self.schedulers)) if known else ALU_CYCLES

    def work(self, i: Instruction) -> Work | None:
        """None for an instruction that no figures are known of."""
        name = sass_pipe(i)
        if name == TENSOR:
            return self._matrix(i)
        if name == SHARED:
            return self._memory(i)
        if name == FMA:
            half = i.base.startswith("H")
            cycles = IMAD_CYCLES if i.base.startswith("I") else self._cycles("f16", 4) if half else self._cycles("f32", 2)
            return Work(name, cycles, ARITHMETIC_LATENCY)
        if name == FP64:
            return Work(name, self._cycles("f64", 2), ARITHMETIC_LATENCY)
        figures = {
            ALU: Work(ALU, ALU_CYCLES, ARITHMETIC_LATENCY),
            SPECIAL: Work(SPECIAL, SPECIAL_CYCLES, SPECIAL_LATENCY),
            UNIFORM: Work(UNIFORM, UNIFORM_CYCLES, UNIFORM_LATENCY),
        }
        return figures[name] if name else Work(None)

    def _memory(self, i: Instruction) -> Work:
        """A warp's access without bank conflicts, to whole transactions."""
        words = _words(i)
        name = CLASS.get(i.base)
        if name in ("global load", "async copy", "atomic"):
            return Work(SHARED, max(words, 1), GLOBAL_LATENCY, int(words * WAVEFRONT))
        if name == "local memory":
            return Work(SHARED, max(words, 1), SHARED_LATENCY)
        return Work(SHARED, max(words, 1), LDSM_LATENCY if i.base == "LDSM" else SHARED_LATENCY)

    def _matrix(self, i: Instruction) -> Work | None:
        parts = i.opcode.split(".")
        kind = (
            "tf32" if "TF32" in parts else "bf16" if "BF16" in parts else "f8e5m2" if "E5M2" in parts else _MATRIX.get(i.base)
        )
        shape = next((_SHAPES[p] for p in parts if p in _SHAPES), None)
        wide = "F32" in parts or i.base != "HMMA"
        instr = next((x for x in self.device.instrs if kind and _is_product(x, kind, shape, wide)), None)
        if instr is None or instr.cycles is None:
            return None
        return Work(TENSOR, instr.cycles, max(0, (instr.latency or instr.cycles + MMA_LATENCY) - instr.cycles))


def _is_product(instr: Instr, kind: str, shape: tuple[int, int, int] | None, wide: bool) -> bool:
    """Whether an instruction of a device multiplies matrices of these types and this shape."""
    if shape is None or not instr.accumulate or len(instr.operands) != 3:
        return False
    a, b, c = instr.operands
    m, n, k = shape
    accumulates = c.dtype.name in ("f32", "i32", "f64") if wide else c.dtype.name == "f16"
    return a.dtype.name == kind and a.shape == (m, k) and b.shape == (k, n) and accumulates


def _words(i: Instruction) -> float:
    """Words of 4 bytes that each lane accesses; less than one for narrow accesses."""
    parts = i.opcode.split(".")
    if i.base in ("LDSM", "STSM"):
        return next((int(p) for p in parts if p in ("2", "4")), 1)
    bits = next((int(m[1]) for p in parts if (m := re.fullmatch(r"[US]?(8|16|32|64|128|256)", p))), 32)
    return bits / 32
