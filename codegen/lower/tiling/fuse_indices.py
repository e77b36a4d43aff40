"""`fuse n, p, q as m`: one index in place of several, of all computations in focus."""

from __future__ import annotations

from ....dsl import syntax
from ....dsl.errors import did_you_mean
from ....dsl.errors.schedule import BadFuse
from ....dsl.index.expr import Expr, Var, as_expr
from ....dsl.support.fast_replace import replace
from ...ir.schedule_tree import Fuse
from ...plan.computations import Computation, computation_extents, substitute
from ...plan.derived_names import Component, tensor_of
from ..spec import ZERO, Focus, Range


def fuse_indices(focus: Focus, node: Fuse | syntax.Fuse) -> Focus:
    """`fuse n, p, q as m`: one index for several; its components are its digits."""
    ranges = dict(focus.ranges)
    for i in node.indices:
        if i not in ranges:
            raise BadFuse(f"there is no index `{i}` here", node.span, help=did_you_mean(i, ranges))
        if ranges[i].steps:
            raise BadFuse(f"`{i}` is tiled already", node.span, help="write the `fuse` above the tiles")
    for w in focus.computations:
        held = next((t for t in (w.name, *w.targets, *sorted(w.reads)) if _numbers_registers(focus, t, node.indices)), None)
        if held is not None:
            raise BadFuse(
                f"`{tensor_of(held)}` is held in registers that {' and '.join(f'`{i}`' for i in node.indices)} number",
                node.span,
                help="write the `fuse` above the tiles, and above what is held",
            )
    if node.name in ranges and node.name not in node.indices:
        raise BadFuse(f"the name `{node.name}` is taken", node.span, help="give the fused index a name of its own")
    parts = tuple((i, ranges[i].size, ranges[i].base) for i in node.indices)
    size: Expr = as_expr(1)
    for _, e, _ in parts:
        size = size * e
    computations = tuple(_fuse_computation(w, node, parts) for w in focus.computations)
    for i in node.indices:
        if not any(i in w.all_indices for w in computations):
            ranges.pop(i, None)
    ranges[node.name] = Range(as_expr(0), size)
    return replace(focus, computations=computations, ranges=ranges)


def fused_computations(computations: tuple[Computation, ...], line: syntax.Fuse) -> tuple[Computation, ...]:
    """The computations of a launch below a line at its top."""
    extents = {i: e for w in computations for i, e in computation_extents(w).items() if i in w.all_indices}
    return fuse_indices(Focus(computations, {i: Range(ZERO, e) for i, e in extents.items()}, "", "", {}), line).computations


def _numbers_registers(focus: Focus, tensor: str, indices: tuple[str, ...]) -> bool:
    view = focus.views.get(tensor)
    return view is not None and view.form == "path" and not set(indices).isdisjoint(view.axes)


def _fuse_computation(w: Computation, node: Fuse | syntax.Fuse, parts) -> Computation:
    mine = set(node.indices)
    free, reduced = mine & set(w.indices), mine & set(w.reduced)
    if not free and not reduced:
        return w
    if free != mine and reduced != mine:
        one, other = sorted(free), sorted(reduced)
        help = "fuse free indices with each other, and reduced ones with each other"
        if one and other:
            help = f"in the statement of `{tensor_of(w.name)}` {_listed(one)} free, and {_listed(other)} reduced: {help}"
        raise BadFuse("fused indices are all free or all reduced", node.span, help=help)
    new = {c: Component(c) for c in mine if c == node.name}  # `fuse m, n as m`
    names = {Var(c): as_expr(Var(n)) for c, n in new.items()}

    def renamed(v):
        return substitute(v, names) if names else v

    def swap(indices: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(node.name if i in mine else i for i in indices))

    def own(indices: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(new.get(i, i) for i in indices)

    reduction = replace(w.reduction, indices=swap(w.reduced)) if w.reduction and reduced else w.reduction
    return replace(
        w,
        indices=swap(w.indices) if free else w.indices,
        subscripts=own(w.subscripts or w.indices),
        value=renamed(w.value),
        reduction=reduction,
        outputs=tuple(replace(o, indices=own(o.indices), value=renamed(o.value)) for o in w.outputs),
        fused=(*w.fused, (node.name, tuple((new.get(c, c), e, b) for c, e, b in parts))),
    )


def _listed(names: list[str]) -> str:
    return ", ".join(f"`{n}`" for n in names) + (" is" if len(names) == 1 else " are")
