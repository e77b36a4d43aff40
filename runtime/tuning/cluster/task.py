"""`TuningTask`: an op at its sizes on a device, as text and numbers, and the parts of it that workers do.

PURE_DATA   A worker needs the package and nothing else. Programs and built code travel as bytes, which only a worker of the
            same version reads.
VERSIONS    Each task says who made it. A worker of another version refuses it in words.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from .... import __version__
from ....codegen.targets import target_of
from ....dsl.errors.run import VersionsDiffer
from ....dsl.module import Module
from ....dsl.op import Op
from ....dsl.text.print_node import format_node
from ...native import cpu_features
from ...native.detect_cpu import NAME, detect_cpu
from ...random_inputs import default_sizes
from ...storage.cache import key_of

if TYPE_CHECKING:
    from ...compile import CompileRequest

SAME_VERSION = "install the same version everywhere"
PROTOCOL = 1  # of what coordinators and workers send each other
Numbers = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Machine:
    """A machine that measures.

    identity     what tells the code for it from code for others    device  the text of its own device, for target `cpu`
    cores        how many it may use                                 host    its name
    """

    identity: str
    device: str
    cores: int
    host: str

    @staticmethod
    def here() -> Machine:
        """This one."""
        return Machine(cpu_features.identity(), detect_cpu(), cpu_features.usable_cores(), platform.node())


@dataclass(frozen=True)
class TuningTask:
    """What is to be tuned, and how.

    module, op  the text of a module, and the name of the op in it
    schedule    the text of the schedule whose open lines are filled in; None: the compiler's own
    target      the name of the target         threads  how many take part; None: all of the machine's cores
    given       sizes and parameters           dims     the values of all sizes in the measurements
    top         how many candidates            seconds  the time for measuring them
    seed        of random inputs               data     the hash of inputs that a user gave; "": they are random
    resolve     `CompileRequest.from_text`     machine  that measures, once that is known
    made_by     the version of Andiron, and that of the protocol
    trials      how many candidates in all, if more than `top`: those of a search outwards among them
    """

    module: str
    op: str
    schedule: str | None
    target: str
    threads: int | None
    given: Numbers
    dims: Numbers
    top: int
    seconds: float
    resolve: Callable[..., CompileRequest]
    seed: int = 0
    data: str = ""
    machine: Machine | None = None
    made_by: tuple[str, int] = (__version__, PROTOCOL)
    trials: int = 0

    @property
    def key(self) -> str:
        """The hash of what is asked. Two tasks with the same key are one: a longer search goes on where a shorter one ended."""
        return key_of(
            "task", *self.made_by, self.module, self.op, self.schedule, self.target, self.threads, self.given, self.dims,
            self.top, self.seed, self.data,
        )  # fmt: skip

    def request(self) -> CompileRequest:
        """What it asks of the compiler, for the machine that measures, wherever this is called. VERSIONS"""
        check_version(self)
        return _request(self)

    @property
    def place(self) -> int:
        """Which of the request's schedules it is about: its own, or the compiler's, which is the last."""
        return len(self.request().schedules) - 1 if self.schedule is None else 0

    def __str__(self) -> str:
        sizes = ", ".join(f"{n}={v}" for n, v in self.given)
        threads = f", threads {self.threads}" if self.threads else ""
        return f"{self.op}{': ' if sizes else ''}{sizes}; {self.target}{threads}"


def check_version(task: TuningTask) -> None:
    """VERSIONS. Raises VersionsDiffer."""
    theirs, mine = getattr(task, "made_by", ("of another time", 0)), (__version__, PROTOCOL)
    if theirs != mine:
        host = Machine.here().host
        raise VersionsDiffer(
            f"the worker on {host} has Andiron {version_text(mine)}, and the task is of {version_text(theirs)}",
            help=SAME_VERSION,
        )


def version_text(made_by: tuple[Any, ...]) -> str:
    """A version with that of the protocol, for people."""
    return f"{made_by[0]} (protocol {made_by[1]})"


def machine_kind(task: TuningTask) -> str:
    """The kind of machine that code which is built here for the task runs on."""
    target = task.request().target
    if target.family.launcher == "driver":
        return target.arch
    return cpu_features.identity() if target.device is None else cpu_features.architecture()


@lru_cache(maxsize=16)
def _request(task: TuningTask) -> CompileRequest:
    """For the target `cpu` the compiler is told of the machine that measures, which may not be the one that compiles."""
    text, target, threads = task.module, task.target, task.threads
    machine = task.machine
    if target == "cpu" and machine is not None:
        text, target, threads = f"{text}\n{machine.device}", NAME, threads or machine.cores
    schedule = "auto" if task.schedule is None else task.schedule
    found = task.resolve(text, task.op, schedule, target, threads, dict(task.given))
    return found if target == task.target else replace(found, target=target_of(task.target))


def task_of(
    request: CompileRequest,
    place: int,
    top: int,
    seconds: float,
    dims: dict[str, int] | None = None,
    data: str = "",
    trials: int = 0,
) -> TuningTask:
    """The task of tuning one of the request's schedules, measured at `dims`."""
    op, base = request.op, request.schedules[place]
    measured = default_sizes(op, request.sizes) if dims is None else dims
    schedule = format_node(base) if base is not None else None
    return TuningTask(
        module_text(request.module, op.name), op.name, schedule, request.target.name,
        request.threads, _numbers(op, request.given), _numbers(op, measured), top, seconds, type(request).from_text,
        data=data, trials=trials,
    )  # fmt: skip


def module_text(module: Module, op: str) -> str:
    """What the module declares or imports, as one text. Without schedules, other ops do not matter."""
    alone = not module.schedules and not module.strategies
    decls = (d for (kind, name), d in module.declared.items() if kind != "op" or name == op or not alone)
    return "\n".join(format_node(d) for d in decls)


def _numbers(op: Op, values: Mapping[str, int]) -> Numbers:
    """In the order of the op, whatever the order was in which somebody gave them."""
    order = [v.name for v in op.dims]
    names = sorted(values, key=lambda name: (order.index(name) if name in order else len(order), name))
    return tuple((name, int(values[name])) for name in names)
