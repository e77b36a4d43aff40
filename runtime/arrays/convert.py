"""Arrays of any family in, NumPy views of the same memory to the kernel, results of the same family out.

NumPy arrays are the native family. An array with `__dlpack__` (torch, JAX, CuPy on the host, ...) is viewed without a copy if
NumPy knows its element type; otherwise one with `__array__`. Nothing here imports a framework: the array's own is loaded.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from math import isfinite, prod
from typing import Any

import numpy as np

from ...dsl.errors.run import ArgumentKind, ArgumentType, DeviceMismatch, OutputReadOnly, SizeRefused
from ...dsl.op import Tensor
from ...dsl.types import TYPES, DType
from .bind_sizes import tensor_text
from .data_pointer import address_of

_HOST = {1: "cpu", 3: "cuda host", 11: "rocm host"}  # kinds of devices of DLPack whose memory a CPU can read
_BITS = {"bfloat16": "int16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8"}  # torch types that DLPack to NumPy lacks

WRITABLE = "pass an array that can be written, such as a copy, or leave `out` out"  # the way out of OutputReadOnly
_LARGE, _LINE = 1 << 20, 64  # bytes

Back = Callable[[np.ndarray], Any]


def numpy_dtype(dtype: DType) -> np.dtype:
    """The NumPy type of arrays of `dtype`. Raises ArgumentKind when the package that brings it is missing."""
    try:
        return dtype.numpy
    except ImportError:
        raise ArgumentKind(
            f"arrays of {dtype} need the package ml_dtypes", help="pip install 'andiron[half]', or pip install ml_dtypes"
        ) from None


def empty(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """A new array. Large ones begin at a cache line, which some instructions ask for. Raises SizeRefused."""
    count = prod(shape)
    if count * dtype.itemsize < _LARGE:
        return np.empty(shape, dtype)
    spare = _LINE // dtype.itemsize
    try:
        room = np.empty(count + spare, dtype)
    except (MemoryError, ValueError):
        text = f"no memory for an output of shape {shape}: {count * dtype.itemsize:,} bytes"
        raise SizeRefused(text, help="split the call") from None
    first = -address_of(room) % _LINE // dtype.itemsize
    return room[first : first + count].reshape(shape)


def to_numpy(x: Any, tensor: Tensor) -> np.ndarray:
    """`x` as a NumPy array of the tensor's type, sharing memory where that is possible; any strides.

    Raises ArgumentKind, ArgumentType, DeviceMismatch.
    """
    array = _view(x, tensor)
    want = numpy_dtype(tensor.dtype)
    if array.dtype != want:
        if array.dtype.newbyteorder("=") == want:
            return array.astype(want)
        raise ArgumentType(
            f"{tensor.name} has elements of type {_type_name(array.dtype)}; expected {tensor_text(tensor)}",
            help=f"convert it on purpose: `{tensor.name}.astype({_spelling(want)})`" if hasattr(x, "astype") else None,
        )
    return array


def writable(x: Any, tensor: Tensor) -> np.ndarray:
    """`out` as a NumPy array that shares its memory. Raises as `to_numpy`, and OutputReadOnly."""
    if isinstance(x, (np.generic, bool, int, float)):
        raise OutputReadOnly(f"out `{tensor.name}` is a number, which no call can change", help=WRITABLE)
    array = to_numpy(x, tensor)
    if not array.flags.writeable and hasattr(x, "numpy"):
        # A DLPack view may be read-only though its owner is not; torch gives a writable one this way.
        try:
            array = np.asarray(x.numpy())
        except Exception as error:
            raise OutputReadOnly(f"out `{tensor.name}` cannot be written: {error}", help=WRITABLE) from None
    if not array.flags.writeable:
        raise OutputReadOnly(f"out `{tensor.name}` is a read-only array", help=WRITABLE)
    if isinstance(x, np.ndarray) and not np.may_share_memory(array, x) and array.size:
        raise ArgumentType(
            f"out `{tensor.name}` is not in this machine's byte order", help="leave `out` out: the call makes an array"
        )
    return array


def result_converter(args: tuple[Any, ...]) -> Back | None:
    """How results become the family of the arguments: that of the first one that is not NumPy's; None for NumPy."""
    for x in args:
        if isinstance(x, (np.ndarray, np.generic, int, float)):
            continue
        root = type(x).__module__.partition(".")[0]
        module = x.__array_namespace__() if hasattr(x, "__array_namespace__") else sys.modules.get(root)
        back = getattr(module, "from_dlpack", None)
        if back is None or not hasattr(x, "__dlpack__"):
            continue

        def convert(array: np.ndarray, back: Any = back, module: Any = module) -> Any:
            bits = _BITS.get(array.dtype.name)
            if bits is None:
                return back(array)
            typed = getattr(module, array.dtype.name, None)
            return back(array.view(bits)).view(typed) if typed is not None else array

        return convert
    return None


