"""The places of GPU vendors' tools: in packages of the package index, and of CUDA's commands on this machine."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path


def package_folders(package: str) -> list[Path]:
    """The folders of a package that need not be imported; none where it is not installed."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return []
    return [Path(f) for f in (spec and spec.submodule_search_locations) or []]


def nvidia_folders() -> Iterator[Path]:
    """`nvidia/cu13`, the newest first, and of older releases a folder a component (`nvidia/cuda_nvrtc`)."""
    for folder in package_folders("nvidia"):
        yield from sorted(folder.glob("cu[0-9][0-9]"), reverse=True)
        yield from sorted(folder.glob("cuda_*"))


def cuda_commands(name: str, chosen: str, path: str, homes: Iterable[str]) -> Iterator[str]:
    """Where a command of CUDA may be, best first: the user's choice alone if there is one, PATH, toolkits, packages.

    path, homes  the values of PATH, and of variables that name the folder of a toolkit; "" where they are not set
    """
    if chosen:
        yield chosen
        return
    if found := shutil.which(name, path=path or None):
        yield found
    folders = [Path(h) / "bin" for h in homes if h] + [Path("/usr/local/cuda/bin")]
    for folder in [*folders, *(f / "bin" for f in nvidia_folders())]:
        if found := shutil.which(name, path=str(folder)):
            yield found
