"""The GPU's driver: its devices, loading of code, launches. Its C interface is called directly; nothing else is needed.

Modules belong to the device's primary context, the one in which CuPy, PyTorch and JAX have their memory (CUDA Driver API,
"Primary Context Management"). A launch neither waits nor allocates, so it can be captured into a graph; loading cannot.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from ...dsl.errors import InternalError
from ...dsl.errors.target import CompilerFailed, NoDevice
from .arch import amd_name

# Attributes of CUDA's devices and functions (cuda.h: CUdevice_attribute, CUfunction_attribute).
_MAJOR, _MINOR, _DYNAMIC_SHARED = 75, 76, 8

Launch = Callable[..., int]
"""(function, blocks x, y, z, threads x, y, z, bytes of shared memory, stream, parameters, None) -> status

Every argument is a value of `ctypes`, made beforehand where it can be: converting numbers at each launch takes as long as the
launch."""


class Driver:
    """What both vendors' drivers have in common. `library` is the driver's, `prefix` that of its functions."""

    kind: str
    prefix: str
    launch_name: str

    def __init__(self, library: Any) -> None:
        self.library = library
        self.check(self._call("Init", 0), "start the driver")
        self.launch: Launch = getattr(library, self.prefix + self.launch_name)

    def _call(self, name: str, *args: Any) -> int:
        return getattr(self.library, self.prefix + name)(*args)

    def count(self) -> int:
        """How many devices there are."""
        number = ctypes.c_int()
        return number.value if self._call(self._count_name, ctypes.byref(number)) == 0 else 0

    _count_name = "GetDeviceCount"

    def arch(self, device: int) -> str:
        """The name by which compilers know the device."""
        raise NotImplementedError

    def model(self, device: int) -> str:
        """The name by which its vendor sells the device."""
        name = ctypes.create_string_buffer(256)
        self.check(self._call("DeviceGetName", name, len(name), device), "name the device")
        return name.value.decode(errors="replace")

    @contextmanager
    def on(self, device: int) -> Iterator[None]:
        """The device is this thread's current one within."""
        raise NotImplementedError
        yield

    def load(self, device: int, image: bytes, kernels: list[tuple[str, int]]) -> list[int]:
        """Handles of a code's kernels, each given with the bytes of shared memory that it asks for at a launch.

        Raises CompilerFailed when the driver does not take the code.
        """
        with self.on(device):
            module = ctypes.c_void_p()
            self.check(self._call("ModuleLoadData", ctypes.byref(module), image), "load the code", CompilerFailed)
            handles = []
            for name, shared in kernels:
                function = ctypes.c_void_p()
                self.check(self._call("ModuleGetFunction", ctypes.byref(function), module, name.encode()), f"find {name}")
                self.allow(function, shared)
                handles.append(function.value or 0)
            return handles

    def allow(self, function: ctypes.c_void_p, shared: int) -> None:
        """A kernel may ask for so many bytes of shared memory."""

    def wrong_device(self, status: int) -> bool:
        """Whether a launch failed because another device, or none, is this thread's current one."""
        return False

    def error(self, status: int) -> str:
        raise NotImplementedError

    def check(self, status: int, what: str, kind: type[Exception] = InternalError) -> None:
        if status:
            raise kind(f"the driver cannot {what}: {self.error(status)}")


