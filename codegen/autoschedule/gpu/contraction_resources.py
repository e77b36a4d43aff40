"""The resources that candidates of a contraction use: in an iteration of the reduction loop, in a block, in all blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ..access_model import AccessModel
from ..block_order.block_walk import BlockWalk, block_walk
from ..block_order.waves import Waves
from ..tile_space import Tiles, ceil_div, select_tiles, volume
from .computed_operands import elements_read, operations_in_fragments
from .cost import ResourceUse, TileTraffic
from .operand_layouts import PLAIN, StagedOperand
from .register_sets import converts, copied_ahead, cycles_at_barriers, extra_registers, tile_registers

if TYPE_CHECKING:
    from .contraction import ContractionTemplate

# cycles: from the loads of staged operands to the arithmetic of an iteration, unless unrolled iterations fill them [measured:
# gpu-cost; test_first_candidates]
STALL = 20
# registers: of a lane for each asynchronous copy whose address is computed at length, where it keeps what no step changes: a
# row and a column [measured: triton-2026-11; test_registers_of_addresses_that_are_computed_at_length]
KEPT = 2
STEP = 16  # instructions: of a warp for an iteration of the reduction loop [estimate; test_first_candidates]
# instructions: of a warp for slots whose number is no power of two, two remainders an iteration. Counters are fewer, which
# would change one choice of 84 [measured: register-pipelines-2026-11; test_first_candidates]
REMAINDERS = 20


@dataclass
class StepTraffic:
    """One step of all operands. `stage`, `written`: bytes of a block, staged and stored.

    For a warp and one iteration of the leaf's k: `read` bytes of staging memory, `fetch` instructions. For a lane and a step:
    `copies` instructions, `prefetch` registers of elements in flight and of addresses. `addresses`: the instructions of copies
    whose addresses are computed at length; a compiler leaves so many together, and nothing of the group hides them.
    """

    stage: Any
    written: Any
    read: Any
    fetch: Any
    copies: Any
    prefetch: Any
    addresses: Any


def contraction_resources(nest: ContractionTemplate, t: Tiles, sizes: Mapping[str, Any]) -> ResourceUse:
    machine = nest.machine
    w, o, leaf, stages, split = block_walk(nest, t, sizes), _operands(nest, t), _leaf(nest, t), t["stages"], t["split"] > 0
    groups = t["gm"] * t["gn"]
    stored = np.where(split, w.parts, w.out) if split.any() else w.out
    registers = _registers(nest, t, o)
    room = _result_room(nest, t, o, registers)
    staged = room > 0
    asked, through = _result_traffic(nest, t, staged, stored)
    exposed: Any = 0
    addressing: Any = 0
    waits: Any = np.where(t["sets"] > 1, 0, (STALL + (o.written + o.read * groups) / machine.staging_bytes) * w.steps)
    ahead, (lost, hidden) = copied_ahead(nest, t), cycles_at_barriers(nest, t, w.steps)
    if (t["sets"] > 1).any():  # what candidates with one set lose to those with two; among themselves they count as before
        addressing = np.where(t["sets"] > 1, 0, o.addresses * groups / machine.schedulers * w.steps)
        exposed, waits = waits + hidden, 0
    # of what is computed at length, no load is taken to be ahead
    bare = (stages == 1) | any(not made.converted for _, made in nest.materialised)
    return ResourceUse(
        blocks=w.blocks,
        groups=groups,
        registers=registers,
        staged=np.maximum(np.ceil(o.stage * stages), room),
        pipe=leaf * _cycles(nest) * w.iterations + lost,
        issue=(leaf * _issued(nest) + o.fetch) * w.iterations
        + (o.copies + STEP + REMAINDERS * (np.log2(stages) % 1 > 0)) * w.steps
        + _computed(nest, t, w)
        + 4 * t["wm"] * t["wn"] / machine.lanes,
        staging=o.read * w.iterations * groups + o.written * w.steps + through,
        l2_bytes=_near(nest, t, w) * w.steps * w.blocks + asked,
        dram_bytes=_far(nest, t, sizes, w) + stored,
        bytes_in_flight=(o.stage + 1) * np.maximum(1, stages - 1),
        # each iteration of the outer loops begins a pipeline, and waits for its first loads
        rounds=1 + np.where(bare, np.maximum(w.loops, 1 + w.steps / 2), w.loops),
        launches=1 + split,
        stall=np.where(t["sets"] > 1, 0, STALL * w.iterations / w.overlapped_iterations) + o.addresses * w.steps,
        exposed=exposed + addressing,
        addressing=addressing,
        second_launch_bytes=np.where(split, w.parts + w.out + w.epilogue, 0) if split.any() else 0,
        first_loads=o.stage * ahead,
        last_stores=nest.result.last_stores(t, staged) * ahead if nest.result else 0,
        run=t["wn"],
        waits=waits,
        operands=t["wm"] + t["wn"],
    )


def result_room(nest: ContractionTemplate, at: dict[str, Any]) -> int:
    """Bytes that a block of one candidate stages of its result at once; 0: the result is not staged."""
    o = _of_depths(nest, at, at["bk"])
    return int(_result_room(nest, at, o, _registers(nest, at, o)))


def _result_room(nest: ContractionTemplate, t: Tiles, o: StepTraffic, registers: Any) -> Any:
    if nest.result is None:
        return 0
    return nest.result.room(nest.machine, t, registers, np.ceil(o.stage * t["stages"]))


def _registers(nest: ContractionTemplate, t: Tiles, o: StepTraffic) -> Any:
    """Of a lane."""
    registers = tile_registers(nest, t) + extra_registers(nest, t) + nest.machine.reserved
    return np.ceil(np.where(t["stages"] > 1, registers + o.prefetch, registers))


def _result_traffic(nest: ContractionTemplate, t: Tiles, staged: Any, stored: Any) -> tuple[Any, Any]:
    """Bytes of transactions that store the result, of all blocks, and those that go through a block's staging memory."""
    result = nest.result
    if result is None:
        return stored, 0.0
    return stored * np.where(staged | (t["split"] > 0), 1.0, result.waste), np.where(staged, 2 * result.bytes(t), 0)


