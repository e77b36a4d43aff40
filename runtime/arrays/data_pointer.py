"""The address of an array's data, cheaply: `x.ctypes.data` creates objects, which costs more than a small kernel.

In NumPy's C structure, which is part of its stable interface, the pointer follows the object header. A test at the first use
checks that this holds for the running interpreter.
"""

from __future__ import annotations

import ctypes
import sys

import numpy as np

_HEAD = object.__basicsize__
_pointer = ctypes.c_void_p.from_address


def _read(x: np.ndarray) -> int:
    return _pointer(id(x) + _HEAD).value or 0


def _asked(x: np.ndarray) -> int:
    return x.ctypes.data


def _holds() -> bool:
    if sys.implementation.name != "cpython":
        return False
    samples = (np.zeros(3), np.zeros((2, 5), np.int8)[1:], np.zeros(()), np.zeros((0, 4)))
    return all(_read(x) == x.ctypes.data for x in samples)


address_of = _read if _holds() else _asked
