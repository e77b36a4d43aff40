"""The accumulators of a launch: the statements that start, add to, combine, resume and read each, as lowering says it.

What lowering says is only which points a statement adds (`Contribution`). Whether the statement is one that adds, how often it
is executed, and what it reads, is seen in the tile program.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from ...dsl.index.expr import Expr
from ...dsl.semantics.numerics import identity
from ...dsl.values import Apply, Cast, Const, Load, Masked, Value, loads, walk
from ..ir.program import Program
from ..ir.tile_ir import AllReduce, Call, Contribution, Store
from .accesses import Access, BufferAccesses, Guard

_STEPS = ("start", "add", "resume", "scale", "combine", "restart", "gather", "carry")
_KINDS = {"add": "sum", "mul": "prod", "max": "max", "min": "min", "or": "any", "and": "all"}


@dataclass
class Accumulator:
    """by_role   what is written to it, by what a statement does
    parts     stores of it to memories that units share, by buffer, with the accesses of that buffer
    reads     of it, when its value is wanted
    foreign   whether it is written by statements that say nothing, or do not do what they say
    """

    of: BufferAccesses
    by_role: dict[str, list[Access]] = field(default_factory=dict)
    parts: list[tuple[Access, BufferAccesses]] = field(default_factory=list)
    reads: list[Access] = field(default_factory=list)
    foreign: bool = False

    def role(self, role: str) -> list[Access]:
        return self.by_role.get(role, [])


def role_of(a: Access) -> str:
    """Of `argmax` the accumulator is the index; its value, which stands first in an `AllReduce`, is none."""
    c = contribution_of(a)
    if c is None or (isinstance(a.stmt, AllReduce) and a.stmt.cells[-1][0] != a.buffer.name):
        return ""
    return c.role


def contribution_of(a: Access) -> Contribution | None:
    return a.stmt.contribution if isinstance(a.stmt, Store | Call | AllReduce) else None


def accumulators(program: Program, found: Sequence[BufferAccesses]) -> Iterator[Accumulator]:
    for of in found:
        if any(role_of(w) in _STEPS for w in of.writes):
            yield _accumulator(program, of, found)


def _accumulator(program: Program, of: BufferAccesses, found: Sequence[BufferAccesses]) -> Accumulator:
    out = Accumulator(of)
    for w in of.writes:
        role = role_of(w)
        if role not in _STEPS or not _does(program, w, role) or not _has_value(w, found):
            out.foreign = True
        out.by_role.setdefault(role, []).append(w)
    steps = {id(w.stmt) for w in of.writes}
    for other in found:
        out.parts += [(w, other) for w in other.writes if role_of(w) == "part" and copied_from(w) == of.buffer.name]
    steps |= {id(w.stmt) for w, _ in out.parts}
    steps |= {id(w.stmt) for x in found for w in x.writes if role_of(w).endswith(" value")}
    out.reads = list({(id(r.stmt), r.coords): r for r in of.reads if id(r.stmt) not in steps}.values())
    return out


def _has_value(a: Access, found: Sequence[BufferAccesses]) -> bool:
    """Whether a step of argmax or argmin does the same to the value, after it compared it."""
    c = contribution_of(a)
    if c is None or not c.indexed:
        return True
    writes = (w for x in found for w in x.writes if role_of(w) == f"{c.role} value")
    alike = [w for w in writes if len(w.path) == len(a.path) and all(s is t for s, t in zip(w.path, a.path, strict=True))]
    if len(alike) != 1 or alike[0].coords != a.coords or masks(alike[0]) != masks(a):
        return False
    return alike[0].order > a.order or c.role in ("start", "restart")


def copied_from(a: Access) -> str | None:
    """The buffer of which the statement stores an element as it is, or rounded."""
    at = copied(a)
    return None if at is None else at.tensor


def copied(a: Access) -> Load | None:
    v = a.stmt.value if isinstance(a.stmt, Store) else None
    while isinstance(v, Cast | Masked):
        v = v.arg if isinstance(v, Cast) else v.value
    return v if isinstance(v, Load) else None


def _does(program: Program, a: Access, role: str) -> bool:
    """Whether the statement does what it says to the accumulator itself; how often is another question."""
    s = a.stmt
    match s:
        case AllReduce():
            return role == "combine" and s.cells[-1][0] == a.buffer.name
        case Call():
            instr = next(i for i in program.instrs if i.name == s.instr)
            return role == "add" and instr.accumulate and [p.buffer for p in s.pieces].count(a.buffer.name) == 1
        case Store(atomic=None):
            own = [ld for ld in loads(s.value) if ld.tensor == a.buffer.name]
            if role in ("start", "restart", "resume"):
                return not own and (role == "resume" or not loads(s.value))
            if any(ld.indices != a.coords for ld in own):
                return False
            return bool(own) if role == "scale" else _added(choice(s)[1], own[:1]) is not None
    return False


def _added(v: Value, own: Sequence[Load]) -> Value | None:
    """What is added to the partial result, which is an operand once; of a choice, what may take its place."""
    if not isinstance(v, Apply) or not own:
        return None
    if v.fn in ("where", "fma"):
        one, rest = v.args[2], v.args[:2]
        added = v.args[1] if v.fn == "where" else Apply("mul", v.args[:2], v.dtype)
    elif v.fn in ("add", "mul", "max", "min", "or", "and"):
        (one, added), rest = v.args, v.args[1:]
    else:
        return None
    inside = [ld for x in (rest if v.fn != "where" else rest[1:]) for ld in loads(x) if ld.tensor == own[0].tensor]
    return added if one == own[0] and not inside else None


def choice(s: Store) -> tuple[tuple[Expr, ...], Value]:
    """The conditions without which an element is stored as it is there, and what is stored where they hold."""
    match s.value:
        case Masked(conds=conds, value=value, otherwise=Load(tensor=tensor, indices=at)) if (tensor, at) == (
            s.buffer,
            s.coords,
        ):
            return conds, value
    return (), s.value


def chosen(a: Access) -> Access:
    """The access where it does not store what is there."""
    return guarded(a, choice(a.stmt)[0]) if isinstance(a.stmt, Store) else a


def masks(a: Access) -> tuple[Expr, ...]:
    """The conditions without which a statement adds, or resumes, something else than it does."""
    if not isinstance(a.stmt, Store):
        return ()
    found = [v for v in walk(a.stmt.value) if isinstance(v, Masked) and isinstance(v.otherwise, Const)]
    return tuple(dict.fromkeys(c for v in found for c in v.conds))


def neutral_mask(a: Access) -> tuple[Expr, ...] | None:
    """The conditions without which a statement adds the identity; None where it has no mask around what it adds."""
    s = a.stmt
    step = choice(s)[1] if isinstance(s, Store) else None
    if not isinstance(step, Apply):
        return None
    value = _added(step, [ld for ld in loads(step) if ld.tensor == a.buffer.name][:1])
    while isinstance(value, Cast):
        value = value.arg
    if not isinstance(value, Masked):
        return None
    kind = _KINDS.get(step.fn)
    neutral = kind is not None and value.otherwise == Const(identity(kind, value.dtype).item(), value.dtype)
    return value.conds if neutral else ()


def guarded(a: Access, conds: tuple[Expr, ...]) -> Access:
    return replace(a, path=(*a.path, Guard(conds))) if conds else a