def contraction_lower_bound(nest: ContractionTemplate, sizes: Mapping[str, int]) -> float:
    """Seconds of a launch and of the arithmetic alone, all units busy all the time: no candidate's `cost` is less."""
    machine, mp = nest.machine, nest.mapping
    points = volume(sizes.get(x, 1) for x in (*mp.batch, *mp.loops, mp.m, mp.n, mp.k))
    leaves = points / (prod(mp.leaf) * (1 if nest.by_group else machine.lanes))
    rounded = 1 - 1e-6
    busy = leaves * max(_cycles(nest), _issued(nest)) / (machine.schedulers * machine.units * machine.clock)
    return rounded * (machine.launch + busy)


def _operands(nest: ContractionTemplate, t: Tiles) -> StepTraffic:
    """Those of depths at which operands are staged alike together."""
    alike: dict[tuple, list[int]] = {}
    for depth in np.flatnonzero(np.bincount(t["bk"].astype(np.int64))).tolist():  # that there are, each once
        alike.setdefault(tuple((s.access.tensor, s.counted) for s in nest.staged(depth)), []).append(depth)
    if len(alike) == 1:
        return _of_depths(nest, t, next(iter(alike.values()))[0])
    out = StepTraffic(*np.empty((len(fields(StepTraffic)), len(t["bk"]))))
    for depths in alike.values():
        here = np.flatnonzero(np.isin(t["bk"], depths))
        found = _of_depths(nest, select_tiles(t, here), depths[0])
        for f in fields(StepTraffic):
            getattr(out, f.name)[here] = getattr(found, f.name)
    return out


def _of_depths(nest: ContractionTemplate, t: Tiles, depth: int) -> StepTraffic:
    """Where operands are staged as they are in tiles that deep."""
    machine, mp = nest.machine, nest.mapping
    extents = {mp.m: t["bm"], mp.n: t["bn"], mp.k: t["bk"]}
    lanes = t["gm"] * t["gn"] * machine.lanes
    o = StepTraffic(*(0.0 for _ in fields(StepTraffic)))
    for a in nest.inputs:
        s = next((s for s in nest.staged(depth) if s.access is a), None)
        if s is None:
            o.fetch += _unstaged(nest, a, t)
            continue
        size = a.dtype.bytes
        spans = a.footprint(extents)
        rows = spans / (t["bk"] if s.inner == mp.k else extents[s.free])
        read, fetch = _reading(nest, s, t)
        o.read += read
        o.fetch += fetch
        if (made := dict(nest.materialised).get(a.tensor)) is not None and made.resident:
            continue
        o.stage += (spans + rows * s.pad) * size
        o.written += spans * size * (1 if s.stored > 1 else 2)
        each = spans / lanes
        some = np.maximum(1, each)  # of a lane: of a small tile each has something before one has more
        loaded, stored = np.minimum(s.vector, some), np.minimum(s.stored, some)
        mine = each * ((2 + s.calc) / loaded + 1 / stored)
        o.copies += mine
        o.addresses += mine if s.calc > PLAIN else 0
        if not s.asynchronous:  # and where it is computed at length, an address each
            waiting = nest.read_for(a) if converts(nest, a) else size
            o.prefetch += each * (waiting / machine.register_bytes + (s.calc > PLAIN) / s.vector)
        elif s.calc > PLAIN:
            o.prefetch += KEPT * each / s.vector
    return o


