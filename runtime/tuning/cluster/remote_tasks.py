"""What workers do for a `TuningTask`: each function takes pure data and gives pure data, wherever it is called.

A mistake of the user's is raised as it is: it would be the same elsewhere. A candidate that cannot be compiled, or is wrong, is
an answer. What else is raised is a fault of the worker, and the call is done again.
"""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from ....dsl import syntax
from ....dsl.errors import AndironError
from ....dsl.errors.target import NoCompiler
from ....dsl.text.parser import parse_schedule
from ....dsl.text.print_node import format_node
from ...gpu.device_code import DeviceCode
from ...native import cpu_features
from ...native.build_library import NativeLibrary
from ...variant import Variant
from ..candidates import tuning_candidates
from ..database.describe import fingerprint_of, toolchain_of
from ..learn.model_store import LearnedModel
from ..learn.order_candidates import ordered_candidates
from ..measurable import why_not_measured
from ..result import Trial
from ..trial_runs import TrialRuns
from ..trials import candidate_limit, prediction, refusal_text
from .candidates import CompiledCandidate, MeasuredBatch, MeasuredCandidate, TaskCandidate
from .task import Machine, TuningTask, check_version, machine_kind

if TYPE_CHECKING:
    from ...compile import CompileRequest


def describe_machine(task: TuningTask) -> tuple[Machine, str]:
    """The machine of a worker that measures, and its fingerprint for the task.

    Raises VersionsDiffer, NoDevice, CannotTune.
    """
    check_version(task)
    machine = Machine.here()
    request = replace(task, machine=machine).request()
    refusal = why_not_measured(request)
    if refusal is not None:
        raise refusal
    return machine, fingerprint_of(request)


def list_candidates(task: TuningTask, model: LearnedModel | None = None) -> tuple[TaskCandidate, ...]:
    """The candidates of the task, the best first; more than are measured, since some cannot be compiled, or are alike.

    model  orders them, where the worker has the package that it needs

    Raises the diagnostics of the task's texts, CannotTune, VersionsDiffer.
    """
    request = task.request()
    found = list(islice(tuning_candidates(request, task.place), candidate_limit(task.top)))
    if model is not None:
        found = ordered_candidates(request, model, dict(task.dims), found)
    return tuple(
        TaskCandidate(
            format_node(c.schedule) if number else None,
            tuple(sorted(values.items())),
            c.about,
            c.seconds,
            c.bound,
        )
        for number, (c, values) in enumerate(found)
    )


def compile_candidate(task: TuningTask, candidate: TaskCandidate) -> CompiledCandidate:
    """The candidate as source code, built if this machine can build for the one that measures. Raises VersionsDiffer."""
    request = task.request()
    try:
        variant = request.variant(_schedule(request, task, candidate), dict(candidate.values))
    except MemoryError:
        raise
    except Exception as error:
        if candidate.schedule is None:
            raise
        return CompiledCandidate(candidate.about, refused=refusal_text(error))
    predicted, bound = candidate.predicted, candidate.bound
    if predicted is None:
        predicted, bound = prediction(request, variant, dict(task.dims))
    made = CompiledCandidate(candidate.about, predicted, bound, variant.schedule, variant.source)
    try:
        library, kind, toolchain = _built(task, request, variant)
    except AndironError as error:
        return replace(made, refused=f"not built: {str(error).splitlines()[0]}")
    return replace(made, code=pickle.dumps((variant.program, library)), built_for=kind, toolchain=toolchain)


def outline_candidate(task: TuningTask, candidate: TaskCandidate, program: bool = False) -> CompiledCandidate:
    """The candidate as source code, with a prediction, and not built. Raises VersionsDiffer.

    program  whether the tile program is wanted
    """
    request = task.request()
    try:
        variant = request.variant(_schedule(request, task, candidate), dict(candidate.values))
    except MemoryError:
        raise
    except Exception as error:
        return CompiledCandidate(candidate.about, refused=refusal_text(error))
    predicted, bound = prediction(request, variant, dict(task.dims))
    code = pickle.dumps((variant.program, None)) if program else b""
    return CompiledCandidate(candidate.about, predicted, bound, variant.schedule, variant.source, code)