class Cuda(Driver):
    kind, prefix, launch_name, _count_name = "cuda", "cu", "LaunchKernel", "DeviceGetCount"

    def __init__(self, library: Any) -> None:
        super().__init__(library)
        self._contexts: dict[int, ctypes.c_void_p] = {}

    def arch(self, device: int) -> str:
        values = []
        for attribute in (_MAJOR, _MINOR):
            value = ctypes.c_int()
            self.check(self._call("DeviceGetAttribute", ctypes.byref(value), attribute, device), "name the device")
            values.append(value.value)
        return f"sm_{values[0]}{values[1]}"

    @contextmanager
    def on(self, device: int) -> Iterator[None]:
        context = self._contexts.get(device)
        if context is None:
            context = ctypes.c_void_p()
            self.check(self._call("DevicePrimaryCtxRetain", ctypes.byref(context), device), "use the device")
            self._contexts[device] = context
        self.check(self._call("CtxPushCurrent_v2", context), "use the device")
        try:
            yield
        finally:
            self._call("CtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))

    def allow(self, function: ctypes.c_void_p, shared: int) -> None:
        if shared:
            status = self._call("FuncSetAttribute", function, _DYNAMIC_SHARED, shared)
            self.check(status, f"give a block {shared} bytes of shared memory")

    def wrong_device(self, status: int) -> bool:
        return status in (201, 400)  # CUDA_ERROR_INVALID_CONTEXT, _INVALID_HANDLE

    def error(self, status: int) -> str:
        text = ctypes.c_char_p()
        self._call("GetErrorString", status, ctypes.byref(text))
        return f"{(text.value or b'an unknown error').decode()} ({status})"


class Hip(Driver):
    kind, prefix, launch_name = "hip", "hip", "ModuleLaunchKernel"

    def arch(self, device: int) -> str:
        """As the kernel's driver numbers it: HIP itself has no stable way to ask."""
        names = [name for name in map(_kfd_arch, sorted(_KFD.glob("*/properties"), key=_node)) if name]
        if device >= len(names):
            raise NoDevice(f"the architecture of GPU {device} is not known", help="name the target, as in `hip:gfx90a`")
        return names[device]

    @contextmanager
    def on(self, device: int) -> Iterator[None]:
        before = ctypes.c_int()
        self._call("GetDevice", ctypes.byref(before))
        self.check(self._call("SetDevice", device), "use the device")
        try:
            yield
        finally:
            self._call("SetDevice", before.value)

    def wrong_device(self, status: int) -> bool:
        return status in (201, 400)  # hipErrorInvalidContext, hipErrorInvalidHandle

    def error(self, status: int) -> str:
        self.library.hipGetErrorString.restype = ctypes.c_char_p
        return f"{(self.library.hipGetErrorString(status) or b'an unknown error').decode()} ({status})"


_KFD = Path("/sys/class/kfd/kfd/topology/nodes")


def _node(path: Path) -> int:
    return int(path.parent.name) if path.parent.name.isdigit() else -1


def _kfd_arch(path: Path) -> str:
    try:
        words = dict(line.split()[:2] for line in path.read_text().splitlines() if len(line.split()) >= 2)
    except OSError:
        return ""
    return amd_name(int(words.get("gfx_target_version", "0")))


_LIBRARIES: dict[str, tuple[type[Driver], tuple[str, ...]]] = {
    "cuda": (Cuda, ("libcuda.so.1", "libcuda.so", "nvcuda.dll")),
    "hip": (Hip, ("libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "/opt/rocm/lib/libamdhip64.so")),
}


def find_driver(kind: str) -> Driver:
    """The driver of a family's GPUs. Raises NoDevice where there is none, or no device for it."""
    return _find(kind, os.environ.get("CUDA_VISIBLE_DEVICES"), os.environ.get("HIP_VISIBLE_DEVICES"))


@lru_cache(maxsize=8)
def _find(kind: str, *_: str | None) -> Driver:
    maker, names = _LIBRARIES[kind]
    for name in names:
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        try:
            driver = maker(library)
        except (InternalError, AttributeError) as error:
            raise _none(f"the driver of {kind} is there, but cannot be used: {getattr(error, 'message', error)}") from None
        if driver.count() == 0:
            raise _none(f"the driver of {kind} finds no device")
        return driver
    raise _none(f"no driver of {kind} on this machine")


def _none(text: str) -> NoDevice:
    return NoDevice(text, help="the target `emulate:DEVICE` runs the same on a CPU; `andiron build` makes code without a GPU")
