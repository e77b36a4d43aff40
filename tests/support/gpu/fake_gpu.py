"""A GPU that is not there: a driver that runs kernels on the CPU, and array libraries whose "GPU memory" is the host's.

For tests of what lies between a call and the launch; what a real GPU does is tested in `tests/runtime/gpu/on_device`.
The driver is `fake_cuda.cpp`, and kernels run against `simt_shim.h`.
"""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
from andiron.codegen.abi import programs
from andiron.codegen.emit.c.c_expr import ELEMENTS, storage
from andiron.codegen.emit.printers import launches
from andiron.runtime.gpu.device_code import DeviceCode
from andiron.runtime.gpu.driver import Cuda

HERE = Path(__file__).parent
CXX = shutil.which("g++")


def driver(folder: Path) -> Cuda:
    out = folder / "fake_cuda.so"
    subprocess.run([CXX or "g++", "-O1", "-shared", "-fPIC", "-o", str(out), str(HERE / "fake_cuda.cpp"), "-ldl"], check=True)
    return Cuda(ctypes.CDLL(str(out)))


def log(fake: Cuda) -> list[str]:
    """What the driver was asked to do since the last time."""
    fake.library.fake_log.restype = ctypes.c_char_p
    lines = fake.library.fake_log().decode().splitlines()
    fake.library.fake_clear()
    return lines


_PTX_STORE = re.compile(r'asm volatile\("st\.global\.[^;]*;" ::[^;]*;')  # the host has no such instruction


def code(variant: Any, folder: Path) -> DeviceCode:
    """A variant's CUDA text as code for that driver: its kernels read their parameters as a driver passes them."""
    kernels = _PTX_STORE.sub("memcpy(d, v, sizeof v);", variant.source)
    text = f'#define ANDIRON_DEVICE_ONLY\n#include "{HERE / "simt_shim.h"}"\n{kernels}'
    for k in (k for p in programs(variant.program) for k in launches(p, "cuda")):
        arguments = [f"*({ELEMENTS[storage(b.dtype)]}**)p[{i}]" for i, b in enumerate(k.buffers)]
        arguments += [f"*(int64_t*)p[{i + len(arguments)}]" for i in range(len(k.sizes))]
        body = f"[](void* x) {{ auto p = (void**)x; (void)p; {k.name}({', '.join(arguments)}); }}"
        text += (
            f'extern "C" const char* call_{k.name}(void** p, int64_t blocks) {{\n'
            f"    return run_grid(blocks, {k.threads}, {body}, p);\n}}\n"
        )
    source, library = folder / "kernel.cpp", folder / "kernel.so"
    source.write_text(text, encoding="utf-8")
    flags = ["-O1", "-std=c++17", "-ffp-contract=off", "-w", "-shared", "-fPIC"]
    subprocess.run([CXX or "g++", *flags, str(source), "-o", str(library)], check=True)
    return DeviceCode(str(library).encode() + b"\0", (), "", "cubin", "a fake", False)


# ------------------------------------------------------------ arrays


class Fake:
    """An array of a "GPU": NumPy's, seen through the few attributes that are asked for."""

    def __init__(self, host: np.ndarray, device: int = 0) -> None:
        self.host, self.number = host, device
        self.shape, self.dtype = host.shape, host.dtype
        self.strides, self.itemsize = host.strides, host.itemsize
        self.flags = types.SimpleNamespace(c_contiguous=host.flags.c_contiguous)
        self.data = types.SimpleNamespace(ptr=host.ctypes.data, device_id=device)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self.number

    def __dlpack__(self, **_: Any) -> Any:
        return self

    def reshape(self, shape: tuple[int, ...]) -> Any:
        return type(self)(self.host.reshape(shape), self.number)

    def __getitem__(self, key: Any) -> Any:
        return type(self)(self.host[key], self.number)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.host[key] = getattr(value, "host", value)


class CupyArray(Fake):
    pass


