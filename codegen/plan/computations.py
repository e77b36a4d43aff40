"""A computation of a launch: one statement of a spec, the buffers that it stores, and facts about its indices."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...dsl.index.expr import Expr, Var, as_expr
from ...dsl.op import Reduction
from ...dsl.source import Span
from ...dsl.support.cached import cached_property
from ...dsl.support.fast_replace import replace
from ...dsl.types import TYPES
from ...dsl.values import IndexValue, Load, Masked, Value, loads, transform, walk
from .derived_names import Accumulator, ArgreduceIndex, result_of
from .restricted_terms import restricted_term

# Fused index -> its components (name, extent, where it begins), outermost first; later ones may fuse earlier ones.
Fused = tuple[tuple[str, tuple[tuple[str, Expr, Expr], ...]], ...]


@dataclass(frozen=True)
class Output:
    """One store of a computation's result: `tensor[indices] = value`, where the result is read as a load of the work's name.

    `span`: of the statement that says so, where it is not the work's own.
    """

    tensor: str
    indices: tuple[str, ...]
    value: Value
    atomic: str | None = None  # combined with what is there: sum, max, min
    span: Span | None = None


@dataclass(frozen=True)
class Computation:
    """One statement of a spec: `name[indices] = reduction value`, then what is stored.

    `outputs` empty: the result itself is stored to the tensor `name`.
    """

    name: str
    indices: tuple[str, ...]
    value: Value
    reduction: Reduction | None
    extents: tuple[tuple[str, Expr], ...]
    outputs: tuple[Output, ...] = ()
    span: Span | None = None
    fused: Fused = ()

    subscripts: tuple[str, ...] = ()  # what the target is stored at, where that is not `indices` themselves
    atomic: str | None = None
    using: str | None = None  # the instruction, or its family, that stores to the target where it can

    @cached_property
    def alias(self) -> dict[str, str]:
        """Component -> the fused index that stands for it."""
        out: dict[str, str] = {}
        for name, parts in reversed(self.fused):
            out |= {c: out.get(name, name) for c, _, _ in parts}
        return out

    @cached_property
    def reduced(self) -> tuple[str, ...]:
        return self.reduction.indices if self.reduction else ()

    @cached_property
    def all_indices(self) -> tuple[str, ...]:
        return self.indices + self.reduced

    @cached_property
    def targets(self) -> tuple[str, ...]:
        """Tensors this work stores."""
        return tuple(o.tensor for o in self.outputs) or (self.name,)

    @cached_property
    def result(self) -> str:
        """The tensor that this computes, where `name` is that of its accumulator."""
        return result_of(self.name)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What lines call this: its result, and the tensors it stores."""
        return (self.result, *self.targets)

    @cached_property
    def accumulators(self) -> tuple[str, ...]:
        """What a reduction accumulates: its value, and for argmax and argmin the index."""
        argreduce = self.reduction is not None and self.reduction.kind in ("argmax", "argmin")
        return (self.name, ArgreduceIndex(self.name)) if argreduce else (self.name,)

    @cached_property
    def domain(self) -> tuple[Expr, ...]:
        """What is at least 0 for the terms of a reduction that count; others add its neutral value."""
        return restricted_term(self.reduction.kind, self.value)[0] if self.reduction is not None else ()

    @cached_property
    def term(self) -> Value:
        """The value where the term counts."""
        return restricted_term(self.reduction.kind, self.value)[1] if self.reduction is not None else self.value

    def leaf_order(self, order: tuple[str, ...]) -> list[str]:
        """All indices as a leaf visits them, outermost first: those of `order`, then reduced ones, then the others."""
        names = [*self.reduced, *self.indices]
        return [i for i in order if i in names] + [i for i in names if i not in order]

    def subscripts_of(self, tensor: str) -> tuple[str, ...]:
        """The indices that a target has for its axes; components of fused indices by their own names."""
        return next((o.indices for o in self.outputs if o.tensor == tensor), self.subscripts or self.indices)

    def stored_indices(self, tensor: str) -> tuple[str, ...]:
        """The same, fused ones once."""
        return tuple(dict.fromkeys(self.alias.get(i, i) for i in self.subscripts_of(tensor)))

    @cached_property
    def reads(self) -> frozenset[str]:
        values = [self.value, *(o.value for o in self.outputs)]
        return frozenset(ld.tensor for v in values for ld in loads(v)) - {self.name}

    @cached_property
    def found(self) -> dict[object, Any]:
        """What others worked out from it: how it is what an instruction does (`match_instr`, by what that is), its problem."""
        return {}


def rename_indices(value: Value, names: dict[str, Expr]) -> Value:
    """Index variables replaced by expressions, everywhere in the value."""
    mapping = {Var(k): v for k, v in names.items()}
    return substitute(value, mapping)


