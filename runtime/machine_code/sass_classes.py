"""Classes of SASS instructions, and the pipe that executes each.

The opcodes are those of NVIDIA's "CUDA Binary Utilities", "Instruction Set Reference".
"""

from __future__ import annotations

from .classes import MEMORY, OTHER
from .instruction import Instruction

_BY_CLASS = {
    "mma": "HMMA IMMA DMMA QMMA BMMA OMMA HGMMA IGMMA QGMMA BGMMA",
    "fma": "FFMA FFMA2 FFMA32I HFMA2 HFMA2_32I DFMA IDP",
    "float": "FADD FADD2 FADD32I FMUL FMUL2 FMUL32I FMNMX FMNMX3 FSEL FSET FSETP FSWZADD FCHK DADD DMUL DSETP"
    " HADD2 HADD2_32I HMUL2 HMUL2_32I HMNMX2 HSET2 HSETP2",
    "integer": "IMAD IADD IADD3 IADD32I IADD64 IABS IMUL IMUL32I IMNMX ISETP ISCADD LEA LOP LOP3 LOP32I SHF SHL SHR PRMT SGXT"
    " BFE BMSK BREV FLO POPC VABSDIFF VABSDIFF4 VHMNMX VIADD VIADDMNMX VIMNMX VIMNMX3 MOV MOV32I SEL PLOP3 PSETP P2R R2P R2UR"
    " UIADD UIADD3 UIADD64 UIMAD UIMNMX UISETP ULEA ULOP ULOP3 ULOP32I USHF USHL USHR UPRMT USGXT UBMSK UBREV UFLO UPOPC"
    " CS2R UMOV USEL UPLOP3 UPSETP UP2UR UR2UP UVIADD UVIMNMX",
    "conversion": "F2F F2FP F2I F2IP I2F I2FP I2I I2IP FRND",
    "special function": "MUFU",
    "shared load": "LDS LDSM",
    "shared store": "STS STSM",
    "shuffle": "SHFL REDUX",
    "global load": "LDG LD",
    "global store": "STG ST",
    "local memory": "LDL STL",
    "atomic": "ATOM ATOMG ATOMS RED",
    "async copy": "LDGSTS UBLKCP UTMALDG UTMASTG UTMAREDG",
    "wait": "LDGDEPBAR DEPBAR SYNCS ARRIVES UTMACMDFLUSH WARPGROUP",
    "barrier": "BAR MEMBAR ERRBAR WARPSYNC",
    "branch": "BRA BRX BRXU JMP JMX CALL RET EXIT BSSY BSYNC BREAK BMOV YIELD KILL NANOSLEEP",
}
CLASS = {opcode: name for name, opcodes in _BY_CLASS.items() for opcode in opcodes.split()}

TENSOR, FMA, FP64, ALU, SPECIAL, UNIFORM, SHARED = (
    "tensor",
    "fma",
    "fp64",
    "alu",
    "special function",
    "uniform",
    "shared memory",
)
# The throughput table of the CUDA C++ Programming Guide ("Throughput of Native Arithmetic Instructions") tells the pipes of
# arithmetic apart. IMAD and half precision are executed with FFMA (Nsight Compute, "Pipelines": FMA).
_BY_PIPE = {
    FMA: "FFMA FFMA2 FFMA32I FADD FADD2 FADD32I FMUL FMUL2 FMUL32I FSWZADD IMAD IMUL IMUL32I IDP"
    " HFMA2 HFMA2_32I HADD2 HADD2_32I HMUL2 HMUL2_32I",
    FP64: "DFMA DADD DMUL DSETP",
    SPECIAL: "MUFU F2F F2I I2F FRND POPC FLO BREV",
    SHARED: "S2R LDC",
    UNIFORM: "S2UR R2UR ULDC LDCU",
}
_PIPE = {opcode: pipe for pipe, opcodes in _BY_PIPE.items() for opcode in opcodes.split()}
_PIPE_OF_CLASS = {"mma": TENSOR, **dict.fromkeys((*MEMORY, "shuffle"), SHARED)}
_NO_PIPE = ("wait", "barrier", "branch")


def sass_class(i: Instruction) -> str:
    """One of `classes.CLASSES`."""
    if i.never:
        return OTHER
    if i.base == "HFMA2" and ", -RZ, RZ, " in i.operands:
        return "integer"  # it loads a constant into a register
    return CLASS.get(i.base, OTHER)


def sass_pipe(i: Instruction) -> str | None:
    """The pipe that executes it; None for what occupies none but an issue slot."""
    name = CLASS.get(i.base, OTHER)
    if i.never or name in _NO_PIPE or i.base == "NOP":
        return None
    if known := _PIPE_OF_CLASS.get(name) or _PIPE.get(i.base):
        return known
    return UNIFORM if i.base.startswith("U") else ALU
