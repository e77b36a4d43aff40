"""The records of the observer in a kernel's library, read after a call, as observe.h and emulator.h declare them."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from ctypes import POINTER, Structure, c_char, c_char_p, c_int32, c_int64, c_uint64, c_void_p
from dataclasses import dataclass
from typing import Any

LOAD, STORE, ATOMIC, UNDER_WAY = 1, 2, 4, 8  # EmAccess


class _Fault(Structure):
    _fields_ = [
        ("kind", c_char_p),
        ("message", c_char * 240),
        ("buffer", c_char_p),
        ("offset", c_int64),
        ("block", c_int64),
        ("other_block", c_int64),
        ("thread", c_int32),
        ("other_thread", c_int32),
        ("site", c_void_p),
        ("other_site", c_void_p),
        ("count", c_uint64),
        ("bytes", c_int32),
        ("access", c_int32),
        ("other_access", c_int32),
    ]


class _Machine(Structure):
    _fields_ = [
        ("counting", c_int32),
        ("sector", c_int32),
        ("banks", c_int32),
        ("bank_bytes", c_int32),
        ("threads", c_int32),
        ("shared_bytes", c_int64),
    ]


class _Site(Structure):
    _fields_ = [
        ("kernel", c_char_p),
        ("buffer", c_char_p),
        ("site", c_void_p),
        ("shared", c_int32),
        ("access", c_int32),
        ("accesses", c_int64),
        ("bytes", c_int64),
        ("requests", c_int64),
        ("transactions", c_int64),
        ("least_transactions", c_int64),
    ]


class _Launch(Structure):
    _fields_ = [("kernel", c_char_p), ("blocks", c_int64), ("threads", c_int64), ("barriers", c_int64)]


class _Instr(Structure):
    _fields_ = [("kernel", c_char_p), ("name", c_char_p), ("count", c_int64)]


class _Reach(Structure):
    _fields_ = [
        ("kernel", c_char_p),
        ("buffer", c_char_p),
        ("site", c_void_p),
        ("offset", c_int64),
        ("block", c_int64),
        ("thread", c_int32),
        ("access", c_int32),
        ("bytes", c_int32),
        ("group", c_int32),
    ]


@dataclass(frozen=True)
class Fault:
    """`site`, `other_site`: offsets into the library's code, 0 when not known. `offset`: bytes from the buffer's start."""

    kind: str
    message: str
    buffer: str
    offset: int
    block: int
    other_block: int
    thread: int
    other_thread: int
    site: int
    other_site: int
    count: int
    bytes: int
    access: int
    other_access: int


@dataclass(frozen=True)
class Site:
    """Accesses of one kind at one place. `transactions`: sectors of global memory, or rounds of the banks of shared memory."""

    kernel: str
    buffer: str
    site: int
    shared: bool
    access: int
    accesses: int
    bytes: int
    requests: int
    transactions: int
    least_transactions: int


@dataclass(frozen=True)
class LaunchCount:
    kernel: str
    blocks: int
    threads: int
    barriers: int


@dataclass(frozen=True)
class InstrCount:
    kernel: str
    name: str
    count: int


@dataclass(frozen=True)
class Reach:
    """The first access of a place to a buffer. `group`: buffers that lie on the same bytes have one."""

    kernel: str
    buffer: str
    site: int
    offset: int
    block: int
    thread: int
    access: int
    bytes: int
    group: int


class Observer:
    """The observer in a loaded library."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        library.ob_text.restype = c_void_p

    def watch(
        self, counting: bool, sector: int = 0, banks: tuple[int, int] | None = None, threads: int = 0, shared: int = 0
    ) -> None:
        """For the calls that follow. `sector`: bytes of a transaction of global memory; `banks` of shared memory: how many, of
        how many bytes; `threads`, `shared`: how many threads and bytes a block may have. What is 0 or None is not known."""
        self._library.ob_machine(ctypes.byref(_Machine(counting, sector, *(banks or (0, 0)), threads, shared)))

    def clear(self) -> None:
        self._library.ob_clear()

    def faults(self) -> list[Fault]:
        return list(self._all("em_fault", _Fault, Fault))

    def sites(self) -> list[Site]:
        return list(self._all("ob_site", _Site, Site))

    def launches(self) -> list[LaunchCount]:
        return list(self._all("ob_launch", _Launch, LaunchCount))

    def instrs(self) -> list[InstrCount]:
        return list(self._all("ob_instr", _Instr, InstrCount))

    def reaches(self) -> list[Reach]:
        return list(self._all("ob_reach", _Reach, Reach))

    def several(self) -> bool:
        """Whether a place reached buffers that lie apart: one of them is perhaps not the one it means."""
        return self._library.ob_several() > 0

    def _all(self, name: str, record: type[Structure], made: Any) -> Iterator[Any]:
        at = getattr(self._library, f"{name}_at")
        at.restype = POINTER(record)
        text = self._library.ob_text() or 0
        for i in range(getattr(self._library, f"{name}_count")()):
            x = at(i).contents
            values = {n: getattr(x, n) for n, *_ in record._fields_}
            for n, value in values.items():
                if n in ("site", "other_site"):
                    values[n] = value - text if value and text and value > text else 0
                elif value is None:
                    values[n] = ""
                elif isinstance(value, bytes):
                    values[n] = value.decode("utf-8", "replace")
            if "shared" in values:
                values["shared"] = bool(values["shared"])
            yield made(**values)
