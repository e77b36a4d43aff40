"""An entry of the cache in its folder: its description, and whether its files match it (CHECKED, see `cache.py`)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .trust import others_can_write


@dataclass(frozen=True)
class CacheEntry:
    """An entry in place: `path` is its folder, `info` what its maker said of it, `used` in seconds since the epoch."""

    key: str
    path: Path
    bytes: int
    used: float
    info: dict[str, Any]


def fingerprint(path: Path) -> list[Any]:
    data = path.read_bytes()
    return [len(data), hashlib.sha256(data).hexdigest()]


def folders(path: Path) -> list[Path]:
    try:
        return [p for p in path.iterdir() if p.is_dir()]
    except OSError:
        return []


def entries_of(root: Path) -> Iterator[CacheEntry]:
    return (e for e in map(read_record, folders(root / "entries")) if e is not None)


def read_record(folder: Path) -> CacheEntry | None:
    """What `entry.json` says, unchecked. A folder without a readable one counts as an unsound entry of no bytes."""
    record = folder / "entry.json"
    try:
        stat = folder.stat()
    except OSError:
        return None
    try:
        stat = record.stat()
        said = json.loads(record.read_text(encoding="utf-8"))
        size = sum(int(n) for n, _ in said["files"].values())
        return CacheEntry(folder.name, folder, size, stat.st_mtime, dict(said["info"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return CacheEntry(folder.name, folder, 0, stat.st_mtime, {})


def fault_of(entry: CacheEntry) -> str | None:
    """CHECKED, TRUSTED: what is wrong with an entry; "" where that is nothing to tell, None where all is well."""
    try:
        record = json.loads((entry.path / "entry.json").read_bytes())
        files = record["files"]
        if "sum" not in record:
            return ""  # of an earlier version
        if record.pop("sum") != record_hash(record) or any(
            fingerprint(entry.path / name) != said for name, said in files.items()
        ):
            return "is damaged"
        if any(map(others_can_write, (entry.path, entry.path / "entry.json", *(entry.path / name for name in files)))):
            return "could have been written by others"
        return None
    except FileNotFoundError:
        return "is damaged" if entry.path.exists() else ""
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return "is damaged"


def record_hash(record: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()
