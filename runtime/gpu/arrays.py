"""Arrays in a GPU's memory: CuPy's and PyTorch's directly, those of others (JAX, Numba) through DLPack, without a copy.

Neither library is imported before one of its arrays arrives, or an array of another library is read.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import nullcontext
from functools import lru_cache
from typing import Any

import numpy as np

from ...dsl.errors.run import ArgumentKind
from ...dsl.types import DType
from ..arrays.convert import numpy_dtype

KINDS = {2: "cuda", 10: "hip", 13: "cuda"}  # of DLPack's devices: CUDA, ROCm, CUDA managed


class Arrays:
    """One library's arrays. What is asked at each call is one method, `view`."""

    name: str
    kind: str  # of GPU: cuda or hip
    array: type  # what `view` is asked of

    def owns(self, x: Any) -> bool:
        raise NotImplementedError

    def dtype(self, dtype: DType) -> Any:
        """The library's element type. Raises ArgumentKind where it has none."""
        raise NotImplementedError

    def view(self, x: Any, dtype: Any) -> tuple[int, tuple[int, ...], int] | None:
        """Address, shape and device of an array that can be used as it is; None for any other."""
        raise NotImplementedError

    def address(self, x: Any) -> int:
        raise NotImplementedError

    def type_of(self, x: Any) -> Any:
        return x.dtype

    def device(self, x: Any) -> int:
        """The GPU's number, or -1 in the host's memory."""
        raise NotImplementedError

    def strides(self, x: Any) -> tuple[tuple[int, ...], int]:
        """Bytes from an element to the next along each axis, and bytes of an element."""
        raise NotImplementedError

    def empty(self, shape: tuple[int, ...], dtype: Any, device: int) -> Any:
        raise NotImplementedError

    def bytes(self, count: int, device: int) -> tuple[Any, int]:
        """Memory, by the library's own means, and its address."""
        raise NotImplementedError

    def stream(self, device: int) -> int:
        """The library's current stream."""
        raise NotImplementedError

    def contiguous(self, x: Any) -> Any:
        raise NotImplementedError

    def copy(self, target: Any, source: Any) -> None:
        raise NotImplementedError

    def take(self, x: Any) -> Any:
        """Another library's array as one of this, sharing its memory; what is to be done on its stream is waited for."""
        raise NotImplementedError

    def full(self, value: Any, dtype: Any, device: int) -> Any:
        """A scalar in the GPU's memory."""
        raise NotImplementedError

    def place(self, array: np.ndarray, dtype: Any, device: int) -> Any:
        """A copy of an array of NumPy's."""
        raise NotImplementedError

    def fetch(self, x: Any, dtype: np.dtype) -> np.ndarray:
        """A copy in the host's memory; waits for what is to be done before."""
        raise NotImplementedError

    def wait(self) -> None:
        """Until all that was launched on the current stream is done."""
        raise NotImplementedError


class Cupy(Arrays):
    name = "cupy"

    def __init__(self, module: Any) -> None:
        self.cupy, self.array = module, module.ndarray
        self.kind = "hip" if module.cuda.runtime.is_hip else "cuda"
        self._stream = module.cuda.get_current_stream
        self._several = module.cuda.runtime.getDeviceCount() > 1

    def owns(self, x: Any) -> bool:
        return isinstance(x, self.cupy.ndarray)

    def dtype(self, dtype: DType) -> Any:
        if dtype.name.startswith("f8"):
            raise ArgumentKind(f"CuPy has no arrays of {dtype}", help="PyTorch has")
        return numpy_dtype(dtype)

    def view(self, x: Any, dtype: Any) -> tuple[int, tuple[int, ...], int] | None:
        if x.dtype != dtype or not x.flags.c_contiguous:
            return None
        data = x.data
        return data.ptr, x.shape, data.device_id

    def address(self, x: Any) -> int:
        return x.data.ptr

    def device(self, x: Any) -> int:
        return x.data.device_id

    def strides(self, x: Any) -> tuple[tuple[int, ...], int]:
        return x.strides, x.itemsize

    def _on(self, device: int) -> Any:
        return self.cupy.cuda.Device(device) if self._several else nullcontext()

    def empty(self, shape: tuple[int, ...], dtype: Any, device: int) -> Any:
        if not self._several:
            return self.cupy.empty(shape, dtype)
        with self._on(device):
            return self.cupy.empty(shape, dtype)

    def bytes(self, count: int, device: int) -> tuple[Any, int]:
        with self._on(device):
            memory = self.cupy.cuda.alloc(count)
        return memory, memory.ptr

    def stream(self, device: int) -> int:
        if not self._several:
            return self._stream().ptr
        with self._on(device):
            return self._stream().ptr

    def contiguous(self, x: Any) -> Any:
        return self.cupy.ascontiguousarray(x).reshape(x.shape)

    def copy(self, target: Any, source: Any) -> None:
        target[...] = source

    def take(self, x: Any) -> Any:
        return self.cupy.from_dlpack(x) if hasattr(x, "__dlpack__") else self.cupy.asarray(x)

    def full(self, value: Any, dtype: Any, device: int) -> Any:
        with self._on(device):
            return self.cupy.asarray(np.asarray(value, dtype))

    def place(self, array: np.ndarray, dtype: Any, device: int) -> Any:
        with self._on(device):
            return self.cupy.asarray(array)

    def fetch(self, x: Any, dtype: np.dtype) -> np.ndarray:
        return self.cupy.asnumpy(x)

    def wait(self) -> None:
        self._stream().synchronize()


