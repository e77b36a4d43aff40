"""The cache of built kernels: a folder of entries, each written once under a hash of everything it depends on.

    ROOT/entries/<key>/      the files of an entry, and `entry.json`: the size and hash of each, the time of its build, its kind
    ROOT/building/<random>/  an entry that is being built; renamed into place when complete
    ROOT/zig/                the packaged compiler's own cache (its runtime library, built at its first use)
    ROOT/locks/<xx>          locked while an entry is built, so that several processes do not build the same one
    ROOT/locks/bytes         how many bytes the entries have, or more; locked while that is changed

ATOMIC     An entry is a folder renamed into place, so it exists completely or not at all; a killed process leaves only
           a folder in `building`, swept after an hour.
CHECKED    `get` compares sizes and hashes with `entry.json`, and that with its own. An entry that does not match is removed,
           with a note, and built again.
TRUSTED    Nothing is taken from a folder that others may write, or from a file of theirs (`trust.py`).
BOUNDED    Above the limit the entries unused for longest go. The time of use is the modification time of `entry.json`,
           set at each use, because systems need not record access times. Entries are looked through only where their
           bytes may be above the limit: all processes add what they write to one sum, and looking through sets it right.
NEVER_FATAL A folder that cannot be written or trusted is replaced by a temporary one for this process, with one warning. One
           that vanishes is created again.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ...dsl.support.amounts import bytes_text
from ...dsl.support.forks import ForkLock
from ...dsl.support.printable import printable
from .cache_entry import CacheEntry, entries_of, fault_of, fingerprint, folders, read_record, record_hash
from .trust import close_to_others, folder_fault, others_can_write

LIMIT = 1 << 30  # bytes, unless ANDIRON_CACHE_LIMIT says otherwise
_STALE = 3600.0  # seconds after which a folder in `building` belongs to nobody
_OURS = ("entries", "building", "locks", "zig")  # what `clear` may remove: the folder may be shared with others
_KEPT = 0.9  # share of the limit that the entries which stay may have, so that not each new one makes others go [estimate]
_PATIENCE = 60.0  # seconds to wait for another process that builds the same entry, before building it as well


def key_of(*parts: object) -> str:
    """The hash of everything an entry depends on. Parts are told apart by their lengths, so no two lists collide."""
    digest = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode()
        digest.update(f"{len(data)}:".encode())
        digest.update(data)
    return digest.hexdigest()[:40]


def default_root() -> Path:
    """ANDIRON_CACHE, or the platform's folder for caches of this user."""
    named = os.environ.get("ANDIRON_CACHE")
    if named:
        return _absolute(named)
    if sys.platform == "darwin":
        return _absolute("~/Library/Caches/andiron")
    if sys.platform == "win32":
        return _absolute(os.environ.get("LOCALAPPDATA", "~/AppData/Local")) / "andiron" / "cache"
    base = os.environ.get("XDG_CACHE_HOME", "")
    return _absolute(base if os.path.isabs(base) else "~/.cache") / "andiron"


def _absolute(named: str) -> Path:
    """Where a name leads when it is first used: later the process may work in another folder."""
    found = _places.get(named)
    if found is None:
        whole = os.path.expanduser(named)
        try:
            found = Path(os.path.abspath(whole))
        except OSError:  # a relative name, and the folder that the process works in is gone
            found = Path(tempfile.gettempdir(), "andiron", whole)
        if whole.startswith("~"):  # a user without a home
            found = Path(tempfile.gettempdir(), f"andiron-{os.getuid() if hasattr(os, 'getuid') else 'cache'}")
        found = _places.setdefault(named, found)
    return found


_places: dict[str, Path] = {}


def _limit() -> int:
    """ANDIRON_CACHE_LIMIT in bytes. What cannot be read is told once."""
    text = os.environ.get("ANDIRON_CACHE_LIMIT", "").strip()
    found = _AMOUNT.fullmatch(text)
    if found:
        return int(float(found[1]) * 1024 ** " KMGT".index(found[2].upper() or " "))
    if text and text not in _told:
        _told.add(text)
        meant = f"a number of bytes, or one with K, M, G or T, as 500M or 1.5G: the limit is {bytes_text(LIMIT)}"
        warnings.warn(f"ANDIRON_CACHE_LIMIT is `{printable(text[:40])}`, and not {meant}", RuntimeWarning, stacklevel=4)
    return LIMIT


# `500M` and `500 MiB` are the same: 1024 times 1024 bytes each.
_AMOUNT = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,15})?) ?([KMGT]?)(?:i?B)?", re.ASCII | re.IGNORECASE)
_told: set[str] = set()


