"""The language's own library: the `.sched` texts below `stdlib/`, and the devices that need no import."""

from __future__ import annotations

import re
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING

from .. import stdlib

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

_DEVICE = re.compile(r"^device[ \t]+([A-Za-z_][A-Za-z0-9_]*(?::[A-Za-z_][A-Za-z0-9_]*)?)", re.MULTILINE)


@lru_cache(maxsize=1)
def std_names() -> tuple[str, ...]:
    """The modules that there are: `ops.gemm`, `devices.nvidia`, ..."""
    found: list[str] = []

    def walk(folder: Traversable, prefix: str) -> None:
        for entry in folder.iterdir():
            if entry.is_dir():
                walk(entry, f"{prefix}{entry.name}.")
            elif entry.name.endswith(".sched"):
                found.append(prefix + entry.name.removesuffix(".sched"))

    walk(files(stdlib), "")
    return tuple(sorted(found))


def std_bytes(name: str) -> bytes:
    """The content of a module of `std_names`."""
    *folders, stem = name.split(".")
    place = files(stdlib)
    for part in (*folders, f"{stem}.sched"):
        place = place.joinpath(part)
    return place.read_bytes()


@lru_cache(maxsize=1)
def std_devices() -> dict[str, str]:
    """Every device of the library, with the module that describes it. Reads the names only."""
    return {
        device: name
        for name in std_names()
        if name.startswith("devices.")
        for device in _DEVICE.findall(std_bytes(name).decode("utf-8"))
    }
