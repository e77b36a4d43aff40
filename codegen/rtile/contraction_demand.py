"""What candidates of a contraction ask of the machine: per step of the reduction loop, per unit, over all units."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ..lower.whole import MOST
from .cost import Demand
from .machine import RESERVED
from .problem import Access
from .staging import Staged
from .tiles import Tiles, taken, up, volume

if TYPE_CHECKING:
    from .contraction import Contraction

SYNC = 20  # cycles that groups lose where they meet
PLAIN = 4  # instructions for an address that the next one differs from by a constant
STALL = 20  # cycles from a turn's loads of staged operands to its arithmetic, that what is unrolled does not fill
STEP = 16  # instructions of a group to go round the reduction loop
MANY = 4000  # candidates, of which those alike are worth finding


@dataclass
class Operands:
    """One step's worth of all operands. `stage`, `written`: bytes of a unit, held and stored; `near`: bytes asked of all units.

    `asked`: bytes that lanes of all units ask of the outermost memory. `put`: bytes that those of a unit store in the staging
    memory; `get`: that those of a group read there for one turn of the leaf's k.

    Of a group, for one turn of the leaf's k: `read` bytes' worth of staging memory, `fetch` instructions. Of a lane, a step:
    `copies` instructions, `prefetch` registers of what is on its way through them.
    """

    asked: Any
    put: Any
    get: Any
    stage: Any
    written: Any
    near: Any
    read: Any
    fetch: Any
    copies: Any
    prefetch: Any


def demand(nest: Contraction, t: Tiles, sizes: Mapping[str, int]) -> Demand:
    machine, mp = nest.machine, nest.mapping
    stages = t["stages"]
    t, each_of = _whatever_stages(t)
    m, n, k = (sizes.get(x, 1) for x in (mp.m, mp.n, mp.k))
    batch, loops = volume(sizes[x] for x in mp.batch), volume(sizes[x] for x in mp.loops)
    tiles_m, tiles_n = -(-m // t["bm"]), -(-n // t["bn"])
    split = t["split"] > 0
    some = split.any()
    part: Any = np.where(split, np.minimum(t["split"], k), k) if some else k
    splits = -(-k // part)
    blocks = batch * tiles_m * tiles_n * splits
    groups = t["gm"] * t["gn"]
    deep = -(-part // t["bk"])
    share = {mp.m: m / (tiles_m * t["bm"]), mp.n: n / (tiles_n * t["bn"]), mp.k: part / (deep * t["bk"])}  # see `padded`
    steps = deep * loops
    depths = np.flatnonzero(np.bincount(t["bk"])).tolist()  # that there are, each once
    o = _operands(nest, t, share, depths)
    leaf, inner = _leaf(nest, t), mp.leaf[2]
    each = _turns(nest, t, part, depths)  # of one turn of the loops
    turns = each * loops
    result = nest.problem.work.value.dtype.bytes * batch * m * n
    out = sum(a.dtype.bytes for a in nest.problem.writes) * batch * m * n
    parts: Any = np.where(split, splits * result, 0) if some else 0  # written, then read by the launch that adds them up
    after = sum(a.dtype.bytes for a in nest.problem.reads if a not in nest.inputs) * batch * m * n  # for each result
    stored = np.where(split, parts, out) if some else out
    far = _far(nest, t, sizes, blocks, tiles_m, tiles_n)
    synchronised, staged = each_of(SYNC * steps), each_of(o.stage)
    return Demand(
        blocks=each_of(blocks),
        groups=each_of(groups),
        registers=np.ceil(each_of(nest.held(t)) + np.where(stages > 1, each_of(o.prefetch), 0) + RESERVED).astype(np.int64),
        staged=np.ceil(staged * stages).astype(np.int64),
        pipe=each_of(leaf * _cycles(nest) * turns) + synchronised * np.where(stages > 2, 1, 2),
        issue=each_of(
            (leaf * _issued(nest) + o.fetch) * turns + (o.copies + STEP) * steps + 4 * t["wm"] * t["wn"] / machine.lanes
        ),
        staging=each_of(o.read * turns * groups + o.written * steps),
        near=each_of(o.near * steps * blocks + stored),
        far=each_of(far + stored),
        least=out + sum(a.dtype.bytes * a.footprint(sizes) for a in nest.whole.reads),
        flight=(staged + 1) * np.maximum(1, stages - 1),
        rounds=2 + np.where(stages == 1, each_of(steps / 2), 0),
        launches=each_of(1 + split),
        waste=each_of(1 - share[mp.m] * share[mp.n] * part / (each * inner)),
        asked=each_of(o.asked * steps * blocks + out + 2 * parts + after),
        served=each_of((o.put * steps + o.get * turns * groups) * blocks),
        stall=each_of(STALL * turns / nest.ahead(t)),
        after=each_of(np.where(split, parts + out + after, 0)) if some else 0,
        run=each_of(t["wn"]),
    )


def _whatever_stages(t: Tiles) -> tuple[Tiles, Callable[[Any], Any]]:
    """The candidates that differ in `stages` alone as one, and what an array over these is over all candidates."""
    if "alike" not in t or len(t["alike"]) < MANY:
        return t, lambda x: x
    there = np.flatnonzero(np.bincount(t["alike"]))
    at = np.empty(there[-1] + 1, np.int64)
    at[there] = np.arange(len(there))
    which = at[t["alike"]]
    one = np.empty(len(there), np.int64)
    one[which] = np.arange(len(which))
    return taken(t, one), lambda x: x[which]


def least(nest: Contraction, sizes: Mapping[str, int]) -> float:
    """Seconds of a launch and of the arithmetic alone, all units busy all the time: no candidate's `cost` is less."""
    machine, mp = nest.machine, nest.mapping
    points = volume(sizes.get(x, 1) for x in (*mp.batch, *mp.loops, mp.m, mp.n, mp.k))
    leaves = points / (prod(mp.leaf) * (1 if nest.by_group else machine.lanes))
    rounded = 1 - 1e-6
    busy = leaves * max(_cycles(nest), _issued(nest)) / (machine.schedulers * machine.units * machine.clock)
    return rounded * (machine.launch + busy)


