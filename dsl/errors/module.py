"""Errors between files: imports, and names that clash."""

from __future__ import annotations

from .base import UserError


class NoSuchFile(UserError):
    """A file that is not there, or cannot be read.

    Imports are relative to the importing file; paths given to `load` are relative to where the program runs.
    """

    id = "no-such-file"


class NoSuchStdModule(UserError):
    """An import from the standard library of something that it does not have.

    Its modules are `std.ops.gemm`, `std.devices.cpu` and the like.
    """

    id = "no-such-std-module"


class ImportOutside(UserError):
    """An import that leaves the folder of the importing file: by `..`, an absolute path, or a link.

    A text can read only its own folder and those below. Move the file there, or load from the folder above both.
    """

    id = "import-outside"


class ImportNotSched(UserError):
    """An import of a file whose name does not end in `.sched`.

    Only `.sched` files are imported; correct the name.
    """

    id = "import-not-sched"


class ImportWithoutBase(UserError):
    """A relative import in a text that came from no file.

    `loads(text, base="folder")` says where its imports are.
    """

    id = "import-without-base"


class ImportCycle(UserError):
    """Files that import each other in a circle. Move what both need to a third file."""

    id = "import-cycle"


class ImportTooDeep(UserError):
    """A chain of imports longer than anyone can follow.

    Import what is needed directly, or put the files together.
    """

    id = "import-too-deep"


class DuplicateDeclaration(UserError):
    """Two ops, two devices, two schedules or two strategies of one name, here or in an imported file. Rename one."""

    id = "duplicate-declaration"


class UnknownDevice(UserError):
    """A device that neither the text, nor its imports, nor the standard library describes.

    Correct the name, declare the device, or import the file that does.
    """

    id = "unknown-device"
