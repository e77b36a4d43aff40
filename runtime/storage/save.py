"""`Kernel.save`: writes a built kernel to a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...dsl.errors.run import CannotSave
from ...dsl.module import Module
from ...dsl.support.expected import expect
from ...dsl.text.print_node import format_node
from ..native.build_library import version
from .kernel_file import FORM, KernelFile, hash_of, machine_of, write_kernel_file

if TYPE_CHECKING:
    from ..kernel import Kernel


def save(kernel: Kernel, path: str | os.PathLike[str]) -> None:
    """Builds every variant and writes the file in one step. Raises CannotSave, CannotWrite, and what building raises."""
    expect("path", path, (str, bytes, os.PathLike), "the path of a file")
    target = kernel.variants[0].target
    if target.family.dialect != "cpp" or kernel.request is None:
        raise CannotSave(
            f"a kernel for {kernel.target} cannot be saved; kernels for CPUs can", help="`andiron build` writes code for GPUs"
        )
    module, given = kernel.request.module, dict(kernel.request.given)
    own = {v.name for v in kernel.op.dims} | {name for name, _ in module.ops[kernel.op.name].params}
    given = {name: n for name, n in given.items() if name in own}  # values of tunables are in the explicit schedules
    text = _text(kernel, module)
    # The text of the file is what will be compiled at loading, so its text is what is built.
    schedules = [v.schedule for v in kernel.variants]
    variants = kernel.request.compile_text(text, schedules, given).variants
    libraries: list[Any] = [v.load() for v in variants]
    content = KernelFile(
        module=text,
        libraries=tuple(Path(library.path).read_bytes() for library in libraries),
        form=FORM,
        version=version(),
        op=kernel.op.name,
        target=target.name,
        machine=machine_of(target.device),
        given=given,
        schedules=schedules,
        texts=[hash_of(v.source.encode()) for v in variants],
    )
    write_kernel_file(os.fsdecode(path), content)


def _text(kernel: Kernel, module: Module) -> str:
    """The op and the devices of its module."""
    decls = [d for (kind, name), d in module.declared.items() if kind == "device" or (kind == "op" and name == kernel.op.name)]
    return "\n".join(format_node(d) for d in decls)
