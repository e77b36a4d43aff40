"""The format of kernel files: kernels that are built ahead of time and loaded without a compiler.

A file is a line with its kind, a line with the SHA-256 of the remaining bytes, and a zip of `kernel.json` (with the explicit
schedules), `module.sched` (the op, its devices) and one library a variant.

WHOLE      The checksum is compared before anything else is read: a truncated or changed file is refused.
SAME_TEXT  Loading generates the text again, which needs no compiler, and accepts a library only if it was built from that very
           text. So a file of another version, or for another machine, is refused instead of being executed.
NO_PROOF   Neither tells who wrote the file. Its author can have put any code into it, with a matching checksum.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from dataclasses import dataclass, fields
from typing import Any

from ...dsl.errors.module import NoSuchFile
from ...dsl.errors.run import DamagedFile, SavedElsewhere
from ..native import cpu_features
from ..native.build_library import version
from .files import write_bytes

FORM = 2
_HEAD = b"andiron kernel\n"
_SUM = 64  # characters of the checksum


@dataclass(frozen=True)
class KernelFile:
    """The content of a file.

    module     text of the op and its devices        libraries  one for each variant
    form       the version of this format            version    of Andiron, which wrote the file
    machine    the kind of machine it is for         given      sizes and parameters by name
    schedules  explicit, one for each variant        texts      the hash of the text of each variant
    """

    module: str
    libraries: tuple[bytes, ...]
    form: int
    version: str
    op: str
    target: str
    machine: str
    given: dict[str, int]
    schedules: list[str]
    texts: list[str]


def write_kernel_file(path: str, content: KernelFile) -> None:
    """Writes the file in one step. Raises CannotWrite."""
    data = io.BytesIO()
    about = {f.name: getattr(content, f.name) for f in fields(content) if f.name not in ("module", "libraries")}
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("kernel.json", json.dumps(about, indent=2))
        file.writestr("module.sched", content.module)
        for i, library in enumerate(content.libraries):
            file.writestr(f"variant{i}", library)
    write_bytes(path, _HEAD + hash_of(data.getvalue()).encode() + b"\n" + data.getvalue())


def read_kernel_file(name: str) -> KernelFile:
    """The content of a file. Raises NoSuchFile, DamagedFile."""
    try:
        with open(name, "rb") as file:
            head = file.read(len(_HEAD))
            data = head + (file.read() if head == _HEAD else b"")  # what is no saved kernel may have no end
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        raise NoSuchFile(f"{name}: {getattr(error, 'strerror', None) or error}") from None
    rest = data[len(_HEAD) + _SUM + 1 :]
    if data.startswith(b"PK"):
        raise SavedElsewhere(f"{name} was saved by an earlier Andiron; this is {version()}", help="save it again")
    if not data.startswith(_HEAD):
        raise DamagedFile(f"{name} is no saved kernel", help="`Kernel.save` writes such files")
    if data[len(_HEAD) : -len(rest) or None] != hash_of(rest).encode() + b"\n":
        raise DamagedFile(
            f"{name} is damaged: its checksum does not match its content", help="copy it again, or save the kernel again"
        )
    try:
        with zipfile.ZipFile(io.BytesIO(rest)) as file:
            about = json.loads(file.read("kernel.json"))
            libraries = tuple(file.read(f"variant{i}") for i in range(len(about["texts"])))
            content = KernelFile(file.read("module.sched").decode("utf-8"), libraries, **about)
        for field in fields(content):
            if not _fits(getattr(content, field.name), field.type):
                raise TypeError(f"`{field.name}` is no {field.type}")
        if len(content.schedules) != len(content.texts) or not content.texts:
            raise ValueError(f"{len(content.schedules)} schedules for {len(content.texts)} libraries")
        return content
    except Exception as error:  # its checksum is right, so somebody made it so: whatever reading it raises, it is no kernel
        raise DamagedFile(f"{name} does not hold a kernel: {error}", help="save the kernel again") from None


def _fits(value: object, kind: Any) -> bool:
    """Whether a value is of a type, as annotations write it."""
    match kind:
        case "list[str]":
            return isinstance(value, list) and all(isinstance(x, str) for x in value)
        case "dict[str, int]":
            return isinstance(value, dict) and all(type(x) is int for x in value.values())
        case "str" | "int":
            return type(value).__name__ == kind
    return True


def machine_of(device: str | None) -> str:
    """The kind of machine that code for a device runs on. None is the device of this machine."""
    return cpu_features.identity() if device is None else cpu_features.architecture()


def hash_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