# The names of element types in PyTorch.
TORCH = {"f64": "float64", "f32": "float32", "tf32": "float32", "f16": "float16", "bf16": "bfloat16", "i64": "int64"}
TORCH |= {"i32": "int32", "i16": "int16", "i8": "int8", "i4": "int8", "u8": "uint8", "bool": "bool"}
TORCH |= {"f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2"}
_SAME_WIDTH = {1: "int8", 2: "int16", 4: "int32", 8: "int64"}  # for types that the host's NumPy arrays go through


class Torch(Arrays):
    name = "torch"

    def __init__(self, module: Any) -> None:
        self.torch, self.array = module, module.Tensor
        self.kind = "hip" if module.version.hip else "cuda"
        # Without making an object of it, where this version lets one ask so.
        self._raw_stream = getattr(module._C, "_cuda_getCurrentRawStream", None)
        self._places: dict[int, Any] = {}

    def owns(self, x: Any) -> bool:
        return isinstance(x, self.torch.Tensor)

    def dtype(self, dtype: DType) -> Any:
        found = getattr(self.torch, TORCH[dtype.name], None)
        if found is None:
            raise ArgumentKind(f"PyTorch {self.torch.__version__} has no tensors of {dtype}")
        return found

    def view(self, x: Any, dtype: Any) -> tuple[int, tuple[int, ...], int] | None:
        if x.dtype is not dtype or not x.is_contiguous() or x.requires_grad:
            return None
        return x.data_ptr(), x.shape, x.get_device()

    def address(self, x: Any) -> int:
        return x.data_ptr()

    def device(self, x: Any) -> int:
        return x.get_device()

    def strides(self, x: Any) -> tuple[tuple[int, ...], int]:
        size = x.element_size()
        return tuple(n * size for n in x.stride()), size

    def _place(self, device: int) -> Any:
        place = self._places.get(device)
        if place is None:
            place = self._places[device] = self.torch.device("cuda", device)
        return place

    def empty(self, shape: tuple[int, ...], dtype: Any, device: int) -> Any:
        return self.torch.empty(shape, dtype=dtype, device=self._place(device))

    def bytes(self, count: int, device: int) -> tuple[Any, int]:
        memory = self.torch.empty(count, dtype=self.torch.uint8, device=self._place(device))
        return memory, memory.data_ptr()

    def stream(self, device: int) -> int:
        if self._raw_stream is not None:
            return self._raw_stream(device)
        return self.torch.cuda.current_stream(device).cuda_stream

    def contiguous(self, x: Any) -> Any:
        if x.requires_grad and self.torch.is_grad_enabled():
            raise ArgumentKind(
                "the tensor requires a gradient, and kernels are not differentiable",
                help="pass `x.detach()`, or use torch.no_grad()",
            )
        return x.detach().contiguous()

    def copy(self, target: Any, source: Any) -> None:
        target.copy_(source)

    def take(self, x: Any) -> Any:
        return self.torch.from_dlpack(x) if hasattr(x, "__dlpack__") else self.torch.as_tensor(x, device="cuda")

    def full(self, value: Any, dtype: Any, device: int) -> Any:
        value = value.item() if isinstance(value, np.generic) else value
        return self.torch.full((), value, dtype=dtype, device=self._place(device))

    def place(self, array: np.ndarray, dtype: Any, device: int) -> Any:
        bits = array.view(_SAME_WIDTH[array.dtype.itemsize]) if array.dtype.kind == "V" else array
        tensor = (
            self.torch.from_numpy(np.array(bits)).view(dtype) if bits is not array else self.torch.from_numpy(np.array(bits))
        )
        return tensor.to(self._place(device))

    def fetch(self, x: Any, dtype: np.dtype) -> np.ndarray:
        if dtype.kind != "V":
            return x.cpu().numpy()
        return x.cpu().view(getattr(self.torch, _SAME_WIDTH[dtype.itemsize])).numpy().view(dtype)

    def wait(self) -> None:
        self.torch.cuda.current_stream().synchronize()


_MAKERS: dict[str, type[Arrays]] = {"cupy": Cupy, "torch": Torch}


@lru_cache(maxsize=4)
def _library(name: str) -> Arrays:
    return _MAKERS[name](sys.modules[name])  # type: ignore[call-arg]


def library_of(x: Any) -> Arrays | None:
    """The library whose array `x` is, if it is one of a GPU's."""
    for name in _MAKERS:
        if sys.modules.get(name) is not None:
            library = _library(name)
            if library.owns(x):
                return library
    return None


def any_library(kind: str, dtypes: Iterable[DType] = ()) -> Arrays:
    """A library for GPUs of this kind that has such element types, imported if need be.

    Raises ArgumentKind where there is none.
    """
    problems = []
    for name in sorted(_MAKERS, key=lambda n: sys.modules.get(n) is None):
        try:
            __import__(name)
            library = _library(name)
            for dtype in dtypes:
                library.dtype(dtype)
        except Exception as error:  # whatever keeps it from working here is the reason to show
            said = error.message if isinstance(error, ArgumentKind) else str(error).strip()
            problems.append(f"{name}: {said.partition(chr(10))[0]}")
            continue
        if library.kind == kind:
            return library
        problems.append(f"{name}: is for {library.kind}")
    raise ArgumentKind(
        f"no library with such arrays in the memory of a GPU of kind {kind} ({'; '.join(problems)})",
        help="pip install 'andiron[cuda]' brings CuPy; PyTorch will do as well",
    )


def kind_of(x: Any) -> tuple[str, int] | None:
    """The kind of GPU, and its number, in whose memory an array lies; None for all others."""
    asked = getattr(x, "__dlpack_device__", None)
    if asked is None:
        return ("cuda", 0) if hasattr(x, "__cuda_array_interface__") else None
    try:
        kind, number = asked()
    except Exception:  # torch's arrays without memory: `to_numpy` tells what is wrong
        return None
    name = KINDS.get(int(kind))
    return None if name is None else (name, int(number))
