"""Software pipelining, as double buffering: `pipeline_copies(program, note) -> program`. Copies are issued ahead, with waits.

Lowering writes a `move` as an Alloc whose first statements fill the buffer (`Staging`). Here n buffers rotate over a loop:

    for k in 0 .. T: alloc S: [copy k to S; use S]
    -->
    alloc S[n]:
        for s in 0 .. n-1: if s < T: copy s to S[s]; commit                                             PROLOGUE
        for k in 0 .. T: wait; if k + n-1 < T: copy k + n-1 to S[(k + n-1) % n]; commit; use S[k % n]   STEADY

ONE_GROUP    consecutive copies are one group. A copy that is not made still closes its group, so that the same number of groups
             may be in flight at a wait in every iteration: those of n - 1 iterations, except the one waited for.
COUNTED      if a counter tells how many copies are in flight, a wait allows only those that were surely issued since: none in
             the last iterations.
TWO_HALVES   a synchronous copy is split at the registers it passes (`split_copies`): loads first, stores after the statements
             that use the iteration's buffer.
BEFORE_WAITS loads to registers need nothing that is waited for, so they are under way while an iteration waits, also at its
             barrier. There a compiler cannot delay them, as it does to save registers where nothing holds it.
TOTAL        what computes what it stores stands under no condition, or no compiler would mix it with the arithmetic before it.
             The last iterations load the last one's elements once more, and store them where nobody reads.
UNBRANCHED   what waits in registers is stored under no condition, where the first turn has loaded it: the last turns store it
             once more, where nobody reads. Compilers move arithmetic whose results the next turn needs behind such a branch,
             and keep all that it has loaded until then.
NAMED        registers have no index: loops over rotating ones are unrolled, by n iterations if the trip count is open.
NOTHING_NEW  a copy is issued ahead only of tensors that the loop does not write.
COPIED_AGAIN a copy of a copy that rotates, as of fragments in registers, has one buffer: it is made when that has arrived.

Must run before barriers are placed: because of the rotation, one barrier an iteration is enough.
"""

from __future__ import annotations

from collections.abc import Callable
from math import lcm

from ....dsl.index.expr import ONE, ZERO, Expr, Var, as_expr, ceildiv, minimum
from ....dsl.support.fast_replace import replace
from ....dsl.types import DType
from ...ir.free_names import names_of, numbered_name
from ...ir.limits import UNROLLED, WIDEST_ACCESS
from ...ir.program import Program
from ...ir.tile_ir import Alloc, Buffer, Commit, For, If, Launch, Let, Staging, Stmt, Wait
from ...ir.tile_visitors import buffers_used, map_bodies, map_exprs, map_places, statements, with_bodies, with_buffers, written
from .copy_batches import (
    Body,
    CopyBatch,
    CopyEntry,
    asynchronous_kinds,
    batches_of,
    chain,
    copy_of,
    grouped,
    is_rotating,
    merged_conditions,
    names_that_depend,
    plain,
    rename_locals,
    staged,
    without_rotation,
    wrap_context,
)
from .cross_loop import pipeline_across_loop, pipelined_inner_loop
from .hoist_copies import hoist_copies
from .outstanding_copies import least_issued
from .split_copies import SplitContext, prune_empty, split_copy

# parts: of a unit's registers, one of which a copy in flight may take [estimate;
# test_a_copy_takes_a_quarter_of_the_registers_on_its_way]
_SHARE = 4

Note = Callable[[str], None]


def pipeline_copies(program: Program, note: Note) -> Program:
    """`note` is told, for the author, where copies do not run ahead as the schedule says."""
    stager = CopyPipeliner(program, note)
    return replace(program, launches=tuple(stager.launch(x) for x in program.launches))


