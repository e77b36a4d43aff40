"""Arrays beside memory that may not be read: a kernel that reads outside an input, or writes to one, faults."""

from __future__ import annotations

import ctypes
import mmap
import multiprocessing
import sys
from collections.abc import Callable

import numpy as np

PAGE = mmap.PAGESIZE
NOTHING, READING = 0, 1  # what mprotect allows
HERE = sys.platform != "win32"


def before_guard_page(array: np.ndarray, at_end: bool = True) -> np.ndarray:
    """The same elements, which end where forbidden memory begins, or begin where it ends; they may only be read."""
    if not array.nbytes or not HERE:
        return array
    size = -(-array.nbytes // PAGE) * PAGE
    space = mmap.mmap(-1, size + 2 * PAGE)  # unmapped with the last array in it
    start = ctypes.addressof(ctypes.c_char.from_buffer(space))
    first = PAGE + (size - array.nbytes if at_end else 0)
    out = np.frombuffer(space, np.uint8, array.nbytes, first).view(array.dtype).reshape(array.shape)
    out[...] = array
    for page, length, allowed in ((start, PAGE, NOTHING), (start + PAGE, size, READING), (start + PAGE + size, PAGE, NOTHING)):
        if ctypes.CDLL(None).mprotect(ctypes.c_void_p(page), ctypes.c_size_t(length), allowed) != 0:
            raise OSError("mprotect")
    return out


def exit_code(function: Callable[[], object]) -> int | None:
    """Of a process of its own that calls a function: 0 if all went well, below 0 if it faulted."""
    child = multiprocessing.get_context("fork").Process(target=function)
    child.start()
    child.join(120)
    child.kill()
    child.join()
    return child.exitcode