def _near(nest: ContractionTemplate, t: Tiles, w: BlockWalk) -> Any:
    """Bytes requested by all blocks in one step."""
    mp = nest.mapping
    extents = {mp.m: t["bm"], mp.n: t["bn"], mp.k: t["bk"]}
    whole = nest.machine.home.transaction or 32
    near: Any = 0.0
    made = dict(nest.materialised)
    for a in nest.inputs:
        size = made[a.tensor].own if a.tensor in made else a.dtype.bytes
        run = a.run(extents) * a.dtype.bytes
        # Bytes moved for each byte requested: runs come in whole transactions.
        transactions = ceil_div(run, whole) * whole / run
        near = near + a.footprint(extents) * size * transactions * prod(w.share[x] for x in w.share if x in a.axes)
    return near


def _reading(nest: ContractionTemplate, s: StagedOperand, t: Tiles) -> tuple[Any, Any]:
    """Cycles of staging memory, in bytes, and instructions of a warp for one iteration of the leaf's k."""
    machine, mp = nest.machine, nest.mapping
    along = "m" if s.free == mp.m else "n"
    if nest.by_group:
        count = t["w" + along] / mp.leaf[0 if along == "m" else 1]
        return count * s.cycles * machine.bank_bytes, count * s.reads
    mine = t["t" + along]
    reads = np.ceil(mine * s.reads) if s.reads < 1 else mine * s.reads
    # lanes that read one element are served as if each read its own, by all banks
    asked = np.maximum(machine.lanes * mine * s.access.dtype.bytes, reads * machine.bank_bytes)
    return asked * mp.leaf[2], reads * (mp.leaf[2] if s.inner != mp.k else 1)


def _unstaged(nest: ContractionTemplate, a: AccessModel, t: Tiles) -> Any:
    """Instructions of a warp to read the operand in place, for one iteration of the leaf's k."""
    mp = nest.mapping
    if nest.by_group:
        left, right = nest.fragment_registers
        rows = np.where(mp.m in a.axes, t["wm"] / mp.leaf[0] * left, 0)
        return 4.0 * (rows + np.where(mp.n in a.axes, t["wn"] / mp.leaf[1] * right, 0))
    return 3.0 * mp.leaf[2] * np.where(mp.m in a.axes, t["tm"], 1) * np.where(mp.n in a.axes, t["tn"], 1)


def _leaf(nest: ContractionTemplate, t: Tiles) -> Any:
    """Executions of the leaf by a warp for one iteration of its k."""
    lm, ln, _ = nest.mapping.leaf
    m, n = ("wm", "wn") if nest.by_group else ("tm", "tn")
    return np.floor(t[m] / lm) * np.floor(t[n] / ln)


def _cycles(nest: ContractionTemplate) -> float:
    """Cycles of a scheduler's pipe for one execution of the leaf by a group."""
    machine, instr = nest.machine, nest.mapping.instr
    if instr is not None:
        return machine.instr_cycles(instr)
    per_cycle = machine.operations(nest.problem.computation.value.dtype.compute) / machine.schedulers
    return _issued(nest) * machine.lanes / per_cycle


def _computed(nest: ContractionTemplate, t: Tiles, w: BlockWalk) -> Any:
    """Cycles of a warp to finish results, and to compute operands: for each tile that is staged, or fragment that is read."""
    mp, machine = nest.mapping, nest.machine
    per_cycle = machine.operations(nest.problem.computation.value.dtype.compute) / machine.schedulers
    made, extents = dict(nest.materialised), {mp.m: t["bm"], mp.n: t["bn"], mp.k: t["bk"]}
    lanes = t["gm"] * t["gn"] * machine.lanes
    once: Any = sum(a.footprint(extents) / lanes * made[a.tensor].operations for a in nest.inputs if a.tensor in made)
    each: Any = 0.0
    if nest.by_group and mp.match is not None:
        counts = operations_in_fragments(mp.match, machine.device.computes)
        each = sum(t[x] / leaf * counts.get(i, 0.0) for x, i, leaf in (("wm", mp.m, mp.leaf[0]), ("wn", mp.n, mp.leaf[1])))
    lanes_finish = nest.problem.finishing / nest.results * t["wm"] * t["wn"]
    return ((once * w.steps + each * w.iterations) * machine.lanes + lanes_finish) / per_cycle


def _issued(nest: ContractionTemplate) -> float:
    """Instructions of one execution of the leaf: a product and its sum are one."""
    return 1.0 if nest.mapping.instr is not None else max(1.0, nest.problem.operations - 1)


