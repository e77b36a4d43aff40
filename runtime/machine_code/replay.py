"""The cycle model: one SM that executes iterations of a path of instructions, with the schedule that ptxas gave them.

Each cycle, each of the SM's schedulers issues an instruction of one of its warps: the last one's next if it is ready (Huerta et
al., arXiv 2503.20481), else of those that are the one that issued least recently. At the end of its iteration a warp is not
preferred, so that none is left behind. A warp is ready when its stall count has passed, its scoreboards are clear, and the pipe
of its instruction has room. A barrier waits for the warps of a block. Pipes belong to a scheduler; that of
shared memory belongs to the SM, with a queue for each scheduler.

Not in the model: bank conflicts and partial transactions, caches and the memory behind the L2 cache, the fetching of
instructions, conflicts of register banks.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from .instruction import SCOREBOARDS, Instruction
from .sass_classes import SHARED
from .sm_figures import GLOBAL_LATENCY, RETURN_LATENCY, SmFigures, Work

# instructions: of a scheduler that wait for the shared memory pipe [estimate; test_a_scheduler_has_a_queue_for_shared_memory]
QUEUE = 8
# cycles: after its turn at its pipe, until operands may change [estimate; test_operands_are_read_before_they_are_overwritten]
OPERANDS_READ = 6
BARRIER = 8  # cycles: from the last warp's arrival to the release [estimate; test_warps_of_a_block_wait_for_each_other]

WARM_UP = 6  # iterations: of every warp before the count, at most; more than a pipeline has buffers [limit]
COUNTED = 8  # iterations: of every warp that are counted, at most [limit]
MOST_ISSUED = 60_000  # instructions: beyond which there are fewer iterations; a second or two [limit]
_COPIES = 0  # scoreboard: of groups of asynchronous copies [fact: what ptxas emits]

# Why a warp waits, in the words of Nsight Compute ("Warp Stall Reasons"); there, asynchronous copies are a long scoreboard.
ISSUED, WAIT, NOT_SELECTED = "selected", "wait", "not selected"
SHORT, LONG, ASYNC = "short scoreboard", "long scoreboard", "asynchronous copy"
BARRIER_STALL, PIPE_STALL, QUEUE_STALL = "barrier", "math pipe throttle", "MIO throttle"


@dataclass(frozen=True)
class Replay:
    """The steady state.

    cycles  of an iteration
    slowest the same for warps of the scheduler where it takes longest: some have more warps than others
    stalls  cycles of an iteration that a warp waits, on average, by (place in the path, reason). `ISSUED` is one for each
            instruction. They add up to `cycles`
    waits   of the same places with scoreboards: for the instruction at which place, how often
    """

    cycles: float
    slowest: float
    stalls: dict[tuple[int, str], float]
    waits: dict[int, Counter[int]]


@dataclass
class _Release:
    """When a scoreboard becomes clear of one instruction, at which place of the path that stands, and what the wait is."""

    time: float
    place: int
    reason: str


@dataclass
class _Warp:
    block: int
    ready: float  # from its stall count, or a barrier
    issued: float  # its last instruction
    place: int = 0
    iterations: int = 0
    at_barrier: bool = False
    left_barrier: bool = False
    copies: float = 0.0  # when the asynchronous copies since the last commit have arrived
    scoreboards: list[list[_Release]] = field(default_factory=lambda: [[] for _ in range(SCOREBOARDS)])
    awaited: _Release | None = None  # the last of what the next instruction waits for


class _Sm:
    """The state of an SM: its warps, how long its pipes are taken, and what was counted."""

    def __init__(
        self, path: Sequence[Instruction], works: Sequence[Work], warps: int, blocks: int, figures: SmFigures, most: int
    ) -> None:
        self.path, self.works, self.figures, self.most = path, works, figures, most
        n = figures.schedulers
        # Blocks start apart, as they do when the blocks before them have ended.
        apart = max(pipe_cycles(works, warps * blocks, n).values(), default=0) / blocks
        self.warps = [
            _Warp(w // warps, ready=apart * (w // warps), issued=apart * (w // warps) - 1) for w in range(warps * blocks)
        ]
        self.blocks = [self.warps[b * warps : (b + 1) * warps] for b in range(blocks)]
        self.of = [self.warps[s::n] for s in range(n)]
        self.last: list[_Warp | None] = [None] * n
        self.issue_slot = [0.0] * n
        self.pipes: list[dict[str, float]] = [{} for _ in range(n)]
        self.queues: list[deque[float]] = [deque(maxlen=QUEUE) for _ in range(n)]
        self.shared = self.l2 = 0.0
        self.counts = False  # whether the steady state is reached, in which cycles are counted
        self.cycles, self.issued = [0.0] * n, [0] * n  # of all warps of a scheduler, and their instructions
        self.stalls: defaultdict[tuple[int, str], float] = defaultdict(float)
        self.waits: dict[int, Counter[int]] = {}
        for warp in self.warps:
            self._await(warp)

    def run(self) -> Replay:
        possible = self.most // (len(self.path) * len(self.warps))
        total = max(2, min(WARM_UP + COUNTED, possible))
        warm_up = total * WARM_UP // (WARM_UP + COUNTED) or 1
        every = range(len(self.of))
        following = {s: self._following(s) for s in every}
        while (done := min(w.iterations for w in self.warps)) < total:
            self.counts = done >= warm_up
            now, s, warp = min(((x[0], s, x[1]) for s, x in following.items() if x), key=lambda x: x[:2])
            changed = every if self._issue(s, warp, now) else (s,)
            following |= {s: self._following(s) for s in changed}
        issued = sum(n for (_, reason), n in self.stalls.items() if reason == ISSUED)
        stalls = {key: n * len(self.path) / issued for key, n in self.stalls.items()}
        slowest = max(cycles / n for cycles, n in zip(self.cycles, self.issued, strict=True) if n) * len(self.path)
        return Replay(sum(stalls.values()), slowest, stalls, self.waits)

    def _following(self, s: int) -> tuple[float, _Warp] | None:
        """The warp that a scheduler issues next, and the cycle. None while all wait at barriers."""
        best: tuple[float, bool, float, int] | None = None
        for n, warp in enumerate(self.of[s]):
            if not warp.at_barrier:
                at = max(warp.ready, warp.awaited.time if warp.awaited else 0, self._room(s, warp), self.issue_slot[s])
                key = (-(-at // 1), warp is not self.last[s], warp.issued, n)
                best = min(best, key) if best else key
        return (best[0], self.of[s][best[3]]) if best else None

    def _room(self, s: int, warp: _Warp) -> float:
        """The cycle from which the pipe takes the warp's instruction."""
        name, queue = self.works[warp.place].pipe, self.queues[s]
        if name == SHARED:
            return queue[0] if len(queue) == QUEUE else 0
        return self.pipes[s].get(name, 0) // 1 if name else 0

    def _issue(self, s: int, warp: _Warp, now: float) -> bool:
        """Whether it released a barrier, so that warps of other schedulers are ready too."""
        i, work = self.path[warp.place], self.works[warp.place]
        self._count(s, warp, now)
        self.issue_slot[s], self.last[s] = now + 1, warp if warp.place + 1 < len(self.path) else None
        for n in i.waits:
            warp.scoreboards[n].clear()
        done, read = self._execute(s, i, work, now)
        if i.base == "LDGSTS":
            warp.copies = max(warp.copies, done)
        if i.base == "LDGDEPBAR":
            done, warp.copies = max([warp.copies, *(x.time for x in warp.scoreboards[_COPIES])]), 0.0
        if i.write_barrier is not None and i.base != "LDGSTS":
            reason = ASYNC if i.base == "LDGDEPBAR" else LONG if work.latency >= GLOBAL_LATENCY else SHORT
            self._set(warp, i.write_barrier, _Release(done, warp.place, reason), now)
        if i.read_barrier is not None:
            self._set(warp, i.read_barrier, _Release(read, warp.place, SHORT), now)
        warp.ready, warp.issued, warp.left_barrier = now + max(1, i.stall), now, False
        warp.at_barrier = i.base == "BAR"
        self._step(warp)
        return self._release(warp.block, now) if warp.at_barrier else False

    def _execute(self, s: int, i: Instruction, work: Work, now: float) -> tuple[float, float]:
        """When the result is there, and when the operands are read."""
        if work.pipe is None:
            return now + 1, now + 1
        if work.pipe != SHARED:
            self.pipes[s][work.pipe] = end = max(now, self.pipes[s].get(work.pipe, 0)) + work.cycles
            return end + work.latency, end + OPERANDS_READ
        self.shared = max(now, self.shared) + work.cycles
        self.queues[s].append(self.shared)
        done = self.shared + work.latency
        if work.l2:
            self.l2 = max(now, self.l2) + work.l2 / self.figures.l2_bytes
            done = max(done, self.l2 + RETURN_LATENCY)
        return done, self.shared + OPERANDS_READ

    @staticmethod
    def _set(warp: _Warp, scoreboard: int, release: _Release, now: float) -> None:
        pending = [x for x in warp.scoreboards[scoreboard] if x.time > now]
        warp.scoreboards[scoreboard] = [*pending, release]

    def _step(self, warp: _Warp) -> None:
        """To its next instruction."""
        warp.place += 1
        if warp.place == len(self.path):
            warp.place, warp.iterations = 0, warp.iterations + 1
        self._await(warp)

    def _await(self, warp: _Warp) -> None:
        """Sets what its next instruction waits for."""
        i = self.path[warp.place]
        pending = [x for n in i.waits for x in warp.scoreboards[n]]
        if match := re.match(r"SB(\d), (\w+)", i.operands) if i.base == "DEPBAR" else None:
            # It leaves so many of the scoreboard's instructions in flight.
            ordered = sorted(warp.scoreboards[int(match[1])], key=lambda x: x.time)
            pending += ordered[: len(ordered) - int(match[2], 0)] if len(ordered) > int(match[2], 0) else []
        warp.awaited = max(pending, key=lambda x: x.time, default=None)

    def _release(self, block: int, now: float) -> bool:
        warps = self.blocks[block]
        if not all(w.at_barrier for w in warps):
            return False
        for w in warps:
            w.at_barrier, w.left_barrier, w.ready = False, True, max(w.ready, now + BARRIER)
        return True

    def _count(self, s: int, warp: _Warp, now: float) -> None:
        """Where the warp's cycles since its last instruction went."""
        if not self.counts:
            return
        place, at = warp.place, warp.issued + 1
        self.cycles[s] += now - warp.issued
        self.issued[s] += 1
        self.stalls[place, ISSUED] += 1
        at = self._add(place, BARRIER_STALL if warp.left_barrier else WAIT, at, min(warp.ready, now))
        if (awaited := warp.awaited) and awaited.time > at:
            at = self._add(place, awaited.reason, at, min(-(-awaited.time // 1), now))
            self.waits.setdefault(place, Counter())[awaited.place] += 1
        pipe = self.works[place].pipe
        full = pipe is not None and self._room(s, warp) > now - 1
        self._add(place, (QUEUE_STALL if pipe == SHARED else PIPE_STALL) if full else NOT_SELECTED, at, now)

    def _add(self, place: int, reason: str, since: float, until: float) -> float:
        if until > since:
            self.stalls[place, reason] += until - since
        return max(since, until)


def replay(
    path: Sequence[Instruction], works: Sequence[Work], warps: int, blocks: int, figures: SmFigures, most: int = MOST_ISSUED
) -> Replay:
    """The steady state of `blocks` blocks of so many warps on one SM, all of which execute `path` again and again. `most`: the
    instructions of all iterations together. Of two or three iterations, cycles are off by some hundredths."""
    return _Sm(path, works, warps, blocks, figures, most).run()


def pipe_cycles(works: Sequence[Work], warps: int, schedulers: int) -> dict[str, float]:
    """Cycles that each pipe takes for one iteration of all warps of an SM, if they are spread evenly over its schedulers."""
    found: dict[str, float] = {}
    for work in works:
        if work.pipe:
            share = warps if work.pipe == SHARED else -(-warps // schedulers)
            found[work.pipe] = found.get(work.pipe, 0) + work.cycles * share
    return found
