"""`load_kernel`: reads a kernel from a file, without a compiler."""

from __future__ import annotations

import os

from ...codegen import abi
from ...dsl.errors import UserError
from ...dsl.errors.run import SavedElsewhere
from ...dsl.support.expected import expect
from ..compile import compile_text
from ..kernel import Kernel
from ..native.build_library import load_library_bytes, version
from ..native.threads import checked_threads
from .kernel_file import FORM, hash_of, machine_of, read_kernel_file


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
    content = read_kernel_file(name)
    if content.form != FORM or content.version != version():
        raise SavedElsewhere(f"{name} was saved by Andiron {content.version}; this is {version()}", help="save it again")
    try:
        kernel = compile_text(content.module, content.op, content.schedules, content.target, content.given, threads)
    except (UserError, TypeError) as error:  # TypeError: names in `given` that no size can have
        raise SavedElsewhere(f"{name} holds a text that this Andiron refuses: {error}", help="save the kernel again") from None
    if content.machine != machine_of(kernel.variants[0].target.device):
        raise SavedElsewhere(f"{name} was saved on another kind of machine: {content.machine}", help="save it here")
    for v, text, data in zip(kernel.variants, content.texts, content.libraries, strict=True):
        if hash_of(v.source.encode()) != text:
            raise SavedElsewhere(f"{name} was built from another text than this Andiron makes of it", help="save it again")
        v.library = load_library_bytes(data, abi.symbol(v.program), name)
    return kernel
