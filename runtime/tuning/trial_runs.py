"""`TrialRuns`: the trials of one op in a worker process, where they are checked against the reference and timed alternately."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...dsl.op import Op
from ..check_results import ExpectedResults
from ..gpu.device_code import DeviceCode
from ..random_inputs import random_inputs
from .racing import CUT_SHORT, first_limit, race
from .result import Trial
from .worker_client import WorkerClient, WorkerFailed

FIRST_CALL = 300.0  # seconds for the first call of the schedule as it was

Say = Callable[[str], None]


class TrialRuns:
    """Runs trials of an op at some sizes. Inputs are arrays, or random ones by a seed.

    sizes      the sizes that are fixed at compile time    dims  the values of all of them in these runs
    libraries  built code by the number of a trial, for trials that were built elsewhere
    """

    def __init__(
        self,
        op: Op,
        sizes: Mapping[str, int],
        dims: Mapping[str, int],
        threads: int | None,
        inputs: Sequence[np.ndarray] | None = None,
        seed: int = 0,
    ) -> None:
        self.op, self.sizes, self.dims, self.threads, self.inputs, self.seed = op, sizes, dims, threads, inputs, seed
        self.libraries: dict[int, bytes | DeviceCode] = {}
        self._loaded: set[int] = set()
        self._best = FIRST_CALL / 20  # seconds of a first call
        self._bench = WorkerClient(self._prepare)

    def expected(self) -> ExpectedResults:
        """What the reference says of the inputs."""
        inputs = self.inputs if self.inputs is not None else random_inputs(self.op, self.dims, self.seed)
        return ExpectedResults(self.op, inputs)

    def check(self, trials: Sequence[Trial], expected: ExpectedResults, deadline: float, say: Say) -> None:
        """Runs each trial once, and rejects those that fail or are wrong. The schedule as it was is run whatever the time."""
        for t in trials:
            if t.rejected:
                continue
            if t.number and time.monotonic() > deadline:
                t.reject("late", "the time was up")
                continue
            say(f"checking {t.number + 1} of {len(trials)}: {t.about}")
            self._check(t, expected)
            if not t.rejected:
                self._best = t.first if t.number == 0 else min(self._best, t.first)

    def race(self, trials: list[Trial], deadline: float, lead: Callable[[list[Trial], int], None]) -> bool:
        """Adds samples to the trials, see `racing`."""
        return race(self._bench, trials, self._load, deadline, lead)

    def drop(self, t: Trial) -> None:
        """Frees what the worker has of a trial. It is loaded again where it is needed."""
        if self._bench.alive and t.number in self._loaded:
            self._bench.ask("drop", t.number)
        self._loaded.discard(t.number)

    def close(self) -> None:
        """Ends the worker."""
        self._bench.close()

    def __enter__(self) -> TrialRuns:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check(self, t: Trial, expected: ExpectedResults) -> None:
        try:
            self._load(t)
            t.first, results = self._bench.ask("check", t.number, limit=first_limit(self._best) if t.number else FIRST_CALL)
        except WorkerFailed as error:
            t.reject(error.verdict, CUT_SHORT if error.late else str(error))
            return
        for outputs in results:
            verdict = expected.check(outputs)
            if not verdict.ok:
                t.reject("wrong", f"wrong: an error of {verdict.error:.3g}, {verdict.allowed:.3g} is allowed there")

    def _prepare(self, ask: Callable[..., Any]) -> None:
        self._loaded.clear()
        if self.inputs is not None:
            ask("take", list(self.inputs), limit=FIRST_CALL)
        else:
            ask("random", self.op, self.dims, self.seed, limit=FIRST_CALL)

    def _load(self, t: Trial) -> None:
        """Into the worker at hand, if it is not there."""
        if not self._bench.alive:
            self._loaded.clear()
        if t.number not in self._loaded:
            v = t.variant
            part = (v.program, v.source, v.schedule, v.target)
            library = self.libraries.get(t.number)
            self._bench.ask("load", t.number, self.op, [part], self.sizes, self.threads, [library])
            self._loaded.add(t.number)