class Cache:
    """One cache folder. Methods raise no OSError for a folder that is missing, read-only or full."""

    def __init__(self, root: Path | None = None, limit: int | None = None) -> None:
        self.root = root or default_root()
        self.limit = _limit() if limit is None else limit
        self._spare: Path | None = None  # the temporary folder, once the root turned out not to be writable, or trusted
        self._trusted: bool | None = None  # the root; None: not looked at yet
        self._lock = ForkLock()

    def get(self, key: str) -> CacheEntry | None:
        """The entry, checked against its record; None when there is none, or none that is sound."""
        for root in self._roots():
            entry = read_record(root / "entries" / key)
            if entry is None:
                continue
            fault = fault_of(entry)
            if fault is None:
                with suppress(OSError):
                    os.utime(entry.path / "entry.json")
                return entry
            if _discard(root, entry.path) and fault:
                warnings.warn(f"the cache entry {entry.path} {fault}: it was removed", RuntimeWarning, stacklevel=2)
        return None

    def get_or_make(self, key: str, make: Callable[[Path], dict[str, Any]]) -> tuple[CacheEntry, bool]:
        """The entry, made by `make(folder)` if it is not there, and whether it was. `make` returns the entry's `info`."""
        found = self.get(key)
        if found:
            return found, False
        root = self._root()
        with _lock(root / "locks" / key[:2]):
            found = self.get(key)  # another process may have made it while this one waited
            if found:
                return found, False
            try:
                return self._make_here(root, key, make), True
            except Exception as error:
                # A full disk shows as an OSError of ours, or as a compiler that could not write. Only in those cases is
                # another folder worth a try.
                if root == self._spare or (not isinstance(error, OSError) and _can_write(root, 1 << 20)):
                    raise
                reason = error if isinstance(error, OSError) else "no space left, or no permission"
                return self._make(self._give_up(*self._not_written(reason)), key, make), True

    def put(self, key: str, make: Callable[[Path], dict[str, Any]]) -> CacheEntry:
        """The entry made anew by `make(folder)`, in the place of the one that may be there: the last to write counts."""
        root = self._root()
        with _lock(root / "locks" / key[:2]):
            try:
                return self._make_here(root, key, make, anew=True)
            except OSError as error:
                if root == self._spare:
                    raise
                return self._make(self._give_up(*self._not_written(error)), key, make, anew=True)

    def _make_here(self, root: Path, key: str, make: Callable[[Path], dict[str, Any]], anew: bool = False) -> CacheEntry:
        """As `_make`, once more where somebody removed what was being made."""
        try:
            return self._make(root, key, make, anew)
        except _Vanished:
            return self._make(root, key, make, anew)

    def _make(self, root: Path, key: str, make: Callable[[Path], dict[str, Any]], anew: bool = False) -> CacheEntry:
        for name in ("", "entries", "building"):
            _own_folder(root / name)
        folder = Path(tempfile.mkdtemp(dir=root / "building"))
        try:
            self._fill(folder, key, make)
            target = root / "entries" / key
            try:
                os.rename(folder, target)
            except OSError:
                # Somebody else's entry is in place. Theirs is as good when it is sound.
                theirs = read_record(target)
                if anew or theirs is None or fault_of(theirs) is not None:
                    _discard(root, target)
                    os.rename(folder, target)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        entry = read_record(target)
        if entry is None:
            raise OSError(f"the cache entry {target} vanished as it was made")
        self._bound(root, entry)
        return entry

    def _fill(self, folder: Path, key: str, make: Callable[[Path], dict[str, Any]]) -> None:
        try:
            info = make(folder)
            files = {p.name: fingerprint(p) for p in sorted(folder.iterdir())}
            record = {"key": key, "made": time.time(), "files": files, "info": info}
            (folder / "entry.json").write_text(json.dumps(record | {"sum": record_hash(record)}, indent=1), encoding="utf-8")
            for path in folder.iterdir():
                close_to_others(path)
        except Exception as error:
            if not folder.is_dir():
                raise _Vanished(f"{folder} was removed while it was written") from error
            raise

    def folder(self, name: str) -> Path:
        """A folder for a tool's own cache, beside the entries: not bounded, but cleared with them."""
        return _own_folder(self._root() / name)

    def entries(self) -> list[CacheEntry]:
        """All entries, the one used last first."""
        return sorted(entries_of(self.root), key=lambda e: -e.used)

    def clear(self, kind: str | None = None) -> tuple[int, int]:
        """Removes everything, or the entries of one kind; how many entries that was, and how many bytes."""
        found = [e for e in self.entries() if kind is None or e.info.get("kind") == kind]
        for entry in found:
            _discard(self.root, entry.path)
        for name in _OURS if kind is None else ():
            shutil.rmtree(self.root / name, ignore_errors=True)
        return len(found), sum(e.bytes for e in found)

    def _bound(self, root: Path, entry: CacheEntry) -> None:
        """BOUNDED, and sweeps what killed processes left."""
        for left in folders(root / "building"):
            with suppress(OSError):
                if time.time() - left.stat().st_mtime > _STALE:
                    shutil.rmtree(left, ignore_errors=True)
        record = root / "locks" / "bytes"
        with _lock(record):
            total = _number_in(record)
            if total is not None and total + entry.bytes <= self.limit:
                total += entry.bytes
            else:
                total = self._evict(root, entry)
            with suppress(OSError):
                record.write_text(str(total), encoding="ascii")

    def _evict(self, root: Path, keep: CacheEntry) -> int:
        """BOUNDED. How many bytes are left."""
        found = sorted(entries_of(root), key=lambda e: e.used)
        total = sum(e.bytes for e in found)
        least = self.limit if total <= self.limit else _KEPT * self.limit
        for entry in found:
            if total > least and entry.key != keep.key:
                _discard(root, entry.path)
                total -= entry.bytes
        return total

    def _root(self) -> Path:
        """Where new entries go: the root, or the temporary folder when the root cannot be written."""
        if self._spare or not self._is_trusted():
            return self._private()
        try:
            _own_folder(self.root)
            with tempfile.TemporaryFile(dir=self.root):
                return self.root
        except OSError as error:
            return self._give_up(*self._not_written(error))

    def _roots(self) -> list[Path]:
        """Where entries may be taken from."""
        return [*([self.root] if self._is_trusted() else []), *([self._private()] if self._spare else [])]

    def _not_written(self, reason: object) -> tuple[str, str]:
        return f"the cache folder {self.root} cannot be written ({reason})", "ANDIRON_CACHE names another folder"

    def _is_trusted(self) -> bool:
        """TRUSTED. Looked at once: only those who are trusted can change it."""
        if self._trusted is None:
            why = folder_fault(self.root)
            if why is not None:
                self._give_up(f"nothing is loaded from the cache folder {self.root}, as code in it would be run", why)
            self._trusted = why is None
        return self._trusted

    def _give_up(self, reason: str, way_out: str) -> Path:
        """NEVER_FATAL."""
        with self._lock.held():
            if self._spare is None:
                said = f"{reason}; kernels built by this process are not kept: {way_out}"
                warnings.warn(said, RuntimeWarning, stacklevel=3)
            return self._private()

    def _private(self) -> Path:
        """The temporary folder; a new one, if it was removed: whoever made one of that name since may not be of us."""
        with self._lock.held():
            with suppress(OSError):
                if self._spare is not None and not others_can_write(self._spare):
                    return self._spare
            self._spare = _spare_folder()
            return self._spare


