"""`tune_remotely`: as `search.tune`, with candidates that are compiled and measured by workers of an executor."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ....codegen.targets import Target
from ....dsl.errors import AndironError
from ....dsl.errors.run import CannotTune, NothingRight
from ....dsl.support.amounts import counted
from ...arrays.bind_sizes import bind_sizes
from ...native import cpu_features
from ...random_inputs import default_sizes
from ...variant import with_variant
from ..database.open_database import open_database
from ..result import Trial, Tuning
from ..trials import expect_budget
from ..tuning_store import TunedRecord, load_record, store_record
from .campaign import Campaign
from .candidates import TaskCandidate
from .open_engine import open_engine
from .task import Machine, task_of
from .task_run import TaskRun, inputs_key

if TYPE_CHECKING:
    from ...compile import CompileRequest
    from ...kernel import Kernel


def tune_remotely(
    kernel: Kernel,
    arrays: Sequence[Any],
    top: int,
    seconds: float,
    say: Callable[[str], None] | None,
    store: bool,
    executor: Any,
    database: str | os.PathLike[str] | None = None,
    trials: int | None = None,
) -> Tuning:
    """See `Kernel.tune`."""
    expect_budget(top, seconds, trials)
    if kernel.request is None:
        raise CannotTune(f"{kernel!r} was loaded from a file", help="tune the kernel that `andiron.compile` makes")
    inputs = kernel.host(arrays) if arrays else None
    if inputs is not None:
        given = bind_sizes(kernel.op, [x.shape for x in inputs], kernel.sizes)
        dims = {v.name: given[v.name] for v in kernel.op.dims}
    else:
        dims = default_sizes(kernel.op, kernel.sizes)
    sizes = kernel.op.all_sizes(dims)
    place = next((i for i, v in enumerate(kernel.variants) if v.refusal(sizes) is None), 0)
    task = task_of(kernel.request, place, top, seconds, dims, inputs_key(inputs), trials or 0)
    run = TaskRun(task, kernel.request, place, inputs=inputs, before=found_before(kernel.request, place), reuse=False)
    engine = open_engine(executor)
    started = time.monotonic()
    try:
        campaign = Campaign(engine, [run], open_database(database) if store else None, say or (lambda _: None))
        campaign.watch = partial(_tell, run, say or (lambda _: None))
        campaign.run()
    finally:
        engine.close()
    if campaign.failed is not None:
        raise campaign.failed
    if run.state == "failed" or not any(t.samples for t in run.trials):
        raise _failure(kernel, run, campaign.stopped)
    return _conclude(kernel, run, sizes, time.monotonic() - started, campaign.stopped, store)


def found_before(request: CompileRequest, place: int) -> tuple[TaskCandidate, ...]:
    """What an earlier search found takes part, so that tuning again loses nothing."""
    found = load_record(request)
    if found is None or found.schedule is None or found.place != place:
        return ()
    return (TaskCandidate(found.schedule, (), f"found before, {found.date}"),)


def record_of(run: TaskRun, asked: int) -> TunedRecord:
    """What the cache keeps of a run that has measurements."""
    assert run.best is not None
    return TunedRecord.of(run.trials, run.best, run.place, asked, run.request.op.all_sizes(dict(run.task.dims)))


def store_run(run: TaskRun, asked: int) -> bool:
    """Stores the result for this machine if it was measured on such a one. Whether it was."""
    if not measured_on_such(run.task.machine, run.request.target, run.task.threads):
        return False
    store_record(run.request, record_of(run, asked))
    return True


def measured_on_such(machine: Machine | None, target: Target, threads: int | None) -> bool:
    """Whether what a machine measured holds for this one."""
    if target.family.launcher == "driver":
        return True
    cores = cpu_features.usable_cores()
    return (
        machine is not None and machine.identity == cpu_features.identity() and (threads or machine.cores) == (threads or cores)
    )


def _tell(run: TaskRun, say: Callable[[str], None], _: Campaign) -> None:
    measured = sum(1 for t in run.trials if t.verdict)
    say(f"{run.state}: {counted(len(run.accepted), 'candidate')} compiled, {measured} measured")


def _failure(kernel: Kernel, run: TaskRun, stopped: str) -> BaseException:
    if stopped:
        return KeyboardInterrupt()
    if isinstance(run.error, AndironError):
        return run.error
    return NothingRight(f"no candidate for {kernel!r} was measured: {run.reason}")


def _conclude(kernel: Kernel, run: TaskRun, sizes: dict[str, int], took: float, stopped: str, store: bool) -> Tuning:
    """The kernel goes on with the winner."""
    asked = 0 if stopped else run.task.top
    # What an earlier search has measured is not compiled again, but for the fastest.
    trials = {t.number: _trial(run, t.number) for t in run.trials if run.accepted[t.number].code}
    found = run.best
    assert found is not None
    best = trials.get(found.number) or trials[0]
    stored = store and store_run(run, asked)
    kernel.adopt(with_variant(kernel.variants, run.place, best.variant), record_of(run, asked))
    threads = kernel.threads if run.request.target.family.launcher == "ctypes" else None
    return Tuning(
        kernel.op.name, kernel.target, threads, sizes, tuple(trials.values()), best, took, tuple(run.refused), stopped,
        stored, run.note,
    )  # fmt: skip


def _trial(run: TaskRun, number: int) -> Trial:
    measured = run.trials[number]
    trial, _ = run.accepted[number].trial(run.task, number)
    trial.samples = list(measured.samples)
    if measured.rejected:
        trial.reject(measured.verdict, measured.rejected)
    return trial