def _schedule(request: CompileRequest, task: TuningTask, candidate: TaskCandidate) -> syntax.ScheduleDecl | None:
    base = request.schedules[task.place]
    if candidate.schedule is None:
        return base
    return replace(parse_schedule(candidate.schedule), where=base.where if base is not None else ())


def _built(task: TuningTask, request: CompileRequest, variant: Variant) -> tuple[bytes | DeviceCode | None, str, str]:
    """The library, the kind of machine it is for, and its compiler; nothing where this machine cannot build it."""
    target, machine = request.target, task.machine
    elsewhere = target.device is None and machine is not None and machine.identity != cpu_features.identity()
    if target.family.launcher != "driver" and (elsewhere or cpu_features.missing(target.machine)):
        return None, "", ""
    try:
        library = variant.load()
    except NoCompiler:
        return None, "", ""
    data = library.path.read_bytes() if isinstance(library, NativeLibrary) else library
    return data, machine_kind(task), toolchain_of(request)


def measure_candidates(
    task: TuningTask,
    candidates: Sequence[CompiledCandidate],
    inputs: Sequence[np.ndarray] | None = None,
    seconds: float | None = None,
) -> MeasuredBatch:
    """Checks and times the candidates in a process of their own, alternately.

    inputs   arrays to measure with; None: random ones
    seconds  the time for it; None: that of the task

    Raises VersionsDiffer, NoDevice, MemoryError, OSError, and what building raises for want of a compiler.
    """
    request = task.request()
    found = [c.trial(task, number) for number, c in enumerate(candidates)]
    trials = [trial for trial, _ in found]
    toolchains = [c.toolchain for c in candidates]
    with TrialRuns(request.op, request.sizes, dict(task.dims), request.threads, inputs, task.seed) as runs:
        runs.libraries = {trial.number: library for trial, library in found if library is not None}
        _build_missing(request, [t for t in trials if t.number not in runs.libraries], toolchains)
        expected = runs.expected()
        began = time.monotonic()
        deadline = began + (task.seconds if seconds is None else seconds)
        runs.check(trials, expected, deadline, _go_on)
        if any(not t.rejected for t in trials):
            runs.race(trials, deadline, _go_on)
        took = time.monotonic() - began
    for t in trials:
        if t.verdict == "unable":
            raise MemoryError(t.rejected)
        if not t.samples and not t.rejected:
            t.reject("late", "not timed: no time was left")
    return MeasuredBatch(
        tuple(
            MeasuredCandidate(t.schedule, t.verdict, tuple(t.samples), t.rejected, toolchain)
            for t, toolchain in zip(trials, toolchains, strict=True)
        ),
        expected.note,
        fingerprint_of(request),
        Machine.here().host,
        took,
    )


_interrupted = threading.Event()


def interrupt_here(on: bool) -> None:
    """Whether measurements by threads of this process end soon: its own search was interrupted, and nobody wants them."""
    _interrupted.set() if on else _interrupted.clear()


def _go_on(*_: object) -> None:
    if _interrupted.is_set():
        raise CancelledError("interrupted")


def _build_missing(request: CompileRequest, trials: list[Trial], toolchains: list[str]) -> None:
    """Builds what was not built elsewhere, in parallel: nothing is timed meanwhile."""
    if not trials:
        return
    here = toolchain_of(request)
    with ThreadPoolExecutor(cpu_features.usable_cores()) as pool:
        builds: list[Any] = [pool.submit(t.variant.load) for t in trials]
        for t, build in zip(trials, builds, strict=True):
            toolchains[t.number] = here
            try:
                build.result()
            except NoCompiler:
                raise
            except AndironError as error:
                t.reject("failed to build", f"not built: {str(error).splitlines()[0]}")
