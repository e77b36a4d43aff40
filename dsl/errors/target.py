"""Mistakes on the way from a schedule to a loaded kernel: targets, names to compile, compilers."""

from __future__ import annotations

from .base import UserError


class UnknownTarget(UserError):
    """A target of that name is not known.

    `andiron targets` lists them: a family (`cpu`) and, after a colon, one of its devices.
    """

    id = "unknown-target"


class TargetNotYet(UserError):
    """The target is planned, but this version cannot compile for it."""

    id = "target-not-yet"


class NotInModule(UserError):
    """The file has no op or schedule of the name asked for."""

    id = "not-in-module"


class AmbiguousChoice(UserError):
    """Several ops could be meant and nothing says which; name one."""

    id = "ambiguous-choice"


class WrongSchedule(UserError):
    """The schedule chosen is for another op or for another device than the one asked for."""

    id = "wrong-schedule"


class NoCompiler(UserError):
    """No working C++ compiler on this machine.

    Install one with the system's package manager, or the one from the package index: `pip install 'andiron[compiler]'`.
    """

    id = "no-compiler"


class CompilerFailed(UserError):
    """The C++ compiler did not accept the emitted text, or did not end well.

    If it complains about the text, that is Andiron's fault: please report it with the text (`andiron emit`). If it says that it
    was killed or that a disk is full, that is the machine's.
    """

    id = "compiler-failed"


class BadFile(UserError):
    """A file that cannot be read or written: missing, a folder, without permission, or not UTF-8."""

    id = "bad-file"