def substitute(value: Value, mapping: dict[Var, Expr]) -> Value:
    def step(v: Value) -> Value | None:
        match v:
            case Load():
                other = substitute(v.otherwise, mapping) if v.otherwise is not None else None
                return replace(v, indices=tuple(e.subs(mapping) for e in v.indices), otherwise=other)
            case IndexValue():
                return replace(v, expr=v.expr.subs(mapping))
            case Masked():
                conds = tuple(c.subs(mapping) for c in v.conds)
                inner, other = substitute(v.value, mapping), substitute(v.otherwise, mapping)
                return replace(v, conds=conds, value=inner, otherwise=other)
        return None

    return transform(value, step)


def accumulating(w: Computation) -> Computation:
    """A reduction's accumulator gets a name apart from the tensor it is stored to."""
    if w.reduction is None:
        return w
    at = tuple(as_expr(Var(i)) for i in w.indices)
    own = Accumulator(w.name)
    outputs = w.outputs or (Output(w.name, w.indices, Load(w.name, at, TYPES["f32"])),)
    kind = TYPES["i64"] if w.reduction.kind in ("argmax", "argmin") else w.value.dtype

    def step(v: Value) -> Value | None:
        return replace(v, tensor=own, dtype=kind) if isinstance(v, Load) and v.tensor == w.name else None

    return replace(w, name=own, outputs=tuple(replace(o, value=transform(o.value, step)) for o in outputs))


def plain_var(e: Expr) -> Var | None:
    """The index when the expression is just that index."""
    return e.atom if isinstance(e.atom, Var) else None


def plain_index(e: Expr) -> str | None:
    """The name of the index when the expression is just that index."""
    v = plain_var(e)
    return v.name if v else None


def reads_in_terms_alone(w: Computation, tensor: str, indices: Sequence[str]) -> bool:
    """Whether a reduction reads a tensor at these indices only, and nothing that is computed of its result reads it."""
    read = {tuple(map(plain_index, ld.indices)) for ld in loads(w.value) if ld.tensor == tensor}
    return read == {tuple(indices)} and not any(ld.tensor == tensor for o in w.outputs for ld in loads(o.value))


def fused_name(indices: Sequence[str]) -> str:
    """The name of one index for several, without the dots that only parts of names have: `m` and `j.2` make `mj2`."""
    return indices[0] if len(indices) == 1 else "".join(i.replace(".", "") for i in indices)


def computation_extents(w: Computation) -> dict[str, Expr]:
    """Extents of a computation's indices, fused ones included."""
    extents = dict(w.extents)
    for fused_name, parts in w.fused:
        size: Expr = as_expr(1)
        for _, e, _ in parts:
            size = size * e
        extents[fused_name] = size
    return extents


def unheld_indices(reads: Sequence[Load], alias: Mapping[str, str], known: Collection[str] | None = None) -> set[str]:
    """The indices, sizes too, that `else` values depend on and a copy of what these accesses read does not tell apart.

    alias   index -> the fused one that stands for it
    known   the indices that the copy has as axes. None: those that it has without the author's word. A view has the indices of
            its subscripts, a box of the tensor none (BOX_OR_VIEW, `lower_move`).
    """
    if known is None:
        read = {alias.get(v.name, v.name) for ld in reads for e in ld.indices for v in e.variables()}
        known = read if is_read_as_view(reads, alias) else ()
    values = (v for ld in reads if ld.otherwise is not None for v in walk(ld.otherwise))
    return {x.name for v in values for e in _index_terms(v) for x in e.variables() if alias.get(x.name, x.name) not in known}


def is_read_as_view(reads: Sequence[Load], alias: Mapping[str, str]) -> bool:
    """Whether a copy of what these accesses read has indices as its axes: some are fused, or one subscripts several axes (a
    diagonal is not copied as a box)."""
    if any(v.name in alias for ld in reads for e in ld.indices for v in e.variables()):
        return True
    plain = [i for i in map(plain_index, reads[0].indices) if i is not None]
    return len(set(plain)) < len(plain) and len({ld.indices for ld in reads}) == 1


def _index_terms(v: Value) -> tuple[Expr, ...]:
    """The index expressions of the outermost value alone."""
    match v:
        case IndexValue(expr=e):
            return (e,)
        case Load(indices=terms) | Masked(conds=terms):
            return terms
    return ()


def indices_of(v: Value, alias: Mapping[str, str]) -> set[str]:
    """Index names that occur in the value's loads, index terms and conditions (fused ones for their components)."""
    return {alias.get(x.name, x.name) for part in walk(v) for e in _index_terms(part) for x in e.variables()}