class CopyPipeliner:
    def __init__(self, program: Program, note: Note) -> None:
        self.device, self.note = program.device, note
        self.instrs = {i.name: i for i in program.instrs}
        self.held: set[Var] = set()  # loops that are seen to with the loop around them
        self.names = names_of(program)

    def launch(self, launch: Launch) -> Launch:
        return replace(launch, body=self.body(launch.body))

    def body(self, body: Body) -> Body:
        out: list[Stmt] = []
        for s in body:
            match s:
                case For():
                    out += self.loop(s)
                case Alloc() if s.staging is not None:
                    out.append(self.one_group(s, (), frozenset()))
                case _:
                    out.append(map_bodies(s, self.body))
        return tuple(out)

    def fresh(self, base: str) -> str:
        """A name that is not taken: of `k2` the next one, `k3`."""
        name = numbered_name(base, self.names, stem=base.rstrip("0123456789"))
        self.names.add(name)
        return name

    # ------------------------------------------------------------ buffers

    def private(self, b: Buffer) -> bool:
        return b.level == self.device.levels[-1].name and b.memory == self.device.memories[-1].name

    def register(self, name: str, dtype: DType, shape: tuple[int, ...]) -> Buffer:
        memory, level = self.device.memories[-1].name, self.device.levels[-1].name
        return Buffer.row_major(self.fresh(name), dtype, "local", memory, level, shape)

    def rotating_buffer(self, b: Buffer, depth: int) -> Buffer:
        """So many buffers in one, the first coordinate says which."""
        each = b.size.constant or 0
        if not self.private(b):
            step = max(1, WIDEST_ACCESS // max(1, b.dtype.bytes))
            each = -(-each // step) * step
        return replace(
            b, shape=(as_expr(depth), *b.shape), strides=(as_expr(each), *b.strides), size=as_expr(each * depth)
        )  # fmt: skip

    def fits(self, held: tuple[Buffer, ...]) -> bool:
        """Whether what a copy has under way leaves most registers of a unit to others."""
        registers = self.device.memories[-1].registers
        if registers is None:
            return True
        in_lanes = self.device.levels[-1].bytes is not None  # a vector register for each element
        need = sum((b.size.constant or 0) * (registers[1] if in_lanes else max(4, b.dtype.bytes)) for b in held)
        return need * _SHARE <= registers[0] * registers[1]

    # ------------------------------------------------------------ copies that do not run ahead

    def one_group(self, s: Alloc, pending: tuple[str, ...], flying: frozenset[str]) -> Alloc:
        """ONE_GROUP, waited for before what follows the last copy of those that stand together."""
        copy, rest = self.body(copy_of(s)), s.body[len(copy_of(s)) :]
        kinds = tuple(dict.fromkeys((*pending, *asynchronous_kinds(copy, self.instrs))))
        flying |= {s.buffer.name}
        n = next((n for n, x in enumerate(rest) if not isinstance(x, Let)), len(rest))
        following = rest[n] if n < len(rest) else None
        if kinds and isinstance(following, Alloc) and following.staging is not None and not flying & buffers_used(
            copy_of(following)
        ):  # fmt: skip
            after: Body = (*rest[:n], self.one_group(following, kinds, flying), *self.body(rest[n + 1 :]))
        else:
            after = (*commits(kinds), *(Wait(k, 0, s.span) for k in kinds), *self.body(rest))
        return replace(s, body=(*copy, *after), staging=None)

    # ------------------------------------------------------------ loops

    def loop(self, s: For) -> Body:
        if s.var in self.held:
            return (s,)
        if not any(isinstance(x, Alloc) and x.staging is not None and x.staging.depth > 1 for x in statements(s.body)):
            return (with_bodies(s, self.body(s.body)),)
        s = self.sound(replace(s, body=hoist_copies(s.body, s.var)))
        inner = pipelined_inner_loop(s)
        if inner is not None:
            self.held.add(inner)
        turns = RotatingLoop(self, s) if staged(s.body, s.var) else None
        steady = turns.steady() if turns else s
        steady = replace(steady, body=self.body(steady.body))
        out: Body = (steady,)
        if inner is not None:
            self.held.discard(inner)
            opening = turns.opening() if turns else ()
            made = (
                "the loop around it is written out"
                if turns and turns.named
                else pipeline_across_loop(self, steady, inner, opening)
            )
            if isinstance(made, str):
                self.note(f"`through` of the loop over `{inner.name}`: {made}; its copies begin anew each time")
                out = (replace(steady, body=self.body(steady.body)),)
            else:
                out = made
                if turns and opening:
                    return turns.around(out, primed=True)
        return turns.around(out) if turns else out

    def sound(self, s: For) -> For:
        """The loop, in which only those buffers rotate that can."""
        if (trips := (s.stop - s.start).constant) is not None and trips < 2:
            return replace(s, body=without_rotation(s.body, lambda a: is_rotating(a, s.var)))
        refused: dict[str, str] = {}
        stored = written(s.body, tuple(self.instrs.values()))
        found = {a.buffer.name for head, _ in batches_of(s.body, s.var, ()) for a in chain(head, s.var)[0]}
        again: set[str] = set()  # COPIED_AGAIN
        for head, context in batches_of(s.body, s.var, ()):
            allocs, _, _ = chain(head, s.var)
            names = tuple(x for x in context if isinstance(x, Let))
            conds = [plain(c, names) for x in context if isinstance(x, If) for c in x.conds]
            for a in allocs:
                own = {x.buffer.name for x in statements(copy_of(a)) if isinstance(x, Alloc)} | {a.buffer.name}
                if s.step.constant != 1 or any(s.var in c.variables() for c in conds):
                    refused[a.buffer.name] = "what is moved is not the next in turn"
                elif made := (buffers_used(copy_of(a)) - own) & stored:  # NOTHING_NEW
                    if made <= found:
                        again.add(a.buffer.name)
                    else:
                        refused[a.buffer.name] = "the loop writes what it copies"
        for a in staged(s.body, s.var):
            if a.buffer.name not in found:
                refused[a.buffer.name] = "it is not filled once a turn"
        for name, why in refused.items():
            self.note(f"`pipeline` of `{name}`: {why}; one buffer")
        left = again | refused.keys()
        if not left:
            return s
        return replace(s, body=without_rotation(s.body, lambda a: is_rotating(a, s.var) and a.buffer.name in left))


class RotatingLoop:
    """A loop and the buffers that take turns over it."""

    def __init__(self, stager: CopyPipeliner, s: For) -> None:
        self.stager = stager
        trips = (s.stop - s.start).constant
        depths = {a.buffer.name: a.staging.depth for a in staged(s.body, s.var) if a.staging is not None}
        if trips is not None:
            depths = {name: max(1, min(n, trips)) for name, n in depths.items()}

        slots: dict[str, Expr] = {}
        named: dict[int, Let] = {}
        for a in staged(s.body, s.var):
            name, depth = a.buffer.name, depths[a.buffer.name]
            slots[name] = (s.var - s.start) % depth
            if not stager.private(a.buffer):
                if depth not in named:
                    named[depth] = Let(Var(stager.fresh("slot"), 0, depth - 1), slots[name], span=s.span)
                slots[name] = as_expr(named[depth].var)

        def place(name: str, coords: tuple[Expr, ...]) -> tuple[Expr, ...]:
            return (slots[name], *coords) if name in slots else coords

        self.s = s = replace(s, body=(*named.values(), *map_places(s.body, place)))
        self.batches: dict[str, CopyBatch] = {}
        self.first: list[Body] = []  # what each batch issues in a turn, of asynchronous copies
        for head, context in batches_of(s.body, s.var, ()):
            allocs, lets, rest = chain(head, s.var)
            entries = tuple(self.entry(a, depths[a.buffer.name]) for a in allocs)
            self.batches[head.buffer.name] = CopyBatch(entries, context, lets, rest)
        self.ahead = max(b.ahead for b in self.batches.values())
        self.named = any(e.private for b in self.batches.values() for e in b.entries)

    def entry(self, a: Alloc, depth: int) -> CopyEntry:
        stager, b = self.stager, a.buffer
        copy, private = stager.body(copy_of(a)), stager.private(b)
        kinds = asynchronous_kinds(copy, stager.instrs)
        halves = None
        if not kinds and not private and depth > 1:  # TWO_HALVES
            halves = split_copy(copy, b.name, SplitContext(stager.instrs, stager.private, stager.register, stager.fresh))
            if halves is None or not stager.fits(halves.held):
                why = "is more than a unit's registers hold on the way" if halves else "does not pass through registers"
                stager.note(f"`pipeline` of `{b.name}`: what one unit copies {why}; it is stored as soon as it is loaded")
                halves = None
        last = self.s.var.hi  # of few turns the first buffer is never taken again, and its number is just the turn's
        often = halves is not None and (last is None or last >= depth)
        total = often and halves is not None and halves.computes_always
        always = total or (often and (self.s.stop - self.s.start).constant is not None)
        return CopyEntry(stager.rotating_buffer(b, depth), copy, depth, private, kinds, halves, a.span, total, always)

    # ------------------------------------------------------------ the parts

    def steady(self) -> For:
        body = self.rewritten(self.s.body)
        return replace(self.s, body=body)

    def opening(self) -> Body:
        """What a turn issues, where that is all asynchronous, of one turn and of one group."""
        batches = list(self.batches.values())
        entries = [e for b in batches for e in b.entries]
        if len(batches) > 1 or not all(len(e.kinds) == 1 and grouped(e.kinds[0]) for e in entries):
            return ()
        if any(isinstance(x, If) for x in batches[0].context) or len({(e.ahead, e.kinds) for e in entries}) > 1:
            return ()
        return (*self.first[0], *commits(batches[0].kinds))

    def around(self, main: Body, primed: bool = False) -> Body:
        """All buffers, the prologue and what the loop became. `primed`: the first turn has issued its copies as well."""
        entries = [e for b in self.batches.values() for e in b.entries]
        body: Body = (*self.prologue(self.ahead + primed), *(self.named_turns(main) if self.named else main))
        for e in reversed(entries):
            body = with_buffers((e.buffer, *reversed(e.halves.held if e.halves else ())), body, e.span)
        return body

    def rewritten(self, body: Body) -> Body:
        out: list[Stmt] = []
        for s in body:
            if isinstance(s, Alloc) and is_rotating(s, self.s.var):
                batch = self.batches[s.buffer.name]
                out += [*batch.lets, *self.head(batch), *self.rewritten(batch.rest), *self.tail(batch)]
            else:
                out.append(map_bodies(s, self.rewritten))
        return tuple(out)

    def head(self, batch: CopyBatch) -> Body:
        """STEADY, BEFORE_WAITS: what a turn begins with."""
        waits = [w for kind in batch.kinds for w in self.wait(kind, batch)]
        first = [(e.ahead, e.copy) for e in batch.entries if e.kinds]
        loads = [(e.ahead, e.halves.early) for e in batch.entries if e.halves and not e.total]
        others = [(e.ahead, e.copy) for e in batch.entries if not e.kinds and not e.halves]
        issued, last = self.issued(batch, first), self.s.stop - 1
        self.first.append(issued)
        total = [x for e, h in batch.total for x in self.at(batch, minimum(self.s.var + e.ahead, last), h.early)]
        return (*self.issued(batch, loads), *total, *waits, *issued, *commits(batch.kinds), *self.issued(batch, others))

    def tail(self, batch: CopyBatch) -> Body:
        issued = self.issued(batch, [(e.ahead, e.halves.late) for e in batch.entries if e.halves and not e.stored_always])
        always = [(e.ahead, e.halves.late) for e in batch.entries if e.halves and e.stored_always]
        return (*issued, *(x for ahead, late in always for x in self.at(batch, self.s.var + ahead, late)))

    def issued(self, batch: CopyBatch, parts: list[tuple[int, Body]]) -> Body:
        """Each part as of a later turn, if there is that turn; those of one turn under one condition."""
        out: list[Stmt] = []
        for ahead in dict.fromkeys(n for n, _ in parts):
            body = tuple(x for n, part in parts if n == ahead for x in part)
            then = self.s.var + ahead
            out.append(If((self.s.stop - 1 - then,), self.at(batch, then, body), turns=True))
        return tuple(out)

    def at(self, batch: CopyBatch, turn: Expr, body: Body) -> Body:
        """The statements as of another turn, with the names that depend on it."""
        lets = names_that_depend(self.s.var, (*batch.context, *batch.lets))
        here = rename_locals(prune_empty((*lets, *body)), self.stager.fresh)
        return map_exprs(here, lambda e: e.subs({self.s.var: turn}))

    def wait(self, kind: str, batch: CopyBatch) -> Body:
        sharing = sum(kind in b.kinds for b in self.batches.values())
        nearest = batch.least(kind)
        if grouped(kind):  # ONE_GROUP
            return (Wait(kind, nearest * sharing - 1, batch.entries[0].span),)
        calls = sum(least_issued(e.copy, kind, self.stager.instrs) for e in batch.entries)
        some = (nearest - 1) * calls if sharing == 1 else 0
        none = Wait(kind, 0, batch.entries[0].span)
        if not some:
            return (none,)
        full = self.s.stop - 1 - (self.s.var - 1 + batch.ahead)  # COUNTED
        return (If((full,), (replace(none, pending=some),), (none,), turns=True),)

    def prologue(self, turns: int) -> Body:
        """PROLOGUE: the turns before the first one, of which only what runs ahead is left."""
        v = Var(self.stager.fresh("stage"), 0, turns - 1)
        body: list[Stmt] = []
        for batch in self.batches.values():
            inside: list[Stmt] = []
            for e in batch.entries:
                late = self.ahead - e.ahead
                turn = self.s.start + v - late
                conds = (self.s.stop - 1 - turn, *([v - late] if late else []))
                inside.append(If(conds, self.at(batch, turn, e.copy), turns=True))
            around = (*batch.context, *batch.lets)
            depending = names_that_depend(self.s.var, around)
            context = tuple(s for s in around if s not in depending)
            body += prune_empty(wrap_context(context, (*merged_conditions(inside), *commits(batch.kinds))))
        if turns == 1:
            return map_exprs(tuple(body), lambda e: e.subs({v: ZERO}))
        return (For(v, ZERO, as_expr(turns), ONE, tuple(body), 0 if self.named else 1, self.s.span),)

    def named_turns(self, main: Body) -> Body:
        """NAMED"""
        at = next(n for n, x in enumerate(main) if isinstance(x, For) and x.var == self.s.var)
        s = main[at]
        assert isinstance(s, For)
        trips = (s.stop - s.start).constant
        if trips is not None and trips <= UNROLLED:
            return (*main[:at], replace(s, unroll=0), *main[at + 1 :])
        n = lcm(*(e.depth for b in self.batches.values() for e in b.entries if e.private))
        outer = Var(self.stager.fresh(s.var.name), 0, None if s.var.hi is None else s.var.hi // n)
        inner = Var(self.stager.fresh(f"{s.var.name}_turn"), 0, n - 1)
        turn = s.start + outer * n + inner
        body = map_exprs(s.body, lambda e: e.subs({s.var: turn}))
        inside = For(inner, ZERO, as_expr(n), ONE, (If((s.stop - 1 - turn,), body, turns=True),), 0, s.span)
        whole = For(outer, ZERO, ceildiv(s.stop - s.start, n), ONE, (inside,), 1, s.span)
        return (*main[:at], whole, *main[at + 1 :])


def commits(kinds: tuple[str, ...]) -> tuple[Commit, ...]:
    return tuple(Commit(k) for k in kinds if grouped(k))


__all__ = ["Staging", "pipeline_copies"]
