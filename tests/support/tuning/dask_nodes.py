"""A cluster of Dask on this machine, a process for each node. `DaskNodes` starts this file as a program.

The program loads everything once and forks: so a node starts in no time. A node that dies is started again, as a nanny does it.
Tests put files into a folder, and the functions that workers call look for them:

    kill-NAME       the first call of NAME kills its worker, and takes the file away
    kill-every-NAME each call of NAME kills its worker if a candidate's `about` has the text in the file
    hang-NAME       the first call of NAME never ends, takes the file away, and leaves a file `hanging`
    scheduler-NAME  the first call of NAME kills the scheduler, and takes the file away

NAME is `list_candidates`, `compile_candidates` or `measure_candidates`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any


class DaskNodes:
    """The scheduler is at `address`; hooks are files in `folder`."""

    def __init__(self, folder: Path, cache: Path, resources: list[str]) -> None:
        self.folder = folder
        command = [sys.executable, __file__, str(folder), *resources]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), "ANDIRON_CACHE": str(cache)}
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env)
        assert self._process.stdout is not None
        self.address = self._process.stdout.readline().strip()
        assert self.address.startswith("tcp://"), "the scheduler did not start"

    def close(self) -> None:
        """Ends all of it: its nodes end with it."""
        self._process.kill()
        self._process.communicate()


def _hooked(folder: Path, name: str, function: Any) -> Any:
    def taken(file: str) -> bool:
        try:
            (folder / file).unlink()
            return True
        except FileNotFoundError:
            return False

    def call(task: Any, *arguments: Any) -> Any:
        if taken(f"kill-{name}"):
            os.kill(os.getpid(), signal.SIGKILL)
        if taken(f"hang-{name}"):
            (folder / "hanging").touch()
            threading.Event().wait()
        if taken(f"scheduler-{name}"):
            os.kill(int((folder / "scheduler").read_text()), signal.SIGKILL)
        killer = folder / f"kill-every-{name}"
        candidates = arguments[:1] if not arguments or not isinstance(arguments[0], tuple) else arguments[0]
        if killer.exists() and any(killer.read_text() in c.about for c in candidates):
            os.kill(os.getpid(), signal.SIGKILL)
        return function(task, *arguments)

    return call


def _fork(node: Any) -> int:
    pid = os.fork()
    if pid:
        return pid
    parent = os.getppid()

    def leave_with_parent() -> None:
        while os.getppid() == parent:
            time.sleep(0.1)
        os._exit(0)

    threading.Thread(target=leave_with_parent, daemon=True).start()
    asyncio.run(node())
    os._exit(0)


def main(folder: Path, resources: list[str]) -> None:
    """Starts the nodes, and starts those that die again."""
    import dask  # nothing is loaded where `DaskNodes` is imported
    from andiron.runtime.tuning.cluster import remote_tasks
    from distributed import Scheduler, Worker

    for name in ("list_candidates", "compile_candidate", "measure_candidates"):
        hook = name.removesuffix("s") + "s"
        setattr(remote_tasks, name, _hooked(folder, hook, getattr(remote_tasks, name)))
    dask.config.set({"distributed.scheduler.allowed-failures": 0, "distributed.comm.timeouts.connect": "60s"})
    port = 0

    async def scheduler() -> None:
        async with Scheduler(host="127.0.0.1", port=port, dashboard=False) as node:
            (folder / "scheduler").write_text(str(os.getpid()))
            (folder / "address.new").write_text(node.address)
            (folder / "address.new").rename(folder / "address")
            await node.finished()

    def worker(resource: str) -> Any:
        async def run() -> None:
            name, _, count = resource.partition("=")
            address = (folder / "address").read_text()
            async with Worker(address, nthreads=1, resources={name: float(count)}, dashboard=False) as node:
                await node.finished()

        return run

    nodes: dict[int, Any] = {_fork(scheduler): scheduler}
    while not (folder / "address").exists():
        time.sleep(0.01)
    address = (folder / "address").read_text()
    port = int(address.rpartition(":")[2])
    print(address, flush=True)
    nodes |= {_fork(node): node for node in map(worker, resources)}
    while True:
        pid, _ = os.wait()
        node = nodes.pop(pid)
        nodes[_fork(node)] = node


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
