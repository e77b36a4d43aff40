"""Places barriers: `place_barriers(program) -> program`.

Abstract interpretation of each launch. The state is the accesses of shared buffers since the last barrier that ordered them; a
statement with an access that conflicts with the state (`conflict`) gets a barrier before it.

    WRITE_THEN_READ, READ_THEN_WRITE, WRITE_THEN_WRITE
                     a conflict in straight-line code: the barrier stands right before the later access.
    ENTRY            an access in a loop or an If conflicts with the state at its entry: the barrier stands before it.
    FIRST_TURN       accesses before the loop that a barrier in each iteration orders conflict only with the accesses before
                     that barrier, and only in the first iteration.
    BACK_EDGE        an access conflicts with one of the iteration before: the barrier stands inside, before the later one.
                     It is placed before ENTRY is looked at, and then often serves both.
    DISTANCE         accesses of the iteration before are known exactly, with `i - step` for i (rotating stages stay apart);
                     those that survive a whole iteration without a barrier belong to any earlier one. In the loops inside, they
                     belong to any iteration.
    ZERO_TRIPS       a loop that may run zero times orders nothing: earlier accesses are still in the state after it.
    UNIFORM_POINT    a barrier of a level stands only where all units below one of its units arrive: the barrier for a divergent
                     If or loop stands before it. A conflict inside one cannot be ordered: the line that diverges is refused.
    VISIBLE_AT_WAIT  an asynchronous copy writes at the Wait: the barrier that lets others read its elements comes after.

A barrier's level is the one that owns the buffer, so that all units that share the instance synchronise. Buffers that share
space must share a name, or the layout must separate them (only if a barrier lies between their lifetimes).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from ....dsl.errors.base import AndironError, InternalError
from ....dsl.errors.schedule import CannotMeet
from ....dsl.index.prove import always
from ....dsl.source import Span
from ....dsl.support.fast_replace import replace
from ...ir.program import Program
from ...ir.tile_ir import Alloc, Barrier, For, If, Launch, Wait
from ...ir.tile_visitors import known, written
from .access import AccessLoop, SharedAccess
from .annotated_tree import BarrierNode, annotate_accesses, barriers, build_tree, rebuild_body, without_barrier
from .conflict import ConflictTests
from .known_facts import KnownFacts

_ROUNDS = 8  # rounds: until the state of a loop must be stable, which takes two or three [limit]

_NAMES = {"read": "read", "write": "written", "combine": "combined"}


def place_barriers(program: Program, lockstep: bool = False) -> Program:
    """The program with the barriers it needs; barriers already there are kept, and counted on.

    `lockstep` also places those that units in lockstep need where they do not stay together by themselves: a compiler may
    move an access of shared memory over another lane's unless told not to (`__syncwarp` from Volta on). They are barriers of
    the level just above the lockstep units, and mean nothing to the interpreter.

    Raises CannotMeet where what is needed cannot stand (UNIFORM_POINT).
    """
    return replace(program, launches=tuple(_launch(program, launch, lockstep) for launch in program.launches))


def _launch(program: Program, launch: Launch, lockstep: bool) -> Launch:
    scope = KnownFacts.of(launch, program.device, program.instrs, program.buffers, known(program))
    nodes = build_tree(launch.body, scope, written(launch.body, program.instrs))
    for together in (False, True) if lockstep else (False,):
        conflicts = ConflictTests()
        nodes = annotate_accesses(nodes, together, conflicts.with_itself)
        if not all(n.still for n in nodes):
            nodes = _fewest(nodes, _Placer(conflicts))
    return replace(launch, body=rebuild_body(nodes))


def _fewest(nodes: tuple[BarrierNode, ...], placer: _Placer) -> tuple[BarrierNode, ...]:
    """REDUNDANT: a barrier of a loop that was placed before its back edge was known may be served by a later one; each of
    those placed is tried without."""
    best = placer.placed(nodes)
    given = set(barriers(nodes)) if best is not nodes else ()
    for barrier in list(barriers(best)) if best is not nodes else ():
        if barrier not in given and placer.enough(fewer := without_barrier(best, barrier)):
            best = fewer
    return best


def _apart(parting: Span | None, a: SharedAccess, b: SharedAccess) -> AndironError:
    """The mistake of the line that deals out, or tests, what keeps units from meeting; ours, if no line did."""
    what = f"`{a.buffer}` is {_NAMES[a.kind]} by one unit, then {_NAMES[b.kind]} by another"
    if parting is None:
        return InternalError(
            f"no barrier of {a.level} can stand here, since units diverge: {what}: `{a.text}`, then `{b.text}`"
        )
    return CannotMeet(
        f"{what}, in divergent control flow, where the units of a {a.level} cannot wait for each other",
        parting,
        note="they diverge here",
        help="write this tile below the computation of the tensor, or keep the tensor in a memory that units do not share",
    )


class _PriorAccess(NamedTuple):
    """An access made earlier: in the present iteration of the first `same` loops around it (None: of all that are also around
    here) and any of those below; `before`: of the loop below them the iteration just before the present one."""

    access: SharedAccess
    same: int | None = None
    before: bool = False


class _State(NamedTuple):
    """Accesses that no barrier has ordered, and those of asynchronous copies under way (in the order they were met)."""

    open: tuple[_PriorAccess, ...] = ()
    flying: tuple[_PriorAccess, ...] = ()

    def plus(self, other: _State) -> _State:
        if not self.open and not self.flying:
            return other
        return _State(_union(self.open, other.open), _union(self.flying, other.flying))

    def after(self, barrier: str, scope: KnownFacts) -> _State:
        """All units below one unit of `barrier` have met: levels inside it have as well."""
        depth = scope.device.depth(barrier)
        return _State(tuple([p for p in self.open if p.access.depth < depth]), self.flying)

    def waited(self, wait: Wait) -> _State:
        """VISIBLE_AT_WAIT. Which copies are complete is not known, unless all are."""
        landed = [p for p in self.flying if p.access.flight == wait.kind]
        rest = self.flying if wait.pending else tuple([p for p in self.flying if p.access.flight != wait.kind])
        return _State(_union(self.open, landed), rest)

    def doing(self, accesses: tuple[SharedAccess, ...]) -> _State:
        now = [_PriorAccess(a) for a in accesses if a.flight is None or a.kind == "read"]
        return _State(_union(self.open, now), _union(self.flying, [_PriorAccess(a) for a in accesses if a.flight]))

    def map(self, f: Callable[[_PriorAccess, BarrierNode], _PriorAccess], loop: BarrierNode) -> _State:
        if not self.open and not self.flying:
            return self
        return _State(_union((), [f(p, loop) for p in self.open]), _union((), [f(p, loop) for p in self.flying]))


def _union(a: tuple[_PriorAccess, ...], b: Collection[_PriorAccess]) -> tuple[_PriorAccess, ...]:
    return tuple(dict.fromkeys((*a, *b))) if b else a


class _Conflict(NamedTuple):
    """Two accesses of one buffer that are in conflict if they are now and in the first iteration of each of the loops."""

    past: _PriorAccess
    now: SharedAccess
    loops: tuple[BarrierNode, ...] = ()


Placed = tuple[list[BarrierNode], BarrierNode, _State]


class _MissingBarrier(Exception):
    """A barrier is missing."""


class _Placer:
    """Answers are kept: nested loops are met again and again while the outer ones settle."""

    def __init__(self, conflicts: ConflictTests) -> None:
        self._conflicts = conflicts
        self._settled: dict[tuple[BarrierNode, tuple[_PriorAccess, ...]], tuple[BarrierNode, _State]] = {}
        self._done: dict[tuple[BarrierNode, _State], Placed] = {}
        self._runs: dict[AccessLoop, bool] = {}
        self._first: dict[tuple[BarrierNode, SharedAccess], SharedAccess] = {}
        self._only_asking = False

    def placed(self, nodes: tuple[BarrierNode, ...]) -> tuple[BarrierNode, ...]:
        return self.block(nodes, _State())[0]

    def enough(self, nodes: tuple[BarrierNode, ...]) -> bool:
        """Whether the barriers that are there are all that are needed."""
        self._only_asking = True
        try:
            self.block(nodes, _State())
        except _MissingBarrier:
            return False
        finally:
            self._only_asking = False
        return True

    def block(self, nodes: tuple[BarrierNode, ...], state: _State) -> tuple[tuple[BarrierNode, ...], _State]:
        """The nodes with their barriers (the same objects if they stay as they are), and the state after them."""
        out: list[BarrierNode] = []
        same = True
        for n in nodes:
            if not n.still:
                before, done, state = self.node(n, state)
                if before or done is not n:
                    if self._only_asking:
                        raise _MissingBarrier
                    same = False
                    out += before
                    n = done
            out.append(n)
        return nodes if same else tuple(out), state

    def node(self, n: BarrierNode, state: _State) -> Placed:
        """Barriers to stand before the node, the node (the same object if it stays as it is), the state after it."""
        matters = state if n.waits or not state.flying else _State(state.open)
        if not n.body and not n.orelse:
            before, done, after = self.place(n, matters)
        elif (n, matters) in self._done:
            before, done, after = self._done[n, matters]
        else:
            before, done, after = self._done[n, matters] = self.place(n, matters)
        return before, done, after if matters is state else _State(after.open, _union(state.flying, after.flying))

    def place(self, n: BarrierNode, state: _State) -> Placed:
        match n.statement:
            case For():
                return self.loop(n, state)
            case If():
                before, state = self.ordered(self.exposed((n,), state)[0], n, state)  # ENTRY
                body, one = self.block(n.body, state)
                orelse, other = self.block(n.orelse, state)
                return before, _holding(n, body, orelse), one.plus(other)
            case Alloc():
                body, state = self.block(n.body, state)
                return [], _holding(n, body), state
            case Barrier():
                return [], n, state.after(n.statement.level, n.scope)
            case Wait():
                return [], n, state.waited(n.statement)
            case _:
                before, state = self.ordered(_pairs(state, n), n, state)
                return before, n, state.doing(n.accesses)

    def conflict(self, p: _PriorAccess, b: SharedAccess) -> bool:
        a = p.access
        return self._conflicts.between(a, b, (a.common_loops(b), False) if p.same is None else (p.same, p.before))

    def ordered(self, pairs: list[_Conflict], n: BarrierNode, state: _State) -> tuple[list[BarrierNode], _State]:
        """The barrier that orders those of the pairs that are in conflict, before `n`, and the state after it. It is of the
        outermost level that one of them asks for: the others need not be looked at."""
        if not pairs:
            return [], state
        for past, b, loops in sorted(pairs, key=lambda pair: pair.now.depth):
            if self.conflict(past, b) and all(self.conflict(past, self.first(b, x)) for x in loops):
                break
        else:
            return [], state
        if self._only_asking:
            raise _MissingBarrier
        a = past.access
        if n.scope.control > a.depth:  # UNIFORM_POINT
            raise _apart(n.scope.parting, a, b)
        why = f"{a.buffer} is {_NAMES[a.kind]} before, {_NAMES[b.kind]} after"
        barrier = Barrier(a.level, why, getattr(n.statement, "span", None))
        return [BarrierNode(barrier, n.scope)], state.after(a.level, n.scope)

    def loop(self, n: BarrierNode, state: _State) -> Placed:
        done, out = self.settled(n, state.flying)
        pairs, left = self.exposed((done,), state)
        before, state = self.ordered(pairs, n, state)  # ENTRY
        if before:
            _, left = self.exposed((done,), state)
        return before, done, left.plus(out.map(_outside, n))

    def settled(self, n: BarrierNode, flying: tuple[_PriorAccess, ...]) -> tuple[BarrierNode, _State]:
        """The loop with the barriers that its iterations need, and the state at the end of one. What is open before the loop
        is none of its business (ENTRY)."""
        if (n, flying) not in self._settled:
            body, entry = n.body, _State((), flying)
            for _ in range(_ROUNDS):
                new, out = self.block(body, entry)
                joined = entry.plus(out.map(self.earlier, n))
                if new is body and joined == entry:
                    break
                body, entry = new, joined
            else:
                raise InternalError(f"the state of the loop over {n.statement.var.name} does not become stable")  # type: ignore
            self._settled[n, flying] = _holding(n, body), out
        return self._settled[n, flying]

    def earlier(self, p: _PriorAccess, n: BarrierNode) -> _PriorAccess:
        """BACK_EDGE, DISTANCE: an access of an iteration, as the next one sees it."""
        number = len(n.scope.loops)
        if p.same is None and n.turns in p.access.loops:
            return _PriorAccess(p.access, number, p.access.steps(number))
        return _PriorAccess(p.access, number) if p.same == number and p.before else p

    def exposed(self, nodes: tuple[BarrierNode, ...], state: _State) -> tuple[list[_Conflict], _State]:
        """Accesses in the nodes with those of `state` alone, as far as no barrier in them orders them; and what is left of
        `state` after them."""
        found: list[_Conflict] = []
        for n in nodes:
            if not state.open and not state.flying:
                break
            if n.still:
                continue
            match n.statement:
                case For():
                    inside, left = self.exposed(n.body, state)
                    alive = {p.access for p in (*left.open, *left.flying)}
                    found += [x if x.past.access in alive else x._replace(loops=(*x.loops, n)) for x in inside]
                    state = left if left == state or self.runs(n) else state.plus(left)  # ZERO_TRIPS
                case If():
                    one, left = self.exposed(n.body, state)
                    other, right = self.exposed(n.orelse, state)
                    found += one + other
                    state = left.plus(right)
                case Alloc():
                    inside, state = self.exposed(n.body, state)
                    found += inside
                case Barrier():
                    state = state.after(n.statement.level, n.scope)
                case Wait():
                    state = state.waited(n.statement)
                case _:
                    found += _pairs(state, n)
        return found, state

    def first(self, b: SharedAccess, n: BarrierNode) -> SharedAccess:
        """FIRST_TURN: an access in the loop, as made in its first iteration, where that is one for all units."""
        if n.turns is None or n.turns.depends > b.depth:
            return b
        if (n, b) not in self._first:
            assert isinstance(n.statement, For)
            self._first[n, b] = b.where(n.statement.var, n.scope.plain(n.statement.start))
        return self._first[n, b]

    def runs(self, n: BarrierNode) -> bool:
        """Whether the loop is proven to run at least once."""
        s, scope = n.statement, n.scope
        assert isinstance(s, For)
        assert n.turns is not None
        if n.turns not in self._runs:
            self._runs[n.turns] = always(scope.plain(s.stop) - scope.plain(s.start) - 1, tuple(scope.conds))
        return self._runs[n.turns]


def _outside(p: _PriorAccess, n: BarrierNode) -> _PriorAccess:
    """An access in the loop or before it, after the loop."""
    return p if p.same is None or p.same < len(n.scope.loops) else _PriorAccess(p.access)


def _pairs(state: _State, n: BarrierNode) -> list[_Conflict]:
    """Accesses that the node's own may need a barrier after."""
    return [_Conflict(p, b) for p in state.open for b in n.accesses if p.access.buffer == b.buffer]


def _holding(n: BarrierNode, body: tuple[BarrierNode, ...], orelse: tuple[BarrierNode, ...] | None = None) -> BarrierNode:
    orelse = n.orelse if orelse is None else orelse
    return n if body is n.body and orelse is n.orelse else replace(n, body=body, orelse=orelse)