def _far(nest: ContractionTemplate, t: Tiles, sizes: Mapping[str, Any], w: BlockWalk) -> Any:
    """Bytes of operands that reach the outermost memory: a wave of tiles shares its rows and columns.

    All of them may fit the cache, or a slice of it; otherwise each is read again for every wave with other rows (or columns).
    """
    machine, made = nest.machine, dict(nest.materialised)
    cache = (machine.cache.capacity or 0) / machine.slices if machine.cache else 0
    total = {
        a.tensor: sum(x.dtype.bytes * x.footprint(sizes) for x in (made[a.tensor].sources if a.tensor in made else (a,)))
        for a in nest.original_problem.reads
    }
    some = sum(total.values()) > 0.75 * cache
    large = {a.tensor: some & (total[a.tensor] > 0.5 * cache) for a in nest.inputs}
    if machine.slices == 1 and not any(np.any(x) for x in large.values()):
        return sum(total[a.tensor] for a in nest.inputs)
    waves = Waves(machine, t, w.tiles_m, w.tiles_n, w.blocks)
    return sum(
        total[a.tensor] * waves.reads(large[a.tensor], nest.mapping.m in a.axes, nest.mapping.n in a.axes) for a in nest.inputs
    )


# ---------------------------------------------------------------- bytes that lanes request


def contraction_traffic(nest: ContractionTemplate, t: Tiles, sizes: Mapping[str, Any]) -> TileTraffic:
    """The bytes that the lanes request from each memory, counted as the emulator counts them."""
    mp = nest.mapping
    w = block_walk(nest, t, sizes)
    extents = {mp.m: t["bm"], mp.n: t["bn"], mp.k: t["bk"]}
    groups = t["gm"] * t["gn"]
    asked: Any = 0.0  # of the outermost memory, for a step
    put: Any = 0.0  # stored in the memory of a unit, for a step
    again_loaded, again_put = 0.0, 0.0  # by each of the last steps once more (`software_pipeline`, TOTAL, UNBRANCHED)
    get: Any = 0.0  # and read there by a group, for one turn of the leaf's k
    made = dict(nest.materialised)
    for a in nest.inputs:
        mine = _lanes_get(nest, a, t)
        if (staged := next((s for s in nest.staged(int(t["bk"][0])) if s.access is a), None)) is not None:
            spans = a.footprint(extents)
            loaded = spans * prod(w.share[x] for x in w.share if x in a.axes) * nest.read_for(a)
            asked = asked + loaded
            again_loaded = again_loaded + (loaded if converts(nest, a) else 0)
            written = 0 if a.tensor in made and made[a.tensor].resident else spans * a.dtype.bytes
            put, get, again_put = put + written, get + mine, again_put + (0 if staged.asynchronous else written)
        else:
            asked = asked + mine * groups * t["bk"] / mp.leaf[2] * w.share[mp.k]
    result: Any = 0  # of a block: written, and read by rows
    if nest.result is not None:
        live = nest.result.access.footprint(extents) * prod(w.share[x] for x in w.share if x in nest.result.access.axes)
        o = _operands(nest, t)
        staged_too = _result_room(nest, t, o, _registers(nest, t, o)) > 0
        result = np.where(staged_too, 2 * live * nest.result.access.dtype.bytes, 0)
    # the last step loads what it began with once more (`pipelining.cross_loop`)
    again = np.where(w.steps > w.loops, (t["sets"] - 1) * w.loops, 0)
    more = np.where(w.steps > t["stages"], t["stages"] - 1, 0) * again_loaded
    if nest.problem.extents[mp.k].constant is not None:
        put = put + np.where(w.steps > t["stages"] * w.loops, (t["stages"] - 1) * w.loops / w.steps, 0) * again_put
    return TileTraffic(
        least=w.out + sum(a.dtype.bytes * a.footprint(sizes) for a in nest.original_problem.reads),
        requested=(asked * w.steps + more) * w.blocks + w.out + 2 * w.parts + w.epilogue,
        served=(put * w.steps + get * (w.iterations + again) * groups + result) * w.blocks,
        waste=1 - w.share[mp.m] * w.share[mp.n] * w.part / (w.each * mp.leaf[2]),
    )


def _lanes_get(nest: ContractionTemplate, a: AccessModel, t: Tiles) -> Any:
    """Bytes of an operand that the lanes of a warp read for one iteration of the leaf's k, each lane counted."""
    mp = nest.mapping
    along = "m" if mp.m in a.axes else "n"
    if nest.by_group:
        words = nest.fragment_registers[0 if along == "m" else 1]
        each = words * nest.machine.register_bytes
        if mp.match is not None and (elements := elements_read(mp.match, a.tensor)):
            each = elements * a.dtype.bytes  # it is converted or computed on the way
        return t["w" + along] / mp.leaf[0 if along == "m" else 1] * each * nest.machine.lanes
    return nest.machine.lanes * t["t" + along] * a.dtype.bytes * mp.leaf[2]
