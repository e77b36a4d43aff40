"""The places of GPU vendors' tools in packages of the package index."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
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
