"""`tune`: candidates for a kernel's schedule are built, checked and timed; the fastest is used from then on, and stored."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from typing import TYPE_CHECKING, Any

import numpy as np

from ...dsl.errors import AndironError, UserError
from ...dsl.errors.run import CannotTune, NothingRight
from ...dsl.support.amounts import seconds_text
from ..arrays.bind_sizes import bind_sizes
from ..native import cpu_features
from ..random_inputs import default_sizes
from ..variant import with_variant
from .candidates import leaves_all_open
from .database.record_trials import record_trials
from .evolution.evolve import Evolution
from .evolution.generations import FIRST_SHARE
from .learn.ranker import Ranker, ranker_for
from .measurable import why_not_measured
from .racing import ROUNDS, winner
from .result import Trial, Tuning
from .trial_runs import Say, TrialRuns
from .trials import expect_budget, prediction, trials_for
from .tuning_store import TunedRecord, load_record, store_record

if TYPE_CHECKING:
    from ..kernel import Kernel

_BUILDING = 0.6  # of the time may pass until all are built


def tune(
    kernel: Kernel,
    arrays: Sequence[Any] = (),
    top: int = 10,
    seconds: float = 60.0,
    say: Say | None = None,
    store: bool = True,
    executor: Any = None,
    trials: int | None = None,
) -> Tuning:
    """See `Kernel.tune`."""
    if executor is not None:
        from .cluster.tune_remotely import tune_remotely

        return tune_remotely(kernel, arrays, top, seconds, say, store, executor, trials=trials)
    expect_budget(top, seconds, trials)
    search = Search(kernel, arrays, top, say or (lambda _: None), store, trials or 0)
    stopped = ""
    started = time.monotonic()
    try:
        search.run(started + seconds)
        if time.monotonic() > started + seconds:
            stopped = f"the time is up ({seconds_text(seconds)})"
    except KeyboardInterrupt:
        if not any(t.samples for t in search.trials):
            raise
        stopped = "interrupted"
    finally:
        search.close()
    return search.conclude(time.monotonic() - started, stopped)


def why_not(kernel: Kernel) -> UserError | None:
    """Why candidates for this kernel cannot be measured here; None: they can."""
    if kernel.request is None:
        return CannotTune(f"{kernel!r} was loaded from a file", help="tune the kernel that `andiron.compile` makes")
    return why_not_measured(kernel.request)


class Search:
    """One search. `trials` fills as it goes; whatever is in it when it is cut off counts.

    limit  how many trials there may be, if more than `top`: then a search outwards follows
    """

    def __init__(self, kernel: Kernel, arrays: Sequence[Any], top: int, say: Say, store: bool, limit: int = 0) -> None:
        refusal = why_not(kernel)
        if refusal is not None:
            raise refusal
        assert kernel.request is not None
        self.kernel, self.request, self.top, self.say, self.store = kernel, kernel.request, top, say, store
        self.limit, self.ended = limit, ""
        op = kernel.op
        self.inputs: list[np.ndarray] | None = kernel.host(arrays) if arrays else None
        if self.inputs is not None:
            given = bind_sizes(op, [x.shape for x in self.inputs], kernel.sizes)
            self.dims = {v.name: given[v.name] for v in op.dims}
        else:
            self.dims = default_sizes(op, kernel.sizes)
        self.sizes = op.all_sizes(self.dims)
        self.place = self._place()
        self.trials: list[Trial] = []
        self.refused: list[tuple[str, str]] = []
        self.note = ""
        self.ranker: Ranker | None = None
        self._lead: Trial | None = None
        self._evolution: Evolution | None = None
        self._runs = TrialRuns(op, kernel.sizes, self.dims, kernel.threads, self.inputs)
        self._pool = ThreadPoolExecutor(cpu_features.usable_cores())

    def _place(self) -> int:
        """Which of the request's schedules is the one at these sizes."""
        variants = self.kernel.variants
        return next((i for i, v in enumerate(variants) if v.refusal(self.sizes) is None), 0)

    # ------------------------------------------------------------ steps

    def run(self, deadline: float) -> None:
        """Candidates are compiled to text and built meanwhile; then checked; then timed in turns."""
        builds: dict[int, Future[Any]] = {}

        def build(t: Trial) -> None:
            builds[t.number] = self._pool.submit(t.variant.load)

        searches = self.limit > self.top and leaves_all_open(self.request.schedules[self.place])
        now = time.monotonic()
        first = now + (FIRST_SHARE if searches else 1.0) * (deadline - now)
        # What is not built by then would leave no time to measure the others.
        ready = now + _BUILDING * (first - now)
        self.ranker, how = ranker_for(self.request, None, self.dims)
        self.say(how)
        trials, self.refused = trials_for(self.request, self.place, self.top, self.dims, self.say, build, ready, self.ranker)
        self._remember(trials, build)
        self.say("the reference")
        expected = self._runs.expected()
        self.note = "; ".join(x for x in (expected.note, how if self.ranker is not None else "") if x)
        self.trials = trials
        for t in trials:
            self._built(t, builds[t.number], ready)
        self._runs.check(trials, expected, first, self.say)
        if all(t.rejected for t in trials):
            raise NothingRight(f"no candidate for {self.kernel!r} works; the schedule as it was: {trials[0].rejected}")
        self._runs.race(trials, first, self._leading)
        if searches:
            self._evolution = Evolution(
                self.request, self.place, self.dims, self._runs, expected, self._pool, trials, self.refused, self.limit,
                self.say, self._improved, self.ranker,
            )  # fmt: skip
            self.ended = self._evolution.run(deadline)

    @property
    def best(self) -> Trial:
        """The winner so far."""
        return self._evolution.best if self._evolution is not None else winner(self.trials)

    def _remember(self, trials: list[Trial], build: Callable[[Trial], None]) -> None:
        """What was found before takes part, so that tuning again loses nothing; and what a database suggested."""
        found = load_record(self.request)
        before = found.kernel(self.request) if found is not None and found.schedule is not None else None
        known = []
        if found is not None and before is not None and found.place == self.place:
            known.append((before.variants[self.place], f"found before, {found.date}"))
        if self.kernel.tuned is not None:
            known.append((self.kernel.variants[self.place], "as the kernel has it"))
        for variant, about in known:
            if variant.schedule not in {t.schedule for t in trials}:
                predicted, bound = prediction(self.request, variant, self.dims)
                trials.append(Trial(len(trials), about, predicted, bound, variant))
                build(trials[-1])

    def _built(self, t: Trial, build: Future[Any], deadline: float) -> None:
        self.say(f"building {t.number + 1} of {len(self.trials)}: {t.about}")
        try:
            build.result(None if t.number == 0 else max(0.0, deadline - time.monotonic()))
        except (TimeoutError, FutureTimeout):
            build.cancel()  # it would disturb the others
            t.reject("failed to build", "not built in time")
        except AndironError as error:
            if t.number == 0:
                raise
            t.reject("failed to build", f"not built: {str(error).splitlines()[0]}")

    def _leading(self, alive: list[Trial], turn: int) -> None:
        """After a round: what leads is kept at once, so that it is there if this process is killed."""
        lead = winner(self.trials)
        self.say(f"round {turn} of {ROUNDS}, {len(alive)} left; the best {seconds_text(lead.seconds or 0.0)}: {lead.about}")
        if lead is not self._lead and lead.number and turn > 2:
            self._lead = lead
            self._keep(lead, asked=0)

    def _improved(self, t: Trial) -> None:
        """A search outwards has found a faster one: it is kept at once."""
        self._keep(t, asked=0)

    def close(self) -> None:
        self._runs.close()
        self._pool.shutdown(wait=False, cancel_futures=True)

    # ------------------------------------------------------------ the end

    def conclude(self, took: float, stopped: str) -> Tuning:
        """The winner is used from now on, and kept."""
        best = self.best
        stored = self.store and best.seconds is not None
        found = self._keep(best, 0 if stopped else self.top) if stored else self._record(best, 0)
        self.kernel.adopt(with_variant(self.kernel.variants, self.place, best.variant), found)
        if self.store:
            record_trials(self.request, self.dims, self.trials)
        threads = self.kernel.threads if self.request.target.family.launcher == "ctypes" else None
        return Tuning(
            self.kernel.op.name, self.kernel.target, threads, self.sizes, tuple(self.trials), best, took,
            tuple(self.refused), stopped, stored, self.note, self.ended,
        )  # fmt: skip

    def _record(self, t: Trial, asked: int) -> TunedRecord:
        return TunedRecord.of(self.trials, t, self.place, asked, self.sizes)

    def _keep(self, t: Trial, asked: int) -> TunedRecord:
        found = self._record(t, asked)
        if self.store:
            store_record(self.request, found)
        return found
