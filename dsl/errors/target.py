"""Mistakes on the way from a schedule to a loaded kernel: targets, names to compile, compilers."""

from __future__ import annotations

from .base import UserError


class UnknownTarget(UserError):
    """A target of that name is not known.

    `andiron targets` lists them: a family (`cpu`) and, after a colon, one of its devices.
    """

    id = "unknown-target"


class NotInModule(UserError):
    """The file has no op or schedule of the given name.

    The message lists the names, also those of imported files.
    """

    id = "not-in-module"


class AmbiguousChoice(UserError):
    """The file has several ops, and the request names none.

    `--op NAME` on the command line, `compile(..., op="name")` in Python.
    """

    id = "ambiguous-choice"


class WrongSchedule(UserError):
    """The chosen schedule is for another op or another device than the request.

    Choose another schedule, or another target. A schedule without `on DEVICE` is for all devices.
    """

    id = "wrong-schedule"


class NoCompiler(UserError):
    """No working compiler for the target on this machine.

    Install one with the system's package manager, or one from the package index: `pip install 'andiron[compiler]'` for C++ and
    for AMD GPUs, `pip install 'andiron[cuda-tools]'` for NVIDIA GPUs.
    """

    id = "no-compiler"


class NoDisassembler(UserError):
    """Machine code that cannot be read: there is no disassembler for the target, or none is installed.

    `explain --sass` is for targets `cuda:DEVICE` and `hip:DEVICE`. For NVIDIA it needs nvdisasm: `pip install
    'andiron[cuda-tools]'`, or a CUDA toolkit. `ANDIRON_NVDISASM` names another one.
    """

    id = "no-disassembler"


class NoDevice(UserError):
    """The kernel is for a GPU, and none can be used here.

    Only a call needs a GPU. The source code, `explain` and `build` do not. `target="emulate:sm_80"` runs the same source code
    on a CPU.
    """

    id = "no-device"


class CompilerFailed(UserError):
    """The compiler failed.

    It was killed, the disk is full, or it is broken. (If it rejects the emitted source code, the fault is Andiron's, and is
    shown as such.)
    """

    id = "compiler-failed"


class WrongFormat(UserError):
    """A format that code for this target cannot have.

    `cubin` and `ptx` are NVIDIA's, `hsaco` is AMD's, `archive` is for CPUs. `lib` works for all targets with an installed
    compiler.
    """

    id = "wrong-format"


class NoEmittedText(UserError):
    """An instruction of the device has no text in the language of the target.

    Add `emit cpp:`, `emit cuda:` or `emit hip:` to the instruction, or leave it out of the schedule. The interpreter needs no
    text.
    """

    id = "no-emitted-text"


class CannotWrite(UserError):
    """A file that cannot be written: its folder is missing, the disk is full, or there is no permission.

    Write elsewhere, or make room.
    """

    id = "cannot-write"


class BadAssignment(UserError):
    """A word after `--size` or `--param` that is not NAME=NUMBER, or a name that is given twice.

    Write `--size M=512`, or several in one word: `--size M=512,N=64`.
    """

    id = "bad-assignment"
