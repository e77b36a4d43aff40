"""Mistakes on the way from a schedule to a loaded kernel: targets, names to compile, compilers."""

from __future__ import annotations

from .base import UserError


class UnknownTarget(UserError):
    """A target of that name is not known.

    `andiron targets` lists them: a family (`cpu`) and, after a colon, one of its devices.
    """

    id = "unknown-target"


class NotInModule(UserError):
    """The file has no op or schedule of the name asked for.

    The message lists what there is. Names of imported files count too.
    """

    id = "not-in-module"


class AmbiguousChoice(UserError):
    """Several ops could be meant and nothing says which; name one.

    `--op NAME` on the command line, `compile(..., op="name")` in Python.
    """

    id = "ambiguous-choice"


class WrongSchedule(UserError):
    """The schedule chosen is for another op or for another device than the one asked for.

    Choose another schedule, or another target; a schedule without `on DEVICE` is for all of them.
    """

    id = "wrong-schedule"


class NoCompiler(UserError):
    """No working compiler for the target on this machine.

    Install one with the system's package manager, or one from the package index: `pip install 'andiron[compiler]'` for C++ and
    for AMD GPUs, `pip install 'andiron[cuda-tools]'` for NVIDIA GPUs.
    """

    id = "no-compiler"


class NoDevice(UserError):
    """The kernel is for a GPU, and none can be used here.

    The text, its explanation and the built code need no GPU; a call does. `target="emulate:sm_80"` runs the same text on a
    CPU.
    """

    id = "no-device"


class CompilerFailed(UserError):
    """The compiler did not end well.

    It was killed, the disk is full, or it is broken. (When it does not accept the emitted text, that is a fault of Andiron's,
    and shown as such.)
    """

    id = "compiler-failed"


class WrongFormat(UserError):
    """A format that code for this target cannot have.

    `cubin` and `ptx` are NVIDIA's, `hsaco` is AMD's, `archive` is for CPUs; `lib` is for all that have the compiler it takes.
    """

    id = "wrong-format"


class CannotWrite(UserError):
    """A file that cannot be written: its folder is missing, the disk is full, or there is no permission.

    Write elsewhere, or make room.
    """

    id = "cannot-write"


class BadAssignment(UserError):
    """A word after `--size` or `--param` that is not NAME=NUMBER.

    Write `--size M=512`, or several in one word: `--size M=512,N=64`.
    """

    id = "bad-assignment"