def from_python(x: bool | int | float, tensor: Tensor) -> np.ndarray:
    """A number of Python's as an array without axes: rounded to a float's precision, otherwise the very number.

    Raises ArgumentType where the type cannot hold it.
    """
    dtype, rounds = numpy_dtype(tensor.dtype), tensor.dtype.kind == "float"
    with np.errstate(over="ignore", invalid="ignore"), suppress(OverflowError, ValueError):
        array = np.asarray(x, dtype)
        if rounds and (np.isfinite(array.astype(float)) or not isfinite(x)):
            return array
        if not rounds and array.item() == x:
            return array
    raise ArgumentType(f"{tensor.name} is {repr(x)[:40]}, which {tensor.dtype} cannot hold; expected {tensor_text(tensor)}")


def refuse_other_number(x: Any, tensor: Tensor) -> None:
    """Raises ArgumentType for a scalar that is not of the tensor's type, or a number of Python's that the type cannot hold."""
    if isinstance(x, (np.generic, np.ndarray)):
        to_numpy(x, tensor)
        return
    with suppress(ArgumentKind):  # without a NumPy type, the array's own library converts it
        from_python(x, tensor)


def _view(x: Any, tensor: Tensor) -> np.ndarray:
    if isinstance(x, np.ma.MaskedArray):
        raise ArgumentKind(
            f"{tensor.name} is a masked array, and its mask would be lost", help="`.filled(value)` gives a plain one"
        )
    if isinstance(x, np.ndarray):
        return np.asarray(x)
    if isinstance(x, (np.generic, bool, int, float)) and not tensor.shape:
        return np.asarray(x) if isinstance(x, np.generic) else from_python(x, tensor)
    if not hasattr(x, "__dlpack__") and not hasattr(x, "__array__"):
        listed = isinstance(x, (list, tuple))
        way_out = "pass an array" if tensor.shape else "pass an array without axes, or a number"
        help = f"numpy.asarray(..., {_spelling(numpy_dtype(tensor.dtype))}) makes one" if listed else way_out
        raise ArgumentKind(f"{tensor.name} is a {type(x).__name__}, not an array; expected {tensor_text(tensor)}", help=help)
    device = getattr(x, "__dlpack_device__", None)
    if device is not None:
        try:
            kind, number = device()
        except Exception as error:  # of arrays without memory, as torch's on the device `meta`
            raise ArgumentKind(
                f"{tensor.name} ({type(x).__name__}) has no memory to read: {error}", help=f"expected {tensor_text(tensor)}"
            ) from None
        if int(kind) not in _HOST:
            raise DeviceMismatch(
                f"{tensor.name} lives on another device ({getattr(x, 'device', f'kind {int(kind)}, number {number}')}); "
                "this kernel runs on the CPU",
                help="copy it to host memory first",
            )
    problems = []
    for way in (_by_dlpack, _by_bits, _by_array):
        try:
            array = way(x)
        except Exception as error:  # whatever the other library raises is the reason to show
            problems.append(str(error).strip().partition("\n")[0])
            continue
        if array is not None and array.dtype != object:
            return array
    raise ArgumentKind(f"{tensor.name} ({type(x).__name__}) cannot be read as an array: {'; '.join(problems) or 'no numbers'}")


def _by_dlpack(x: Any) -> np.ndarray | None:
    return np.from_dlpack(x) if hasattr(x, "__dlpack__") else None


def _by_bits(x: Any) -> np.ndarray | None:
    """Torch's bf16 and f8: through integers of the same width, as NumPy's DLPack knows none of them."""
    name = str(getattr(x, "dtype", "")).rpartition(".")[2]
    module = sys.modules.get(type(x).__module__.partition(".")[0])
    bits = getattr(module, _BITS.get(name, ""), None)
    if bits is None or not hasattr(x, "view"):
        return None
    language = {"bfloat16": "bf16", "float8_e4m3fn": "f8e4m3", "float8_e5m2": "f8e5m2"}[name]
    return np.from_dlpack(x.view(bits)).view(numpy_dtype(TYPES[language]))


def _by_array(x: Any) -> np.ndarray | None:
    return np.asarray(x) if hasattr(x, "__array__") else None


def _type_name(dtype: np.dtype) -> str:
    """The language's name of a NumPy type where it has one."""
    for name in ("f64", "f32", "f16", "i64", "i32", "i16", "i8", "u8", "bool"):
        if TYPES[name].numpy == dtype:
            return name
    return dtype.name


def _spelling(dtype: np.dtype) -> str:
    return f"ml_dtypes.{dtype.name}" if type(dtype).__module__ != "numpy" and dtype.kind == "V" else f"numpy.{dtype.name}"
