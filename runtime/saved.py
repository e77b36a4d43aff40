"""Kernels in files: built ahead of time, loaded without a compiler.

A file is a zip of `kernel.json` (with the explicit schedules), `module.sched` (the op, its devices) and one library a variant.
Loading makes the text anew, which takes no compiler, and takes a library only if it was built from that very text: SAME_TEXT.
So a file made by another version, or for another machine, is refused instead of being run.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..codegen import abi
from ..dsl.errors import UserError
from ..dsl.errors.module import NoSuchFile
from ..dsl.errors.run import CannotSave, SavedElsewhere
from ..dsl.module import Module, loads
from ..dsl.text.format_node import format_node
from . import features
from .build import adopt, version
from .files import write_bytes

if TYPE_CHECKING:
    from .kernel import Kernel

_FORM = 1


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
        "texts": [_hash(v.source) for v in variants],
    }
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("kernel.json", json.dumps(about, indent=2))
        file.writestr("module.sched", whole)
        for i, v in enumerate(variants):
            library: Any = v.load()
            file.writestr(f"variant{i}", Path(library.path).read_bytes())
    write_bytes(os.fspath(path), data.getvalue())


def load_kernel(path: str | os.PathLike[str], threads: int | None = None) -> Kernel:
    """The kernel of a file made by `Kernel.save`. Its code is native and is run as it is: load only files that you trust.

    Raises NoSuchFile, SavedElsewhere.
    """
    try:
        file = zipfile.ZipFile(path)
        about = json.loads(file.read("kernel.json"))
        whole = file.read("module.sched").decode("utf-8")
        libraries = [file.read(f"variant{i}") for i in range(len(about["texts"]))]
    except OSError as error:
        raise NoSuchFile(f"{os.fspath(path)}: {error.strerror or error}") from None
    except (zipfile.BadZipFile, KeyError, ValueError, EOFError) as error:
        raise SavedElsewhere(f"{os.fspath(path)} is no saved kernel, or a damaged one: {error}") from None
    if about["form"] != _FORM or about["version"] != version():
        raise SavedElsewhere(
            f"{os.fspath(path)} was saved by Andiron {about['version']}; this is {version()}", help="save it again"
        )
    try:
        kernel = _compiled(whole, about["op"], about["schedules"], about["target"], about["given"], threads)
    except UserError as error:
        raise SavedElsewhere(f"{os.fspath(path)} holds a text that this Andiron refuses: {error.message}") from None
    if about["machine"] != _machine(kernel.variants[0].target.device):
        raise SavedElsewhere(f"{os.fspath(path)} was saved on another kind of machine: {about['machine']}", help="save it here")
    for v, text, data in zip(kernel.variants, about["texts"], libraries, strict=True):
        if _hash(v.source) != text:
            raise SavedElsewhere(
                f"{os.fspath(path)} was built from another text than this Andiron makes of it", help="save it again"
            )
        v.library = adopt(data, abi.symbol(v.program), os.fspath(path))
    return kernel


def _compiled(
    whole: str, op: str, schedules: list[str], target: str, given: Mapping[str, int], threads: int | None = None
) -> Kernel:
    from .compile import compile
    from .kernel import Kernel

    module = loads(whole, "<saved>")
    kernels = [compile(module, op, s, target, threads, tune=0, **given) for s in schedules]
    first = kernels[0]
    made = Kernel(first.op, [k.variants[0] for k in kernels], first.sizes, first.threads)
    made.request = first.request
    return made


def _text(kernel: Kernel, module: Module) -> str:
    """The op and the devices of its module."""
    decls = [d for (kind, name), d in module.declared.items() if kind == "device" or (kind == "op" and name == kernel.op.name)]
    return "\n".join(format_node(d) for d in decls)


def _machine(device: str | None) -> str:
    return features.identity() if device is None else features.architecture()


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