class _Vanished(OSError):
    """What was being made was removed by somebody."""


def _spare_folder() -> Path:
    """A new one for this process alone, removed at its end. A forked child leaves it to its parent."""
    path, process = Path(tempfile.mkdtemp(prefix="andiron-")), os.getpid()
    atexit.register(lambda: shutil.rmtree(path, ignore_errors=True) if os.getpid() == process else None)
    return path


_shared: dict[Path, Cache] = {}


def cache() -> Cache:
    """The cache of this process. It follows ANDIRON_CACHE as it is now."""
    root = default_root()
    return _shared.get(root) or _shared.setdefault(root, Cache(root))


def _own_folder(path: Path) -> Path:
    """Made if need be, so that nobody else may write it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(mode=0o700, exist_ok=True)
    return path


def _discard(root: Path, folder: Path) -> bool:
    """Renamed first, so that nobody reads half an entry. Whether it was there to be removed."""
    try:
        _own_folder(root / "building")
        away = Path(tempfile.mkdtemp(dir=root / "building"))
        os.rename(folder, away)  # onto an empty folder
        shutil.rmtree(away, ignore_errors=True)
        return True
    except OSError:
        return False


def _number_in(path: Path) -> int | None:
    """None where nobody has written one."""
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def _can_write(root: Path, size: int) -> bool:
    try:
        with tempfile.TemporaryFile(dir=root) as file:
            file.write(b"\0" * size)
            file.flush()
        return True
    except OSError:
        return False


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Held while the block runs. Freed by the system when the process dies; where there are no locks, nothing is held."""
    try:
        import fcntl

        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except (ImportError, OSError):
        yield
        return
    try:
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                time.sleep(0.01)
        yield
    finally:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_UN)  # closing it is not enough where a process was forked meanwhile
        os.close(handle)
