"""What candidates of a contraction ask of the machine: per step of the reduction loop, per unit, over all units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ..lower.whole import MOST
from .cost import Demand
from .machine import RESERVED
from .problem import Access
from .staging import Staged
from .tiles import Tiles, padded, up, volume

if TYPE_CHECKING:
    from .contraction import Contraction

SYNC = 20  # cycles that groups lose where they meet
PLAIN = 4  # instructions for an address that the next one differs from by a constant
STALL = 20  # cycles from a turn's loads of staged operands to its arithmetic, that what is unrolled does not fill
STEP = 16  # instructions of a group to go round the reduction loop


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
    from .contraction import raster

    machine, mp = nest.machine, nest.mapping
    m, n, k = (sizes.get(x, 1) for x in (mp.m, mp.n, mp.k))
    batch, loops = volume(sizes[x] for x in mp.batch), volume(sizes[x] for x in mp.loops)
    tiles_m, tiles_n = -(-m // t["bm"]), -(-n // t["bn"])
    part = np.where(t["split"] > 0, np.minimum(t["split"], k), k)
    splits = -(-k // part)
    blocks = batch * tiles_m * tiles_n * splits
    steps = -(-part // t["bk"]) * loops
    groups = t["gm"] * t["gn"]
    share = {mp.m: padded(m, t["bm"]), mp.n: padded(n, t["bn"]), mp.k: padded(part, t["bk"])}
    o = _operands(nest, t, share)
    leaf, inner = _leaf(nest, t), mp.leaf[2]
    each = _turns(nest, t, part)  # of one turn of the loops
    turns = each * loops
    result = nest.problem.work.value.dtype.bytes * batch * m * n
    out = sum(a.dtype.bytes for a in nest.problem.writes) * batch * m * n
    parts = np.where(t["split"] > 0, splits * result, 0)  # written, then read by the launch that adds them up
    after = sum(a.dtype.bytes for a in nest.problem.reads if a not in nest.inputs) * batch * m * n  # for each result
    wave = machine.units * 2
    rows = raster(t, tiles_m, tiles_n, wave)
    far = _far(nest, t, sizes, np.minimum(blocks, wave), tiles_m, tiles_n, rows)
    return Demand(
        blocks=blocks,
        groups=groups,
        registers=np.ceil(nest.held(t) + np.where(t["stages"] > 1, o.prefetch, 0) + RESERVED).astype(np.int64),
        staged=np.ceil(o.stage * t["stages"]).astype(np.int64),
        pipe=leaf * _cycles(nest) * turns + SYNC * steps * np.where(t["stages"] > 2, 1, 2),
        issue=(leaf * _issued(nest) + o.fetch) * turns + (o.copies + STEP) * steps + 4 * t["wm"] * t["wn"] / machine.lanes,
        staging=o.read * turns * groups + o.written * steps,
        near=o.near * steps * blocks + np.where(t["split"] > 0, parts, out),
        far=far + np.where(t["split"] > 0, parts, out),
        least=out + sum(a.dtype.bytes * a.footprint(sizes) for a in nest.whole.reads),
        flight=(o.stage + 1) * np.maximum(1, t["stages"] - 1),
        rounds=2 + np.where(t["stages"] == 1, steps / 2, 0),
        launches=1 + (t["split"] > 0),
        waste=1 - share[mp.m] * share[mp.n] * part / (each * inner),
        asked=o.asked * steps * blocks + out + 2 * parts + after,
        served=(o.put * steps + o.get * turns * groups) * blocks,
        stall=STALL * turns / nest.ahead(t),
        after=np.where(t["split"] > 0, parts + out + after, 0),
        run=t["wn"],
    )


def _operands(nest: Contraction, t: Tiles, share: Mapping[str, Any]) -> Operands:
    machine, mp = nest.machine, nest.mapping
    extents = {mp.m: t["bm"], mp.n: t["bn"], mp.k: t["bk"]}
    lanes = t["gm"] * t["gn"] * machine.lanes
    kept = {int(d): nest.staged(int(d)) for d in np.unique(t["bk"])}
    o = Operands(*(np.zeros(len(t["bk"])) for _ in range(10)))
    for a in nest.inputs:
        size = a.dtype.bytes
        spans = a.footprint(extents) * np.ones(1)
        live = prod((share[x] for x in a.axes if x in share), start=np.ones(1))
        o.near += spans * live * nest.read_for(a) * _transactions(nest, a, extents)
        asked = spans * live * nest.read_for(a)
        for depth, found in kept.items():
            here = t["bk"] == depth
            s = next((s for s in found if s.access is a), None)
            if s is None:
                o.fetch[here] += _unstaged(nest, a, t)[here]
                o.asked[here] += (_lanes_get(nest, a, t) * t["gm"] * t["gn"] * t["bk"] / mp.leaf[2] * share[mp.k])[here]
                continue
            o.asked[here] += asked[here]
            o.put[here] += (spans * size)[here]
            o.get[here] += _lanes_get(nest, a, t)[here]
            rows = spans / np.where(s.inner == mp.k, t["bk"], extents[s.free])
            read, fetch = _reading(nest, s, t)
            o.stage[here] += ((spans + rows * s.pad) * size)[here]
            o.written[here] += (spans * size * (1 if s.stored > 1 else 2))[here]
            o.read[here] += read[here]
            o.fetch[here] += fetch[here]
            mine = np.maximum(1, spans / lanes)  # of a lane: of a small tile each has something before one has more
            loaded, stored = np.minimum(s.vector, mine), np.minimum(s.stored, mine)
            o.copies[here] += (spans / lanes * ((2 + s.calc) / loaded + 1 / stored))[here]
            if not s.asynchronous:  # and where it is computed at length, an address each
                each = size / machine.register_bytes + (s.calc > PLAIN) / s.vector
                o.prefetch[here] += (spans / lanes * each)[here]
    return o


def _turns(nest: Contraction, t: Tiles, part: Any) -> Any:
    """Turns of the leaf's k in all steps: those of the last one run to the end of the tile, or of what is unrolled, where all
    operands are staged (`lower.whole`)."""
    inner = nest.mapping.leaf[2]
    deep = np.minimum(t["bk"], up(part, inner))  # a tile is no larger than what it cuts
    whole = np.isin(t["bk"], [d for d in np.unique(t["bk"]) if d <= MOST and len(nest.staged(int(d))) == len(nest.inputs)])
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


def _far(nest: Contraction, t: Tiles, sizes: Mapping[str, int], wave: Any, tiles_m: Any, tiles_n: Any, rows: Any) -> Any:
    """Bytes of operands that reach the outermost memory: a wave of tiles reads rows and columns of them together.

    What all of them weigh may fit the cache; else each is read again for every wave that has other rows (or columns).
    """
    cache = nest.machine.cache.capacity or 0 if nest.machine.cache else 0
    high = np.where(rows > 1, np.minimum(tiles_m, rows), np.maximum(1, wave // np.maximum(1, tiles_n)))
    wide = np.minimum(tiles_n, np.maximum(1, wave // high))
    total = {a.tensor: float(nest.read_for(a) * a.footprint(sizes)) for a in nest.whole.reads}
    far = np.zeros(len(t["bk"]))
    for a in nest.inputs:
        again: Any = 1.0
        if sum(total.values()) > 0.75 * cache and total[a.tensor] > 0.5 * cache:
            if nest.mapping.n not in a.axes:
                again = tiles_n / wide
            elif nest.mapping.m not in a.axes:
                again = np.maximum(1, tiles_m / high)
        far = far + total[a.tensor] * again
    return far