def _operands(nest: Contraction, t: Tiles, share: Mapping[str, Any], depths: list[int]) -> Operands:
    """Those of depths at which operands are staged alike together."""
    count = len(t["bk"])
    alike: dict[tuple, list[int]] = {}
    for depth in depths:
        alike.setdefault(tuple((s.access.tensor, s.counted) for s in nest.staged(depth)), []).append(depth)
    if len(alike) == 1:
        return _of_depths(nest, t, share, next(iter(alike.values())))
    out = Operands(*np.empty((len(fields(Operands)), count)))
    for depths in alike.values():
        here = np.flatnonzero(np.isin(t["bk"], depths))
        mine = {name: np.broadcast_to(x, count)[here] for name, x in share.items()}
        found = _of_depths(nest, taken(t, here), mine, depths)
        for f in fields(Operands):
            getattr(out, f.name)[here] = getattr(found, f.name)
    return out


def _of_depths(nest: Contraction, t: Tiles, share: Mapping[str, Any], depths: list[int]) -> Operands:
    machine, mp = nest.machine, nest.mapping
    extents = {mp.m: t["bm"], mp.n: t["bn"], mp.k: t["bk"]}
    lanes = t["gm"] * t["gn"] * machine.lanes
    kept = nest.staged(depths[0])
    o = Operands(*np.zeros((len(fields(Operands)), len(t["bk"]))))
    for a in nest.inputs:
        size = a.dtype.bytes
        spans = a.footprint(extents) * np.ones(1)
        live = prod((share[x] for x in a.axes if x in share), start=np.ones(1))
        asked = spans * live * nest.read_for(a)
        o.near += asked * _transactions(nest, a, extents)
        get = _lanes_get(nest, a, t)
        s = next((s for s in kept if s.access is a), None)
        if s is None:
            o.fetch += _unstaged(nest, a, t)
            o.asked += get * t["gm"] * t["gn"] * t["bk"] / mp.leaf[2] * share[mp.k]
            continue
        o.asked += asked
        o.put += spans * size
        o.get += get
        rows = spans / (t["bk"] if s.inner == mp.k else extents[s.free])
        read, fetch = _reading(nest, s, t)
        o.stage += (spans + rows * s.pad) * size
        o.written += spans * size * (1 if s.stored > 1 else 2)
        o.read += read
        o.fetch += fetch
        each = spans / lanes
        mine = np.maximum(1, each)  # of a lane: of a small tile each has something before one has more
        loaded, stored = np.minimum(s.vector, mine), np.minimum(s.stored, mine)
        o.copies += each * ((2 + s.calc) / loaded + 1 / stored)
        if not s.asynchronous:  # and where it is computed at length, an address each
            o.prefetch += each * (size / machine.register_bytes + (s.calc > PLAIN) / s.vector)
    return o


