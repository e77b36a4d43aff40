"""Kernels in files: built ahead of time, loaded without a compiler.

A file is a line that says what it is, a line with the SHA-256 of all that follows, and a zip of `kernel.json` (with the
explicit schedules), `module.sched` (the op, its devices) and one library a variant.

WHOLE      Nothing of a file is read before its checksum was compared: what was cut or changed on its way is refused.
SAME_TEXT  Loading makes the text anew, which takes no compiler, and takes a library only if it was built from that very text.
           So a file made by another version, or for another machine, is refused instead of being run.
NO_PROOF   Neither says who made the file. Whoever did can have put any code into it, and its checksum beside it.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...codegen import abi
from ...dsl.errors import UserError
from ...dsl.errors.module import NoSuchFile
from ...dsl.errors.run import CannotSave, DamagedFile, SavedElsewhere
from ...dsl.module import Module, loads
from ...dsl.support.expected import expect
from ...dsl.text.print_node import format_node
from ..native import cpu_features
from ..native.build_library import load_library_bytes, version
from ..native.threads import checked_threads
from .files import write_bytes

if TYPE_CHECKING:
    from ..kernel import Kernel

_FORM = 2
_HEAD = b"andiron kernel\n"
_SUM = 64  # characters of the checksum


@dataclass(frozen=True)
class _Saved:
    """What is in a file. `texts`: the hash of each variant's text."""

    whole: str
    libraries: tuple[bytes, ...]
    form: int
    version: str
    op: str
    target: str
    machine: str
    given: dict[str, int]
    schedules: list[str]
    texts: list[str]


def save(kernel: Kernel, path: str | os.PathLike[str]) -> None:
    """Builds every variant and writes the file in one step. Raises CannotSave, CannotWrite, and what building raises."""
    target = kernel.variants[0].target
    if target.family.dialect != "cpp" or kernel.request is None:
        raise CannotSave(
            f"a kernel for {kernel.target} cannot be saved; kernels for CPUs can", help="`andiron build` writes code for GPUs"
        )
    module, given = kernel.request.module, dict(kernel.request.given)
    own = {v.name for v in kernel.op.dims} | {name for name, _ in module.ops[kernel.op.name].params}
    given = {name: n for name, n in given.items() if name in own}  # values of tunables are in the explicit schedules
    whole = _text(kernel, module)
    # The text of the file is what will be compiled at loading, so its text is what is built.
    variants = _compiled(whole, kernel.op.name, [v.schedule for v in kernel.variants], target.name, given).variants
    data = io.BytesIO()
    about = {
        "form": _FORM,
        "version": version(),
        "op": kernel.op.name,
        "target": target.name,
        "machine": _machine(target.device),
        "given": dict(given),
        "schedules": [v.schedule for v in kernel.variants],
        "texts": [_hash(v.source.encode()) for v in variants],
    }
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("kernel.json", json.dumps(about, indent=2))
        file.writestr("module.sched", whole)
        for i, v in enumerate(variants):
            library: Any = v.load()
            file.writestr(f"variant{i}", Path(library.path).read_bytes())
    write_bytes(os.fspath(path), _HEAD + _hash(data.getvalue()).encode() + b"\n" + data.getvalue())


def load_kernel(path: str | os.PathLike[str], threads: int | None = None) -> Kernel:
    """Loads a kernel from a file that `Kernel.save` wrote. The code in it is native and is run as it is: load only files that
    you trust.

    path     the path of the file
    threads  how many threads may take part in a call; None is all cores

    Returns a `Kernel`. It needs no C++ compiler.

    Raises NoSuchFile if the file cannot be read. Raises DamagedFile if it is no saved kernel, or was changed. Raises
    SavedElsewhere if another version made it, or it is for another machine. Raises ArgumentKind if an argument has the wrong
    type.
    """
    expect("path", path, (str, bytes, os.PathLike), "the path of a saved kernel")
    if threads is not None:
        checked_threads(threads)
    name = os.fsdecode(path)
    found = _read(name)
    if found.form != _FORM or found.version != version():
        raise SavedElsewhere(f"{name} was saved by Andiron {found.version}; this is {version()}", help="save it again")
    try:
        kernel = _compiled(found.whole, found.op, found.schedules, found.target, found.given, threads)
    except (UserError, TypeError) as error:  # TypeError: names in `given` that no size can have
        raise SavedElsewhere(f"{name} holds a text that this Andiron refuses: {error}", help="save the kernel again") from None
    if found.machine != _machine(kernel.variants[0].target.device):
        raise SavedElsewhere(f"{name} was saved on another kind of machine: {found.machine}", help="save it here")
    for v, text, data in zip(kernel.variants, found.texts, found.libraries, strict=True):
        if _hash(v.source.encode()) != text:
            raise SavedElsewhere(f"{name} was built from another text than this Andiron makes of it", help="save it again")
        v.library = load_library_bytes(data, abi.symbol(v.program), name)
    return kernel


def _read(name: str) -> _Saved:
    """What the file holds. Raises NoSuchFile, DamagedFile."""
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
    if data[len(_HEAD) : -len(rest) or None] != _hash(rest).encode() + b"\n":
        raise DamagedFile(
            f"{name} is damaged: its checksum does not match its content", help="copy it again, or save the kernel again"
        )
    try:
        with zipfile.ZipFile(io.BytesIO(rest)) as file:
            about = json.loads(file.read("kernel.json"))
            libraries = tuple(file.read(f"variant{i}") for i in range(len(about["texts"])))
            found = _Saved(file.read("module.sched").decode("utf-8"), libraries, **about)
        for field in fields(found):
            if not _fits(getattr(found, field.name), field.type):
                raise TypeError(f"`{field.name}` is no {field.type}")
        if len(found.schedules) != len(found.texts) or not found.texts:
            raise ValueError(f"{len(found.schedules)} schedules for {len(found.texts)} libraries")
        return found
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


def _compiled(
    whole: str, op: str, schedules: list[str], target: str, given: Mapping[str, int], threads: int | None = None
) -> Kernel:
    from ..compile import compile
    from ..kernel import Kernel

    module = loads(whole, "<saved>")
    kernels = [compile(module, op, s, target, threads, tune=0, sizes=given) for s in schedules]
    first = kernels[0]
    return Kernel(first.op, [k.variants[0] for k in kernels], first.sizes, first.threads, request=first.request)


def _text(kernel: Kernel, module: Module) -> str:
    """The op and the devices of its module."""
    decls = [d for (kind, name), d in module.declared.items() if kind == "device" or (kind == "op" and name == kernel.op.name)]
    return "\n".join(format_node(d) for d in decls)


def _machine(device: str | None) -> str:
    return cpu_features.identity() if device is None else cpu_features.architecture()


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
