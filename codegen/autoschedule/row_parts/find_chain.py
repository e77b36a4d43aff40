"""Reductions of rows that follow each other, of which one pass over a row, or over its parts, computes all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....dsl import syntax
from ....dsl.device import Device
from ....dsl.errors import UserError
from ....dsl.op import Op
from ....dsl.values import loads
from ...lower.reductions.dependent_reductions import Dependence, dependences
from ...lower.reductions.split_reduction import splits_any_reduction
from ...lower.spec import Focus
from ...plan.computations import Computation
from ...plan.group_launches import launch_keeping
from ...schedule.build_tree import modifier
from ..cpu.default_nests import row_statistics


@dataclass(frozen=True)
class RowChain:
    """`results`: the names of the accumulators of the `reductions`, which go over `fast` for each of the `rows`."""

    rows: tuple[str, ...]
    fast: str
    reductions: tuple[Computation, ...]
    results: tuple[str, ...]

    @property
    def row_count(self) -> int | None:
        """If it is known."""
        extents, count = dict(self.reductions[0].extents), 1
        for x in self.rows:
            n = extents[x].constant
            if n is None:
                return None
            count *= n
        return count

    @property
    def length(self) -> int | None:
        """If it is known."""
        return dict(self.reductions[0].extents)[self.fast].constant


def row_chain(computations: tuple[Computation, ...]) -> RowChain | None:
    """Of a launch; None where the computations are something else."""
    reductions = tuple(w for w in computations if w.reduction is not None)
    if len(reductions) < 2 or len({w.indices for w in reductions}) > 1 or len({w.reduced for w in reductions}) > 1:
        return None
    rows, along = reductions[0].indices, reductions[0].reduced
    finishes = all({*w.indices} <= {*rows} for w in computations if w.reduction is None)
    if len(along) != 1 or not finishes or any(w.domain or w.fused for w in reductions):
        return None
    (fast,) = along
    try:
        chain = dependences(Focus(computations, {}, "", "", {}), fast, None)
    except UserError:
        return None
    if not chain or not all(_is_in_pass(w, chain) for w in reductions):
        return None
    read = {t for w in computations for t in w.reads}
    results = tuple(next((t for t in w.targets if t in read), w.result) for w in reductions)
    return RowChain(rows, fast, reductions, results)


def _is_in_pass(w: Computation, chain: Sequence[Dependence]) -> bool:
    """Does it belong to the chain, or do its terms read none of it?"""
    members = [x for d in chain for x in (d.statistic, d.reduction)]
    results = {t for x in members for t in x.targets}
    return any(x.name == w.name for x in members) or results.isdisjoint(ld.tensor for ld in loads(w.value))


def joined_statistics(op: Op, device: Device, lines: tuple[syntax.Line, ...]) -> frozenset[str]:
    """Statistics that share a launch with their readers. Where its lines split a reduction, these read its result, and share
    none, but for a pass over the parts."""
    found = row_statistics(op, device)
    if not found or not splits_any_reduction(op, device, lines):
        return found
    online = any(isinstance(x, syntax.Tile) and modifier(x, "online") is not None for x in lines)
    whole = launch_keeping(op, found) if online else None
    return found if whole is not None and row_chain(whole) is not None else frozenset()
