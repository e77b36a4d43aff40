"""Reading and writing of files that commands name."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from ...dsl.errors.module import NoSuchFile
from ...dsl.errors.target import CannotWrite


def read_text(path: str, kind: str = "a `.sched` file") -> str:
    """The text of a file, `-` for the input stream; `kind` is what it should be, in words.

    Raises NoSuchFile, NotText, NotUtf8, TextTooLarge.
    """
    from ...dsl.module import no_file, similar_file
    from ...dsl.text.parser import decode, read_bytes

    try:
        if path == "-":
            data = read_bytes(sys.stdin.buffer, "the input stream", kind)
        else:
            with open(path, "rb") as file:
                data = read_bytes(file, path, kind)
    except IsADirectoryError:
        raise no_file(Path(path)) from None
    except (OSError, ValueError) as error:
        reason = _reason(error)
        raise NoSuchFile(f"{path}: {reason[0].lower()}{reason[1:]}", help=similar_file(Path(path))) from None
    return decode(data, path, kind).text


def write_text(path: str | Path, text: str) -> None:
    """Replaces a file in one step, keeping its permissions; a link stays a link. A pipe or a device is written to.

    Raises CannotWrite.
    """
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: str | Path, data: bytes) -> None:
    """As `write_text`."""
    with replacing(path) as file:
        file.write(data)


def expect_place(path: str | Path) -> None:
    """Raises CannotWrite where `write_text` would for want of a place: for what takes long before it writes."""
    target = Path(os.path.realpath(path))
    try:
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if target.exists() and not target.is_file():
            return
        handle, temporary = _beside(target)
        os.close(handle)
        os.unlink(temporary)
    except (OSError, ValueError) as error:
        raise CannotWrite(f"cannot write {path}: {_reason(error)}") from None


@contextmanager
def replacing(path: str | Path) -> Iterator[BinaryIO]:
    """A file to write in a block, which takes the place of the one of this path at the block's end, as `write_text` does."""
    temporary: str | None = None
    try:
        target = Path(os.path.realpath(path))
        if target.exists() and not target.is_file() and not target.is_dir():
            with target.open("wb") as file:
                yield file
            return
        handle, temporary = _beside(target)
        with os.fdopen(handle, "wb") as file:
            yield file
        if target.exists():
            os.chmod(temporary, target.stat().st_mode & 0o7777)
        os.replace(temporary, target)
        temporary = None
    except (OSError, ValueError) as error:
        raise CannotWrite(f"cannot write {path}: {_reason(error)}") from None
    finally:
        if temporary:
            with suppress(OSError):
                os.unlink(temporary)


def _beside(target: Path) -> tuple[int, str]:
    """A new file in the same folder, with the permissions that any new file gets: `tempfile` gives them to the owner alone, and
    to ask for the process' mask is to change it, for all threads."""
    for _ in range(100):
        name = str(target.parent / f".{target.name}.{os.urandom(6).hex()}")
        with suppress(FileExistsError):
            return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666), name
    raise FileExistsError("no free name for a temporary file")


def _reason(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