def _turns(nest: Contraction, t: Tiles, part: Any, depths: list[int]) -> Any:
    """Turns of the leaf's k in all steps: those of the last one run to the end of the tile, or of what is unrolled, where all
    operands are staged (`lower.whole`)."""
    inner = nest.mapping.leaf[2]
    deep = np.minimum(t["bk"], up(part, inner))  # a tile is no larger than what it cuts
    to_end = [d for d in depths if d <= MOST and len(nest.staged(d)) == len(nest.inputs)]
    whole = np.isin(t["bk"], to_end) if 0 < len(to_end) < len(depths) else bool(to_end)
    unit = np.where(whole, deep if nest.by_group else nest.ahead(t) * inner, inner)
    return (part // deep * deep + np.minimum(up(deep, inner), up(part % deep, unit))) / inner


def _transactions(nest: Contraction, a: Access, extents: Mapping[str, Any]) -> Any:
    """Bytes moved for a byte asked for: runs of memory come in whole transactions."""
    fused = {name for name, _ in nest.mapping.work.fused}
    whole = nest.machine.home.transaction or 32
    run = extents.get(a.fast or "", 8 if a.fast in fused else 1) * a.dtype.bytes
    return up(run, whole) / run


def _reading(nest: Contraction, s: Staged, t: Tiles) -> tuple[Any, Any]:
    """Bytes' worth of staging memory cycles, and instructions, of a group for one turn of the leaf's k."""
    machine, mp = nest.machine, nest.mapping
    along = "m" if s.free == mp.m else "n"
    if nest.by_group:
        count = t["w" + along] / mp.leaf[0 if along == "m" else 1]
        return count * s.cycles * machine.bank_bytes, count * s.reads
    mine = t["t" + along]
    reads = np.ceil(mine * s.reads) if s.reads < 1 else mine * s.reads
    # what lanes read together is served by turns of all banks, as if each read its own
    asked = np.maximum(machine.lanes * mine * s.access.dtype.bytes, reads * machine.bank_bytes)
    return asked * mp.leaf[2], reads * (mp.leaf[2] if s.inner != mp.k else 1)


def _lanes_get(nest: Contraction, a: Access, t: Tiles) -> Any:
    """Bytes of an operand that the lanes of a group read for one turn of the leaf's k, each of them counted."""
    mp = nest.mapping
    along = "m" if mp.m in a.axes else "n"
    if nest.by_group:
        words = nest.fragments[0 if along == "m" else 1]
        return t["w" + along] / mp.leaf[0 if along == "m" else 1] * words * nest.machine.register_bytes * nest.machine.lanes
    return nest.machine.lanes * t["t" + along] * a.dtype.bytes * mp.leaf[2]


def _unstaged(nest: Contraction, a: Access, t: Tiles) -> Any:
    """Instructions of a group to read it where it is, for one turn of the leaf's k."""
    mp = nest.mapping
    if nest.by_group:
        left, right = nest.fragments
        rows = np.where(mp.m in a.axes, t["wm"] / mp.leaf[0] * left, 0)
        return 4.0 * (rows + np.where(mp.n in a.axes, t["wn"] / mp.leaf[1] * right, 0))
    return 3.0 * mp.leaf[2] * np.where(mp.m in a.axes, t["tm"], 1) * np.where(mp.n in a.axes, t["tn"], 1)


def _leaf(nest: Contraction, t: Tiles) -> Any:
    """Executions of the leaf by a group for one turn of its k."""
    lm, ln, _ = nest.mapping.leaf
    return t["wm"] // lm * (t["wn"] // ln) if nest.by_group else t["tm"] // lm * (t["tn"] // ln)


def _cycles(nest: Contraction) -> float:
    """Cycles of a scheduler's pipe for one execution of the leaf by a group."""
    machine, instr = nest.machine, nest.mapping.instr
    if instr is not None:
        return machine.instr_cycles(instr)
    per_cycle = machine.operations(nest.problem.work.value.dtype.compute) / machine.schedulers
    return _issued(nest) * machine.lanes / per_cycle


def _issued(nest: Contraction) -> float:
    """Instructions of one execution of the leaf: a product and its sum are one."""
    return 1.0 if nest.mapping.instr is not None else max(1.0, nest.problem.operations - 1)


def _far(nest: Contraction, t: Tiles, sizes: Mapping[str, int], blocks: Any, tiles_m: Any, tiles_n: Any) -> Any:
    """Bytes of operands that reach the outermost memory: a wave of tiles reads rows and columns of them together.

    What all of them weigh may fit the cache; else each is read again for every wave that has other rows (or columns).
    """
    from .contraction import raster

    cache = nest.machine.cache.capacity or 0 if nest.machine.cache else 0
    total = {a.tensor: float(nest.read_for(a) * a.footprint(sizes)) for a in nest.whole.reads}
    far = np.zeros(len(t["bk"]))
    if sum(total.values()) <= 0.75 * cache or all(total[a.tensor] <= 0.5 * cache for a in nest.inputs):
        return far + sum(total[a.tensor] for a in nest.inputs)
    wave = nest.machine.units * 2
    rows, wave = raster(t, tiles_m, tiles_n, wave), np.minimum(blocks, wave)
    high = np.where(rows > 1, np.minimum(tiles_m, rows), np.maximum(1, wave // np.maximum(1, tiles_n)))
    wide = np.minimum(tiles_n, np.maximum(1, wave // high))
    for a in nest.inputs:
        again: Any = 1.0
        if total[a.tensor] > 0.5 * cache:
            if nest.mapping.n not in a.axes:
                again = tiles_n / wide
            elif nest.mapping.m not in a.axes:
                again = np.maximum(1, tiles_m / high)
        far = far + total[a.tensor] * again
    return far
