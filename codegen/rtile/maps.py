"""Nests that compute each result by itself: pointwise works, windows, and reductions along an axis without neighbours.

    tile .., s, f -> outer;  [tile k -> outer by workspace];  [keep];  tile s, f -> group;  tile f -> lanes

COALESCED   lanes go to an axis along which memory has neighbours, several neighbours a lane where a vector takes them.
TURNED      what has its neighbours along another axis is read through a staged tile: both sides move whole transactions.
SHARED_OUT  a long reduction with few results is dealt to groups (who pass their parts on), or split over units.
"""

from __future__ import annotations

from collections.abc import Mapping as Dict
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ...dsl import syntax
from ..lower.context import Context
from .cost import Demand
from .lines import modifier, tile
from .machine import RESERVED, Machine
from .problem import Access, Problem
from .staging import CHUNK
from .tiles import Tiles, crossed, ladder, padded, taken

SETUP = 40  # instructions of a lane before its first element
ROWS = (1, 2, 4, 8, 16, 32)
PARTS = (64, 256, 1024, 4096)  # of a split reduction
TURN = (32, 64)
AHEAD = 4  # loads of a lane that are under way together
WHOLE = ("argmax", "argmin")  # what has no parts


@dataclass(frozen=True)
class Map:
    """Candidates with lanes along `fast`; `slow`: the other axis that a unit has several of ("" for none)."""

    ctx: Context
    machine: Machine
    problem: Problem
    fast: str
    slow: str
    turned: tuple[Access, ...] = ()

    name = "map"

    def __str__(self) -> str:
        return f"lanes along {self.fast}" + (f", {', '.join(a.tensor for a in self.turned)} turned" if self.turned else "")

    @property
    def split_axis(self) -> str:
        """The reduced axis that may be split: the longest run of turns."""
        return self.problem.reduced[0] if self.problem.reduced else ""

    # ------------------------------------------------------------ candidates

    def candidates(self, sizes: list[dict[str, int]]) -> Tiles:
        f = max(s.get(self.fast, 1) for s in sizes)
        r = max((s.get(self.slow, 1) for s in sizes), default=1)
        if self.turned:
            square = np.array([n for n in TURN if n < 2 * max(f, r)] or TURN[:1])
            t = crossed({"bf": square}, {"groups": np.array([4, 8])})
            t = t | {"bs": t["bf"], "gf": np.ones_like(t["bf"]), "v": np.ones_like(t["bf"]), "part": np.zeros_like(t["bf"])}
            return t | {"gs": t["groups"], "gk": np.ones_like(t["bf"]), "deep": np.zeros_like(t["bf"])}
        lanes = self.machine.lanes
        size = max(a.dtype.bytes for a in (*self.problem.reads, *self.problem.writes))
        v = [n for n in (1, 2, 4, 8) if n == 1 or (n * size <= CHUNK and n * lanes // 2 < f)]
        t = crossed(
            {"v": np.array(v)},
            {"gf": np.array(ladder(1, -(-f // lanes), 8, (1, 2, 4, 8)))},
            {"gs": np.array([g for g in (1, 2, 4, 8) if g == 1 or g < 2 * r])},
            {"rows": np.array([n for n in ROWS[:4] if n == 1 or n < 2 * r])},
            {"gk": np.array([1, 2, 4, 8] if self._parts() else [1])},
        )
        t["bf"], t["bs"] = t["v"] * lanes * t["gf"], t["gs"] * t["rows"]
        t["groups"] = t["gf"] * t["gs"] * t["gk"]
        t["deep"] = np.where(t["gk"] > 1, 8, 0)
        t = taken(t, (t["groups"] <= 8) & ((t["gk"] == 1) | (t["gs"] == 1)) & ((t["bs"] < 2 * r) | (t["bs"] == 1)))
        t["part"] = np.zeros_like(t["bf"])
        k = max((s.get(self.split_axis, 1) for s in sizes), default=1)
        blocks = self._blocks(t, sizes[0])
        few = blocks < self.machine.units
        parts = [p for p in PARTS if 2 * p <= k]
        if not self._parts() or not few.any() or not parts or not self.problem.work.outputs:
            return t
        some = crossed({n: x[few] for n, x in t.items() if n != "part"}, {"part": np.array(parts)})
        return {n: np.concatenate([x, some[n]]) for n, x in t.items()}

    def _parts(self) -> bool:
        """May the reduction be dealt out?"""
        w = self.problem.work
        return w.reduction is not None and w.reduction.kind not in WHOLE and not w.name.endswith("@@")

    def _blocks(self, t: Tiles, sizes: Dict[str, int]) -> Any:
        others = prod(sizes[x] for x in self.problem.free if x not in (self.fast, self.slow))
        return others * -(-sizes.get(self.slow, 1) // t["bs"]) * -(-sizes.get(self.fast, 1) // t["bf"])

    # ------------------------------------------------------------ what they ask

    def demand(self, t: Tiles, sizes: Dict[str, int]) -> Demand:
        machine, p = self.machine, self.problem
        k = prod(sizes[x] for x in p.reduced)
        whole = sizes.get(self.split_axis, 1)
        part = np.where(t["part"] > 0, np.minimum(t["part"], whole), whole)
        splits = -(-whole // part)
        blocks = self._blocks(t, sizes) * splits
        deep = k // max(1, whole) * part  # turns of the reduction in a block
        rows = np.maximum(1, t["bs"] // t["gs"])
        each = rows * t["v"] * (t["bf"] // (t["v"] * machine.lanes * t["gf"]))  # results of a lane
        points = each * -(-deep // t["gk"])
        near, far, loads, flight, stage, path = (np.zeros(len(t["bf"])) for _ in range(6))
        tile_of = {self.fast: t["bf"], self.slow: t["bs"], self.split_axis: part}
        tile_of |= {x: sizes[x] for x in p.reduced if x != self.split_axis}
        for a in (*p.reads, *p.writes):
            size = a.dtype.bytes
            written = a in p.writes
            spans = a.footprint({x: np.minimum(n, sizes.get(x, 1)) for x, n in tile_of.items() if x}) * size
            transaction = machine.home.transaction or 32
            ineff = self._transactions(a, t, sizes)
            apart = not (written or a in self.turned) or a.stride(self.fast) is not None
            near = near + spans * blocks * (ineff if apart or not written else transaction / size)
            far = far + np.minimum(a.footprint(sizes) * size * ineff, spans * blocks * ineff)
            wide = t["v"] if a.stride(self.fast) in (0, 1) and a.fast in (None, self.fast) else np.ones(len(t["bf"]))
            count = each if written else points
            loads = loads + count / wide * (1 if a not in self.turned else 2)
            path = path + count * t["groups"] * machine.lanes * (size if a in self.turned else a.path(self.fast, transaction))
            if not written:
                flight = flight + t["groups"] * machine.lanes * np.minimum(count, np.maximum(wide, AHEAD)) * size
            if a in self.turned:
                stage = stage + (t["bf"] + 1) * t["bs"] * size
        ops = points * p.operations * t["v"] / t["v"]
        per_cycle = machine.operations(p.work.value.dtype.compute) / machine.schedulers
        combine = np.where(t["gk"] > 1, 3 * each, 0)
        result = prod(sizes[x] for x in p.free) * p.work.value.dtype.bytes
        parts = np.where(t["part"] > 0, 2 * splits * result, 0)
        share = padded(sizes.get(self.fast, 1), t["bf"]) * padded(sizes.get(self.slow, 1), t["bs"])
        staged = stage + np.where(t["gk"] > 1, t["groups"] * machine.lanes * each * p.work.value.dtype.bytes, 0)
        return Demand(
            blocks=blocks,
            groups=t["groups"],
            registers=np.ceil(RESERVED + 2 * each).astype(np.int64),
            staged=np.ceil(staged).astype(np.int64),
            pipe=ops * machine.lanes / per_cycle,
            issue=SETUP + ops + 2 * loads + combine,
            staging=path + stage + staged,
            near=near + parts,
            far=far + parts,
            least=sum(a.footprint(sizes) * a.dtype.bytes for a in (*p.reads, *p.writes)),
            flight=flight,
            rounds=2 + np.where(t["gk"] > 1, 0.2, 0),
            launches=1 + (t["part"] > 0),
            waste=1 - share,
        )

    def _transactions(self, a: Access, t: Tiles, sizes: Dict[str, int]) -> Any:
        """Bytes moved for a byte asked for."""
        whole = self.machine.home.transaction or 32
        if a in self.turned or a.fast is None:
            return np.ones(len(t["bf"]))
        if self.fast not in a.axes:  # all lanes read the same
            return np.ones(len(t["bf"]))
        near = self.fast if a.stride(self.fast) is not None else a.fast
        inner = sizes.get(near, 1) if near in self.problem.reduced else 1
        extent = {self.fast: t["bf"], self.slow: t["bs"]}.get(near, np.asarray(inner))
        return a.coalesced(self.fast, np.minimum(extent, max(1, sizes.get(near, 1))), whole)

    # ------------------------------------------------------------ lines

    def lines(self, t: Tiles, i: int, sizes: Dict[str, int]) -> tuple[syntax.Line, ...]:
        machine, p = self.machine, self.problem
        at = {name: int(v[i]) for name, v in t.items()}
        others = [(x, 1) for x in p.free if x not in (self.fast, self.slow)]
        axes = [*others, (self.slow, at["bs"]), (self.fast, at["bf"])]
        order = {x: n for n, x in enumerate(p.free)}
        lines: list[syntax.Line] = [
            tile(*sorted((a for a in axes if a[0]), key=lambda a: order[a[0]]), level=machine.outer.name)
        ]
        if at["part"]:
            by = modifier("by", words=("workspace",))
            lines.append(tile((self.split_axis, at["part"]), level=machine.outer.name, modifiers=by))
        lines += [syntax.Move(a.tensor, machine.staging.name, modifiers=modifier("pad", 1)) for a in self.turned]
        if p.work.reduction is not None and at["gk"] > 1:
            lines += self._reducing(at)
            return (*lines, syntax.Compute())
        if at["groups"] > 1:
            narrow = [(self.slow, at["bs"] // at["gs"]), (self.fast, at["bf"] // at["gf"])]
            lines.append(
                tile(*(a for a, n in zip(narrow, (at["gs"], at["gf"]), strict=True) if n > 1), level=machine.group.name)
            )
        if self.slow and at["bs"] > at["gs"]:
            lines.append(tile((self.slow, 1)))
        lines += self._kept()
        lines.append(tile((self.fast, at["v"]), level=machine.lane.name))
        lines += [tile((x, 1)) for x in p.reduced]
        return (*lines, syntax.Compute())

    def _reducing(self, at: dict[str, int]) -> list[syntax.Line]:
        """SHARED_OUT: each group has a run of the reduction in turn."""
        machine, p = self.machine, self.problem
        lines: list[syntax.Line] = self._kept()
        lines.append(tile((self.split_axis, at["gk"] * at["deep"])))
        lines.append(tile((self.split_axis, at["deep"]), level=machine.group.name))
        lines.append(tile((self.fast, at["v"]), level=machine.lane.name))
        return [*lines, *(tile((x, 1)) for x in p.reduced)]

    def _kept(self) -> list[syntax.Line]:
        w = self.problem.work
        return [] if w.reduction is None else [syntax.Keep((w.name.rstrip("@"),), self.machine.register.name)]


def maps(ctx: Context, machine: Machine, problem: Problem) -> list[Map]:
    """Nests of one work, by the axis of the lanes."""
    votes: dict[str, float] = {}
    for a in (*problem.writes, *problem.reads):
        if a.fast in problem.free:
            votes[a.fast] = max(votes.get(a.fast, 0), len(a.dims))
    axes = sorted(votes, key=lambda x: (votes[x], problem.free.index(x)), reverse=True) or list(problem.free[-1:])
    out = []
    for fast in axes[:2]:
        others = [x for x in problem.free if x != fast]
        slow = others[-1] if others else ""
        out.append(Map(ctx, machine, problem, fast, slow))
        turned = tuple(a for a in problem.reads if a.once and fast in a.axes and a.fast in others and _plain(a))
        if turned and problem.work.reduction is None and len({a.fast for a in turned}) == 1:
            out.append(Map(ctx, machine, problem, fast, turned[0].fast or "", turned))
    return out


def _plain(a: Access) -> bool:
    return all(len(d) == 1 and d[0][1] == 1 for d in a.dims)
