"""Places barriers: `place_barriers(program) -> program`.

Abstract interpretation of each launch. The state is the accesses of shared buffers since the last barrier that ordered them; a
statement with an access that conflicts with the state (`barriers_access.conflict`) gets a barrier before it.

    WRITE_THEN_READ, READ_THEN_WRITE, WRITE_THEN_WRITE
                     a conflict in straight-line code: the barrier stands right before the later access.
    ENTRY            an access in a loop or an If conflicts with the state that is entered with: the barrier stands before it.
    BACK_EDGE        an access conflicts with one of the iteration before: the barrier stands inside, before the later one.
                     It is placed before ENTRY is looked at, and then often serves both.
    DISTANCE         accesses of the iteration before are known exactly, with `i - step` for i (rotating stages stay apart);
                     those that survive a whole iteration without a barrier are of any earlier one.
    ZERO_TRIPS       a loop that may run zero times orders nothing: what came before is still in the state after it.
    UNIFORM_POINT    a barrier of a level stands only where all units below one of its units go: what a divergent If or loop
                     needs is placed before it; a conflict inside one cannot be ordered, and lowering must not produce it.
    VISIBLE_AT_WAIT  what an asynchronous copy writes is written at the Wait: the barrier that lets others read it comes after.

A barrier's level is the one that owns the buffer, so that all units that share the instance meet. Buffers that share space must
share a name, or be kept apart by who lays them out (only where a barrier lies between their lifetimes).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

from ...dsl.errors.base import InternalError
from ...dsl.prove import always
from ..tile import Alloc, Barrier, Call, For, If, Launch, Let, Program, Stmt, Store, Wait
from ..walk_tile import accessed, known, map_bodies, statements, written
from .access import Access, conflicts
from .scope import Scope

_ROUNDS = 8  # the state of a loop is stable after two or three

_NAMES = {"read": "read", "write": "written", "combine": "combined"}


def place_barriers(program: Program, lockstep: bool = False) -> Program:
    """The program with the barriers it needs; barriers already there are kept, and counted on.

    `lockstep` also places those that units in lockstep need where they do not stay together by themselves: a compiler may
    move an access of shared memory over another lane's unless told not to (`__syncwarp` from Volta on). They are barriers of
    the level just above the lockstep units, and mean nothing to the interpreter.

    Raises InternalError where what is needed cannot stand (UNIFORM_POINT).
    """
    return replace(program, launches=tuple(_launch(program, launch, lockstep) for launch in program.launches))


def _launch(program: Program, launch: Launch, lockstep: bool) -> Launch:
    names = written(launch.body, program.instrs)
    body = launch.body
    for together in (False, True) if lockstep else (False,):
        scope = Scope.of(launch, program.device, program.instrs, program.buffers, together, known(program))
        body = _fewest(body, partial(_placed, _Placer(names), scope))
    return replace(launch, body=body)


def _placed(placer: _Placer, scope: Scope, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    return placer.block(body, scope, _State())[0]


def _fewest(body: tuple[Stmt, ...], place: Callable[[tuple[Stmt, ...]], tuple[Stmt, ...]]) -> tuple[Stmt, ...]:
    """REDUNDANT: a barrier of a loop that was placed before its back edge was known may be served by a later one; each of
    those placed is tried without."""
    best = place(body)
    given = [s for s in statements(body) if isinstance(s, Barrier)]
    number = 0
    while number < len(placed := [s for s in statements(best) if isinstance(s, Barrier)]):
        fewer = best if any(placed[number] is g for g in given) else place(_without(best, number))
        if sum(isinstance(s, Barrier) for s in statements(fewer)) < len(placed):
            best = fewer
        else:
            number += 1
    return best


def _without(body: tuple[Stmt, ...], number: int) -> tuple[Stmt, ...]:
    """Less the barrier `number`, counted in the order of the text."""
    left = number

    def strip(some: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        nonlocal left
        out: list[Stmt] = []
        for s in some:
            if isinstance(s, Barrier):
                left -= 1
            if not isinstance(s, Barrier) or left != -1:
                out.append(map_bodies(s, strip))
        return tuple(out)

    return strip(body)


@dataclass(frozen=True)
class _State:
    """Accesses that no barrier has ordered, and those of asynchronous copies under way (in the order they were met)."""

    open: tuple[Access, ...] = ()
    flying: tuple[Access, ...] = ()

    def plus(self, other: _State) -> _State:
        return _State(_union(self.open, other.open), _union(self.flying, other.flying))

    def after(self, barrier: str, scope: Scope) -> _State:
        """All units below one unit of `barrier` have met: levels inside it have as well."""
        depth = scope.device.depth(barrier)
        return replace(self, open=tuple(a for a in self.open if scope.device.depth(a.level) < depth))

    def waited(self, wait: Wait) -> _State:
        """VISIBLE_AT_WAIT. Which copies are complete is not known, unless all are."""
        landed = tuple(replace(a, flight=None) for a in self.flying if a.flight == wait.kind)
        rest = self.flying if wait.pending else tuple(a for a in self.flying if a.flight != wait.kind)
        return _State(_union(self.open, landed), rest)

    def doing(self, accesses: list[Access]) -> _State:
        now = (replace(a, flight=None) for a in accesses if a.flight is None or a.kind == "read")
        return _State(_union(self.open, now), _union(self.flying, (a for a in accesses if a.flight)))

    def map(self, f) -> _State:
        return _State(_union((), map(f, self.open)), _union((), map(f, self.flying)))


def _union(a: tuple[Access, ...], b: Iterable[Access]) -> tuple[Access, ...]:
    return tuple(dict.fromkeys((*a, *b)))


Placed = tuple[list[Stmt], Stmt, _State]


class _Placer:
    def __init__(self, written: frozenset[str]) -> None:
        self._written = written  # a buffer that is only read in the launch needs nothing
        self._memo: dict[tuple[Access, Access], bool] = {}
        # By identity; they hold the statement, so that it stays alive.
        self._done: dict[tuple, tuple[Stmt, Placed]] = {}
        self._quiet: dict[tuple, tuple[Stmt, bool]] = {}

    def quiet(self, s: Stmt, scope: Scope) -> bool:
        """Whether nothing in the statement can matter here: no access of a shared buffer, no barrier, no wait."""
        key = id(s), scope.levels
        if key not in self._quiet:
            match s:
                case For():
                    value = all(self.quiet(x, scope) for x in s.body)
                case If():
                    value = all(self.quiet(x, scope) for x in (*s.body, *s.orelse))
                case Alloc():
                    inner = scope.holding_buffer(s.buffer)
                    value = all(self.quiet(x, inner) for x in s.body)
                case Store() | Call():
                    names = accessed(s) & self._written
                    value = all(n in scope.buffers and scope.barrier_level(scope.buffers[n]) is None for n in names)
                case _:
                    value = not isinstance(s, Barrier | Wait)
            self._quiet[key] = s, value
        return self._quiet[key][1]

    def block(self, body: tuple[Stmt, ...], scope: Scope, state: _State) -> tuple[tuple[Stmt, ...], _State]:
        out: list[Stmt] = []
        for s in body:
            if isinstance(s, Let):
                scope = scope.let(s)
            before, s, state = self.statement(s, scope, state)
            out += [*before, s]
        return tuple(out), state

    def statement(self, s: Stmt, scope: Scope, state: _State) -> Placed:
        """Barriers to stand before the statement, the statement (the same object if it stays as it is), the state after it."""
        if self.quiet(s, scope):
            return [], s, state
        # Nested loops are met again and again while the outer ones settle.
        key = id(s), state, scope.key
        if key not in self._done:
            self._done[key] = s, self.place(s, scope, state)
        return self._done[key][1]

    def place(self, s: Stmt, scope: Scope, state: _State) -> Placed:
        match s:
            case Store() | Call():
                accesses = self.accesses(s, scope)
                before, state = self.ordered(conflicts(state.open, accesses, self._memo), s, scope, state)
                return before, s, state.doing(accesses)
            case For():
                return self.loop(s, scope, state)
            case If():
                before, state = self.ordered(self.exposed((s,), scope, state)[0], s, scope, state)  # ENTRY
                body, one = self.block(s.body, scope.holding(s.conds), state)
                orelse, other = self.block(s.orelse, scope.failing(s.conds), state)
                same = body == s.body and orelse == s.orelse
                return before, s if same else replace(s, body=body, orelse=orelse), one.plus(other)
            case Alloc():
                body, state = self.block(s.body, scope.holding_buffer(s.buffer), state)
                return [], s if body == s.body else replace(s, body=body), state
            case Barrier():
                return [], s, state.after(s.level, scope)
            case Wait():
                return [], s, state.waited(s)
            case _:
                return [], s, state

    def accesses(self, s: Store | Call, scope: Scope) -> list[Access]:
        return [a for a in scope.accesses(s) if a.buffer in self._written]

    def ordered(self, pairs: list[tuple[Access, Access]], s: Stmt, scope: Scope, state: _State) -> tuple[list[Stmt], _State]:
        """The barrier that orders the pairs, before `s`, and the state after it."""
        if not pairs:
            return [], state
        a, b = min(pairs, key=lambda pair: scope.device.depth(pair[1].level))
        if scope.control > scope.device.depth(a.level):  # UNIFORM_POINT
            raise InternalError(
                f"no barrier of {a.level} can stand here, units part ways: {a.buffer} is {_NAMES[a.kind]} by `{a.text}`, "
                f"then {_NAMES[b.kind]} by `{b.text}`"
            )
        why = f"{a.buffer} is {_NAMES[a.kind]} before, {_NAMES[b.kind]} after"
        return [Barrier(a.level, why, s.span)], state.after(a.level, scope)

    def loop(self, s: For, scope: Scope, state: _State) -> Placed:
        inner = scope.inside(s)
        body, entry = s.body, _State((), state.flying)
        for _ in range(_ROUNDS):
            new, out = self.block(body, inner, entry)
            joined = entry.plus(self.previous(s, inner, entry, out))
            if new == body and joined == entry:
                break
            body, entry = new, joined
        else:
            raise InternalError(f"the accesses of the loop over {s.var.name} do not settle")
        done = s if body == s.body else replace(s, body=body)
        before, state = self.ordered(self.exposed((done,), scope, state)[0], s, scope, state)  # ENTRY
        _, left = self.exposed((done,), scope, state)
        return before, done, left.plus(out.map(lambda a: a.old(s.var)))

    def previous(self, s: For, inner: Scope, entry: _State, out: _State) -> _State:
        """BACK_EDGE, DISTANCE: the state at the end of an iteration, as the next one sees it."""
        step = inner.plain(s.step)
        carried = {*entry.open, *entry.flying}
        exact = step.constant is not None and s.var not in inner.depth

        def earlier(a: Access) -> Access:
            return a.subs(s.var, s.var - step, False) if exact and a not in carried else a.old(s.var)

        return out.map(earlier)

    def exposed(self, body: tuple[Stmt, ...], scope: Scope, state: _State) -> tuple[list[tuple[Access, Access]], _State]:
        """Conflicts of accesses in `body` with those of `state` alone, as far as no barrier in `body` orders them; and what is
        left of `state` after it."""
        found: list[tuple[Access, Access]] = []
        for s in body:
            if not state.open and not state.flying:
                break
            if not isinstance(s, Let) and self.quiet(s, scope):
                continue
            match s:
                case Let():
                    scope = scope.let(s)
                case Store() | Call():
                    found += conflicts(state.open, self.accesses(s, scope), self._memo)
                case For():
                    inside, left = self.exposed(s.body, scope.inside(s), state)
                    found += inside
                    runs = always(scope.plain(s.stop) - scope.plain(s.start) - 1, scope.conds)
                    state = left if runs else state.plus(left)  # ZERO_TRIPS
                case If():
                    one, left = self.exposed(s.body, scope.holding(s.conds), state)
                    other, right = self.exposed(s.orelse, scope.failing(s.conds), state)
                    found += one + other
                    state = left.plus(right)
                case Alloc():
                    inside, state = self.exposed(s.body, scope.holding_buffer(s.buffer), state)
                    found += inside
                case Barrier():
                    state = state.after(s.level, scope)
                case Wait():
                    state = state.waited(s)
        return found, state
