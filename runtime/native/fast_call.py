"""Calls of a kernel whose arguments have the properties of an earlier call, without steps in Python (`fast_call.cpp`).

The first call checks shapes, types and conditions of sizes. `FastCaller.add_entry` records the properties that later calls must
have. Those compare them in C++; they also check that memory is contiguous, aligned, disjoint and writable. The code is built
once a machine, by the compiler that builds kernels. Without a compiler, or if objects have another layout in memory than it
expects, `fast_caller` gives None, and `Kernel` makes the call in Python.

SNAPSHOT  A `FastCaller` never changes: one with another entry is a new one, with its own function. The caller of `run` owns
          it, and so everything that the call reads (OWNED in the C++ text), even if other threads replace it meanwhile.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from ...dsl.errors import AndironError
from ...dsl.op import Op
from ...dsl.support.forks import ForkLock
from ..arrays.alias import may_alias
from ..arrays.convert import empty
from ..storage.cache import cache, key_of
from .build_library import version
from .cxx_compiler import SUFFIX, find_compiler

_ARRAYS, _WORDS, _DIMS, _SLOTS = 12, 64, 24, 64  # as in the C++ text
_FLAGS = ("-O2", "-shared", "-fPIC")
_SMALL = 1 << 20  # bytes: from here on `arrays.empty` does more than `numpy.empty`
_HEAD, _WORD = object.__basicsize__, ctypes.sizeof(ctypes.c_void_p)
_int64, _pointer = ctypes.c_int64, ctypes.c_void_p


class _Entry(ctypes.Structure):
    _fields_ = (
        ("call", _pointer),
        ("inputs", _int64),
        ("outputs", _int64),
        ("dims", _int64),
        ("nd", _int64 * _ARRAYS),
        ("bytes", _int64 * _ARRAYS),
        ("place", _int64 * _ARRAYS),
        ("over", _int64 * _ARRAYS),
        ("dtype", _pointer * _ARRAYS),
        ("make", _pointer * _ARRAYS),
        ("given", _pointer * _ARRAYS),
        ("shape", _int64 * _WORDS),
        ("size", _int64 * _DIMS),
    )


class _World(ctypes.Structure):
    _fields_ = (
        ("head", _int64),
        ("types", _pointer * 4),
        ("functions", _pointer * 11),
    )


class FastCaller:
    """Of one kernel. `run(inputs, out, threads)` gives the results, or None where the call is not like one that is kept."""

    def __init__(self, method: int, kept: tuple[tuple[Any, ...] | None, ...] = (None,) * _SLOTS) -> None:
        self._method, self._kept = method, kept
        make = ctypes.pythonapi.PyCFunction_NewEx
        make.restype, make.argtypes = ctypes.py_object, (_pointer, ctypes.py_object, _pointer)
        self.run: Callable[[tuple[Any, ...], Any, int], Any] = make(method, kept, None)

    def add_entry(
        self,
        op: Op,
        function: Any,
        dims: Sequence[int],
        arrays: Sequence[tuple[tuple[int, ...], np.dtype]],
        order: Sequence[int],
    ) -> FastCaller:
        """One for calls of a function of ctypes with such arrays too. What is too large for an entry is not kept.

        arrays  shape and type of the inputs, then of the outputs      order  which array is each argument of the function
        """
        inputs = len(op.inputs)
        words = [n for shape, _ in arrays for n in shape]
        if len(arrays) > _ARRAYS or len(words) > _WORDS or len(dims) > _DIMS:
            return self
        entry = _Entry()
        entry.call = ctypes.cast(function, _pointer).value
        entry.inputs, entry.outputs, entry.dims = inputs, len(arrays) - inputs, len(dims)
        named: list[Any] = [function]  # what the entry has only the address of
        for i, (shape, dtype) in enumerate(arrays):
            count = int(np.prod(shape, dtype=object))
            entry.nd[i], entry.bytes[i], entry.dtype[i] = len(shape), count * dtype.itemsize, id(dtype)
            make = np.empty if entry.bytes[i] < _SMALL else empty
            given = (shape, dtype)
            entry.make[i], entry.given[i] = id(make), id(given)
            named += [dtype, make, given]
        for argument, i in enumerate(order):
            entry.place[i] = argument
        for i, output in enumerate(op.outputs, inputs):
            same = (k for k, t in enumerate(op.inputs) if arrays[k][0] == arrays[i][0] and may_alias(op, output.name, t.name))
            entry.over[i] = sum(1 << k for k in same)
        entry.shape[: len(words)] = words
        entry.size[: len(dims)] = dims
        at = _slot([n for shape, _ in arrays[:inputs] for n in shape])
        return FastCaller(self._method, (*self._kept[:at], (bytes(entry), *named), *self._kept[at + 1 :]))


def fast_caller() -> FastCaller | None:
    """One that knows no call yet, or None where this interpreter or machine has none."""
    global _found
    if _found is None:
        with _lock.held():
            if _found is None:
                _found = (_method(),)
    (method,) = _found
    return None if method is None else FastCaller(method)


# The address of the function's definition, published once: every function that is made points to it.
_found: tuple[int | None] | None = None
_lock = ForkLock()


def _slot(shape: Sequence[int]) -> int:
    """As in the C++ text."""
    value = 0
    for n in shape:
        value = (value ^ n) * 0x9E3779B97F4A7C15 & (1 << 64) - 1
    return value >> 58


def _method() -> int | None:
    if not _looks_alike():
        return None
    with suppress(AndironError, OSError, AttributeError):  # no compiler, or an interpreter without one of the functions
        method = _build().andiron_caller_method
        method.restype = _pointer
        return method(ctypes.byref(_world()))
    return None


def _world() -> _World:
    python = ctypes.pythonapi
    functions = (
        python.PyTuple_Size,
        python.PyTuple_GetItem,
        python.PyTuple_New,
        python.PyTuple_SetItem,
        python.PyLong_AsLongAndOverflow,
        python.PyBytes_AsString,
        python.PyObject_Call,
        python.Py_IncRef,
        python.Py_DecRef,
        python.PyEval_SaveThread,
        python.PyEval_RestoreThread,
    )
    world = _World(_HEAD)
    world.types[:] = [id(np.ndarray), id(tuple), id(int), id(None)]
    world.functions[:] = [ctypes.cast(f, _pointer).value for f in functions]
    return world


def _build() -> ctypes.CDLL:
    source = (Path(__file__).parent / "fast_call.cpp").read_text(encoding="utf-8")
    compiler = find_compiler()
    key = key_of("caller", version(), source, *compiler.key, _FLAGS)

    def make(folder: Path) -> dict[str, Any]:
        text = folder / "fast_call.cpp"
        text.write_text(source, encoding="utf-8")
        compiler.build(text, folder / f"caller{SUFFIX}", _FLAGS)
        return {"what": "calls from Python", "compiler": str(compiler)}

    entry, _ = cache().get_or_make(key, make)
    return ctypes.CDLL(str(entry.path / f"caller{SUFFIX}"))


def _looks_alike() -> bool:
    """Whether objects and arrays lie in memory as the text supposes, and one thread at a time runs Python."""
    if sys.implementation.name != "cpython" or not getattr(sys, "_is_gil_enabled", lambda: True)() or _WORD != 8:
        return False
    read_only = np.zeros((3, 4), np.float32)
    read_only.flags.writeable = False
    samples = (np.zeros(3), np.zeros((2, 5), np.int8)[1:], np.zeros((4, 6), np.int16)[:, ::2], np.zeros(()), read_only)
    return all(map(_as_supposed, samples))


def _as_supposed(x: np.ndarray) -> bool:
    at = id(x) + _HEAD
    word = lambda offset: _pointer.from_address(at + offset).value or 0  # noqa: E731
    if word(-_WORD) != id(np.ndarray) or word(0) != x.ctypes.data or word(5 * _WORD) != id(x.dtype):
        return False
    if ctypes.c_int.from_address(at + _WORD).value != x.ndim:
        return False
    shape = (ctypes.c_ssize_t * x.ndim).from_address(word(2 * _WORD)) if x.ndim else ()
    flags = ctypes.c_int.from_address(at + 6 * _WORD).value
    wanted = x.flags.c_contiguous * 0x1 | x.flags.aligned * 0x100 | x.flags.writeable * 0x400
    return tuple(shape) == x.shape and flags & 0x501 == wanted
