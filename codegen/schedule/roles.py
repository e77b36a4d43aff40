"""Roles: a schedule written for one op serves every op that does the same contraction.

`for gemm` unifies gemm's statement with the op's contraction; `for linear as gemm(A = X, B = W)` maps the tensors explicitly;
`for contraction` binds the indices b, m, n, k and the tensors left, right, result.
"""

from __future__ import annotations

from typing import Any

from ...dsl import syntax
from ...dsl.errors import did_you_mean
from ...dsl.errors.schedule import AmbiguousRole, ScheduleDoesNotFit, UnknownOpInSchedule, UnknownTensorInSchedule
from ...dsl.op import Op, Statement
from ...dsl.values import Load, loads
from ..ir.free_names import underscored_name
from ..plan.computations import fused_name
from ..plan.name_factors import name_factors
from .elaborate import RoleNames


def roles_of(module: Any, op: Op, decl: syntax.ScheduleDecl) -> RoleNames:
    """How the schedule's names map to the op's."""
    if decl.op == "contraction":
        return _contraction_roles(op, decl)
    wanted = decl.role or decl.op
    if decl.op == op.name and decl.role is None:
        return RoleNames()
    ops = getattr(module, "ops", {})
    pattern = ops.get(wanted)
    if pattern is None:
        raise UnknownOpInSchedule(
            f"schedule `{decl.name}` is for `{wanted}`, which is no op here", decl.span, help=did_you_mean(wanted, ops)
        )
    return _unified(pattern, op, decl)


def contractions_of(op: Op) -> list[Statement]:
    """The op's sums of products; those with most indices if there are several. Computed factors have names (`name_factors`)."""
    found = [
        s
        for s in name_factors(op).statements
        if s.reduction is not None and s.reduction.kind == "sum" and len(loads(s.value)) == 2
    ]
    most = max((len(s.ranges) for s in found), default=0)
    return [s for s in found if len(s.ranges) == most]


def contraction_of(op: Op) -> Statement | None:
    """The first of them."""
    return next(iter(contractions_of(op)), None)


def _one(op: Op, found: list[Statement], decl: syntax.ScheduleDecl, way_out: str) -> Statement:
    if len(found) > 1:
        names = " and ".join(f"`{s.target}`" for s in found)
        raise AmbiguousRole(f"`{op.name}` has several contractions that fit: {names}", decl.span, help=way_out)
    return found[0]


def _sides(s: Statement) -> tuple[Load, Load]:
    left, right = loads(s.value)
    return left, right


def _used(ld: Load) -> set[str]:
    return {v.name for e in ld.indices for v in e.variables()}


def _contraction_roles(op: Op, decl: syntax.ScheduleDecl) -> RoleNames:
    found = contractions_of(op)
    if not found:
        raise ScheduleDoesNotFit(
            f"`{op.name}` has no contraction, a sum of products of two tensors", decl.span, help=f"write `for {op.name}`"
        )
    s = _one(op, found, decl, f"write the schedule `for {op.name}`, in the op's own names")
    assert s.reduction is not None
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
            name = _free(role, group, op)
            fuses.append(syntax.Fuse(tuple(group), name))
            names.append((role, name))
    # Batches that the schedule does not name are taken one at a time: a tile held for all of them would have no bound.
    if groups["b"] and not any(a.index == "b" for x in decl.lines if isinstance(x, syntax.Tile) for a in x.axes):
        fuses.append(syntax.Tile((syntax.TileAxis(dict(names)["b"], syntax.Num(1)),)))
    return RoleNames(tuple(names), tuple(fuses))


def _free(role: str, group: list[str], op: Op) -> str:
    """A name for the fused index: the role's own unless the op has it."""
    taken = {i for x in op.statements for i, _ in x.ranges} - set(group)
    taken |= {t.name for t in op.tensors} | {v.name for v in op.dims}
    taken |= {v.name for v, _ in op.derived} | {n for n, _ in op.params}
    return underscored_name(role if role not in taken | set(group) else fused_name(group), taken)


def _unified(pattern: Op, op: Op, decl: syntax.ScheduleDecl) -> RoleNames:
    """The pattern's contraction laid over the op's: tensors by `as ROLE(A = X)` or in order, indices by where they occur."""
    p, candidates = contraction_of(pattern), contractions_of(op)
    if p is None or not candidates:
        which = pattern if p is None else op
        raise ScheduleDoesNotFit(
            f"`{which.name}` has no contraction, a sum of products of two tensors", decl.span, help=f"write `for {op.name}`"
        )
    _check_bindings(p, op, decl)
    given = dict(decl.bindings)
    pl, pr = _sides(p)
    help = f"say who plays whom: `for {op.name} as {pattern.name}({pl.tensor} = ..., {pr.tensor} = ...)`"
    fits: dict[int, RoleNames] = {}
    for n, s in enumerate(candidates):
        sl, sr = _sides(s)
        for a, b in ((sl, sr), (sr, sl)):
            pairs = ((pl.tensor, a.tensor), (pr.tensor, b.tensor), (p.target, s.target))
            names = _indices(p, s, (pl, pr), (a, b))
            if names is not None and n not in fits and all(given.get(x, y) == y for x, y in pairs):
                fits[n] = RoleNames((*pairs, *names))
    if not fits:
        raise ScheduleDoesNotFit(f"the contraction of `{op.name}` is not that of `{pattern.name}`", decl.span, help=help)
    _one(op, [candidates[n] for n in fits], decl, help)
    return next(iter(fits.values()))


def _check_bindings(pattern: Statement, op: Op, decl: syntax.ScheduleDecl) -> None:
    """Raises for a role that the pattern does not have, and for a tensor that the op does not have."""
    roles = {*(x.tensor for x in _sides(pattern)), pattern.target}
    tensors = {t.name for t in op.tensors} | {s.target for s in op.statements}
    for role, tensor in decl.bindings:
        if role not in roles:
            raise UnknownTensorInSchedule(f"`{role}` is no role of `{decl.role}`", decl.span, help=did_you_mean(role, roles))
        if tensor not in tensors:
            message = f"`{op.name}` has no tensor `{tensor}`"
            raise UnknownTensorInSchedule(message, decl.span, help=did_you_mean(tensor, tensors))


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
