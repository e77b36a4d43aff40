"""Roles: a schedule written for one op serves every op that does the same contraction.

`for gemm` unifies gemm's statement with the contraction of the op in hand; `for linear as gemm(A = X, B = W)` says which tensor
plays which; `for contraction` binds the indices b, m, n, k and the tensors left, right, result.
"""

from __future__ import annotations

from typing import Any

from ..dsl import syntax
from ..dsl.errors import did_you_mean
from ..dsl.errors.schedule import ScheduleDoesNotFit, UnknownOpInSchedule
from ..dsl.index import Var
from ..dsl.op import Op, Statement
from ..dsl.values import Load, loads
from .elaborate import Roles


def roles_of(module: Any, op: Op, decl: syntax.ScheduleDecl) -> Roles:
    """How the schedule's names map to the op's."""
    if decl.op == "contraction":
        return _contraction_roles(op, decl)
    wanted = decl.role or decl.op
    if decl.op == op.name and decl.role is None:
        return Roles()
    ops = getattr(module, "ops", {})
    pattern = ops.get(wanted)
    if pattern is None:
        raise UnknownOpInSchedule(
            f"schedule `{decl.name}` is for `{wanted}`, which is no op here", decl.span, help=did_you_mean(wanted, ops)
        )
    return _unified(pattern, op, decl)


def contraction_of(op: Op) -> Statement | None:
    """The op's sum of products; the one with most indices if there are several."""
    found = [s for s in op.statements if s.reduction is not None and s.reduction.kind == "sum" and len(loads(s.value)) == 2]
    return max(found, key=lambda s: len(s.ranges), default=None)


def _sides(s: Statement) -> tuple[Load, Load]:
    left, right = loads(s.value)
    return left, right


def _used(ld: Load) -> set[str]:
    return {v.name for e in ld.indices for v in e.variables()}


def _contraction_roles(op: Op, decl: syntax.ScheduleDecl) -> Roles:
    s = contraction_of(op)
    if s is None or s.reduction is None:
        raise ScheduleDoesNotFit(f"`{op.name}` has no contraction, a sum of products of two tensors", decl.span)
    left, right = _sides(s)
    lu, ru = _used(left), _used(right)
    groups = {
        "b": [i for i in s.indices if i in lu and i in ru],
        "m": [i for i in s.indices if i in lu and i not in ru],
        "n": [i for i in s.indices if i in ru and i not in lu],
        "k": list(s.reduction.indices),
    }
    names = [("left", left.tensor), ("right", right.tensor), ("result", s.target)]
    fuses: list[syntax.Fuse | syntax.Tile] = []
    for role, group in groups.items():
        if len(group) == 1:
            names.append((role, group[0]))
        elif group:
            name = role if role not in {i for i, _ in s.ranges} else "".join(group)
            fuses.append(syntax.Fuse(tuple(group), name))
            names.append((role, name))
    # Batches that the schedule does not name are taken one at a time: a tile held for all of them would have no bound.
    if groups["b"] and not any(a.index == "b" for x in decl.lines if isinstance(x, syntax.Tile) for a in x.axes):
        fuses.append(syntax.Tile((syntax.TileAxis(dict(names)["b"], syntax.Num(1)),)))
    return Roles(tuple(names), tuple(fuses))


def _unified(pattern: Op, op: Op, decl: syntax.ScheduleDecl) -> Roles:
    """The pattern's contraction laid over the op's: tensors by `as ROLE(A = X)` or in order, indices by where they occur."""
    p, s = contraction_of(pattern), contraction_of(op)
    if p is None or s is None or p.reduction is None or s.reduction is None:
        raise ScheduleDoesNotFit(f"`{op.name}` does not contain the contraction of `{pattern.name}`", decl.span)
    given = dict(decl.bindings)
    (pl, pr), (sl, sr) = _sides(p), _sides(s)
    orders = [(sl, sr), (sr, sl)]
    for a, b in orders:
        if any(given.get(x.tensor, y.tensor) != y.tensor for x, y in ((pl, a), (pr, b))):
            continue
        names = _indices(p, s, (pl, pr), (a, b))
        if names is not None:
            tensors = [(pl.tensor, a.tensor), (pr.tensor, b.tensor), (p.target, s.target)]
            return Roles((*tensors, *names))
    raise ScheduleDoesNotFit(
        f"the contraction of `{op.name}` is not that of `{pattern.name}`",
        decl.span,
        help=f"say who plays whom: `for {op.name} as {pattern.name}({pl.tensor} = ..., {pr.tensor} = ...)`",
    )


def _indices(p: Statement, s: Statement, ours: tuple[Load, Load], theirs: tuple[Load, Load]):
    def signature(st: Statement, i: str, sides: tuple[Load, Load]) -> tuple[bool, ...]:
        return (i in st.indices, *(i in _used(x) for x in sides))

    out = []
    left = [i for i, _ in s.ranges]
    for i, _ in p.ranges:
        fits = [j for j in left if signature(s, j, theirs) == signature(p, i, ours)]
        if len(fits) != 1:
            return None
        out.append((i, fits[0]))
    return out if len(out) == len(left) else None


__all__ = ["Var", "contraction_of", "roles_of"]