class Foreign(Fake):
    """Of a library that is known only through DLPack, as JAX's is."""

    def __array_namespace__(self) -> Any:
        return types.SimpleNamespace(from_dlpack=lambda x: Foreign(x.host, x.number))


class Tensor:
    """Of PyTorch: the same under other names."""

    def __init__(self, host: np.ndarray, device: int = 0, requires_grad: bool = False) -> None:
        self.host, self.number, self.requires_grad = host, device, requires_grad
        self.shape, self.dtype = host.shape, sys.intern(host.dtype.name)

    def is_contiguous(self) -> bool:
        return self.host.flags.c_contiguous

    def data_ptr(self) -> int:
        return self.host.ctypes.data

    def get_device(self) -> int:
        return self.number

    def stride(self) -> tuple[int, ...]:
        return tuple(n // self.host.itemsize for n in self.host.strides)

    def element_size(self) -> int:
        return self.host.itemsize

    def detach(self) -> Tensor:
        return Tensor(self.host, self.number)

    def contiguous(self) -> Tensor:
        return Tensor(np.ascontiguousarray(self.host).reshape(self.shape), self.number)

    def cpu(self) -> Tensor:
        return Tensor(self.host.copy(), -1)

    def numpy(self) -> np.ndarray:
        return self.host

    def to(self, device: int) -> Tensor:
        return Tensor(self.host.copy(), device)

    def copy_(self, other: Tensor) -> None:
        self.host[...] = other.host

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, self.number) if self.number >= 0 else (1, 0)


def cupy() -> types.ModuleType:
    """CuPy's names, as far as they are used."""
    module: Any = types.ModuleType("cupy")
    poison = np.uint8(0xA5)

    def empty(shape: Any, dtype: Any) -> CupyArray:
        out = np.empty(shape, dtype)
        out.reshape(-1).view(np.uint8)[...] = poison
        return CupyArray(out)

    def alloc(count: int) -> Any:
        memory = np.full(count, poison)
        module.allocated.append(count)
        return types.SimpleNamespace(ptr=memory.ctypes.data, owner=memory)

    module.ndarray, module.empty, module.allocated = CupyArray, empty, []
    module.from_dlpack = lambda x: CupyArray(x.host, x.number)
    module.asarray = lambda x: CupyArray(np.asarray(x))
    module.ascontiguousarray = lambda x: CupyArray(np.ascontiguousarray(x.host), x.number)
    module.asnumpy = lambda x: x.host.copy()
    stream = types.SimpleNamespace(ptr=4711, synchronize=lambda: None)
    runtime = types.SimpleNamespace(is_hip=False, getDeviceCount=lambda: 1)
    module.cuda = types.SimpleNamespace(runtime=runtime, get_current_stream=lambda: stream, alloc=alloc)
    return module


def torch() -> types.ModuleType:
    """PyTorch's names, as far as they are used; element types go by their names."""
    module: Any = types.ModuleType("torch")
    module.Tensor, module.uint8, module.__version__ = Tensor, "uint8", "fake"
    for name in ("float64", "float32", "float16", "int64", "int32", "int16", "int8", "bool"):
        setattr(module, name, name)
    module.version = types.SimpleNamespace(hip=None)
    module._C = types.SimpleNamespace(_cuda_getCurrentRawStream=lambda device: 99 + device)
    module.device = lambda kind, number: number
    module.empty = lambda shape, dtype, device: Tensor(np.empty(shape, dtype), device)
    module.full = lambda shape, value, dtype, device: Tensor(np.full(shape, value, dtype), device)
    module.from_dlpack = lambda x: Tensor(x.host, x.number)
    module.from_numpy = lambda x: Tensor(x, -1)
    module.cuda = types.SimpleNamespace(current_stream=lambda: types.SimpleNamespace(synchronize=lambda: None))
    module.is_grad_enabled = lambda: True
    return module


def on(*hosts: np.ndarray, kind: Any = CupyArray) -> list[Any]:
    """The arrays in the memory of the fake GPU, as those of a library."""
    return [kind(h) for h in hosts]


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).integers(-8, 9, shape).astype("f4")
