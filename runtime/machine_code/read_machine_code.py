"""The machine code of a variant, by the reader for its target."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from ...dsl.errors.target import NoDisassembler
from ..gpu.clang import Clang
from ..gpu.device_code import DeviceCode
from ..gpu.toolchains import find_toolchain
from ..variant import Variant
from .amdgcn import parse_amdgcn
from .instruction import Instruction
from .nvdisasm import disassemble
from .parse_sass import parse_sass


def read_machine_code(variant: Variant) -> dict[str, tuple[Instruction, ...]]:
    """The instructions of each function. The variant is built.

    Raises NoDisassembler, NoCompiler, CompilerFailed.
    """
    read = {"cuda": _sass, "hip": _amdgcn}.get(variant.target.family.toolchain)
    if read is None:
        raise NoDisassembler(
            f"machine code for {variant.target.name} is not read", help="`--sass` is for GPUs: --target cuda:sm_80"
        )
    return read(variant)


def _sass(variant: Variant) -> dict[str, tuple[Instruction, ...]]:
    code = variant.load()
    assert isinstance(code, DeviceCode)
    return parse_sass(disassemble(code.data))


def _amdgcn(variant: Variant) -> dict[str, tuple[Instruction, ...]]:
    """By a second run of the compiler, which prints what it otherwise assembles."""
    compiler = find_toolchain(variant.target)
    assert isinstance(compiler, Clang)
    with TemporaryDirectory(prefix="andiron-") as folder:
        return parse_amdgcn(compiler.assembly(variant.source, variant.target.arch, Path(folder)))
