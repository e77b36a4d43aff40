"""The value of each element of each tensor by its op: every statement over its whole index space, in any domain.

It shares no code with lowering. It stores the contributions of a reduction, to report the one at fault.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from ...dsl.op import Op, Statement
from ...dsl.semantics.numerics import identity
from ...dsl.types import TYPES
from ...dsl.values import Load
from ..interpret.domain import Array, Domain, picked, put
from ..interpret.frame import Frame, UnitVariables
from ..interpret.value import evaluate

COMBINE = {"sum": "add", "prod": "mul", "max": "max", "min": "min", "any": "or", "all": "and"}


@dataclass(frozen=True)
class ExpectedValue:
    """A statement's values; of a reduction also what each point contributes: shape (*free extents, *reduced extents)."""

    statement: Statement
    values: Array
    parts: Array | None = None


def expected_values(op: Op, inputs: Mapping[str, Array], domain: Domain) -> dict[str, ExpectedValue]:
    """The statements by target. `op`: its sizes and parameters are numbers."""
    known: dict[str, Array] = dict(inputs)
    out: dict[str, ExpectedValue] = {}
    for s in op.statements:
        out[s.target] = meant = _statement(s, known, domain)
        own = s.value.dtype if s.reduction is None or not s.reduction.kind.startswith("arg") else TYPES["i64"]
        known[s.target] = domain.cast(meant.values, own, op.tensor(s.target).dtype)
    return {name: ExpectedValue(m.statement, known[name], m.parts) for name, m in out.items()}


def _statement(s: Statement, known: Mapping[str, Array], domain: Domain) -> ExpectedValue:
    reduced = s.reduction.indices if s.reduction else ()
    names = [*s.indices, *reduced]
    extents = [s.extent(i).constant or 0 for i in names]
    env = UnitVariables()
    for name, axis in zip(names, np.indices(extents, sparse=True), strict=True):
        env[name] = np.broadcast_to(axis, extents).reshape(-1)
    frame = Frame(np.arange(prod(extents)), env)
    dtype = s.value.dtype
    if not len(frame.ids):
        values = np.empty(extents, domain.storage(dtype))
    else:
        found = evaluate(s.value, frame, lambda at, inner: _load(at, inner, known, domain), domain)
        values = np.broadcast_to(found, frame.ids.shape).reshape(extents)
    if s.reduction is None:
        return ExpectedValue(s, values)
    free = tuple(extents[: len(s.indices)])
    flat = values.reshape(*free, prod(extents[len(free) :]))
    return ExpectedValue(s, reduction(s.reduction.kind, flat, s, domain), values)


def reduction(kind: str, flat: Array, s: Statement, domain: Domain) -> Array:
    """Over the last axis, from the first to the last."""
    dtype, free = s.value.dtype, flat.shape[:-1]
    if not all(free):
        return np.empty(free, domain.storage(dtype))
    if kind in ("argmax", "argmin"):
        best, where = flat[..., 0], np.broadcast_to(domain.number(0, TYPES["i64"]), free)
        for n in range(1, flat.shape[-1]):
            index = np.broadcast_to(domain.number(n, TYPES["i64"]), free)
            take = domain.better(kind, flat[..., n], index, best, where)
            best, where = np.where(take, flat[..., n], best), np.where(take, index, where)
        return where
    if not flat.shape[-1]:
        return np.broadcast_to(domain.constant(identity(kind, dtype).item(), dtype), free)
    wide = dtype.compute
    total = domain.cast(flat[..., 0], dtype, wide)
    for n in range(1, flat.shape[-1]):
        total = domain.apply(COMBINE[kind], (total, domain.cast(flat[..., n], dtype, wide)), wide)
    return total


def _load(at: Load, frame: Frame, known: Mapping[str, Array], domain: Domain) -> Array:
    tensor = known[at.tensor]
    where = [np.broadcast_to(e.evaluate(frame.env), frame.ids.shape) for e in at.indices]
    if at.otherwise is None:
        return np.broadcast_to(picked(tensor, tuple(where)), frame.ids.shape)
    inside = np.ones(len(frame.ids), np.bool_)
    for x, extent in zip(where, tensor.shape, strict=True):
        inside &= (x >= 0) & (x < extent)
    out = np.empty(len(frame.ids), domain.storage(at.dtype))
    if inside.any():
        put(out, inside, picked(tensor, tuple(x[inside] for x in where)))
    if not inside.all():
        rest = frame.sub(~inside)
        put(out, ~inside, evaluate(at.otherwise, rest, lambda a, f: _load(a, f, known, domain), domain))
    return out
