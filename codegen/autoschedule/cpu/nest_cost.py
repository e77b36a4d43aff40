"""Seconds of a nest on a CPU, in closed form: the cycles of its vector instructions, and of its caches (`nest_traffic`).

BODY      the innermost unrolled loops and the lanes are one straight piece of code. It takes the time of its loads, operations
          and stores, and not less than the additions into one register, each of which needs the one before.
EDGES     a vector that may cross the edge of a window is loaded under a mask where all of it is known at compile time, else
          element by element, after a test.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log2, prod

from ...ir.schedule_tree import Node
from ...lower.lowering_context import LoweringContext
from ...schedule.candidate import Cost
from ..access_model import AccessModel, AccessProblem
from ..machine_model import WAKE, MachineModel
from .matmul_cost import HIDDEN, LOAD, STORE
from .nest_loops import CostedNest, costed_nest
from .nest_traffic import traffic_cycles

# times: the operations of an argument reduction, which compares twice and selects values and indices [measured: cpu-nests;
# test_first_candidates]
PLACES = 8
# cycles: to combine two vectors, or the halves of one, at the end of a row [measured: cpu-nests; test_first_candidates]
MERGE = 1.5
ISSUE = 4.0  # instructions per cycle: that a core starts [fact: AVX2 and AVX-512 cores; test_first_candidates]
# cycles: a vector operation, on cores with two ports for them [fact: AVX2 and AVX-512 cores; test_first_candidates]
OPERATION = 0.5
# cycles: from an operation to the next one that needs its result [fact: AVX2 and AVX-512 cores; test_first_candidates]
CHAIN = 4.0
TURN = 1.5  # cycles: an iteration of a loop [measured: cpu-nests; test_first_candidates]
ENTER = 12.0  # cycles: to begin and end a register tile [measured: cpu-nests; test_first_candidates]
TASK = 10.0  # cycles: to take the next share of the work [measured: cpu-nests; test_first_candidates]
# cycles: to load an element whose neighbour along the lanes lies a few elements away [measured: cpu-nests;
# test_first_candidates]
STRIDED = 0.45
# cycles: to load an element whose neighbour along the lanes lies far away [measured: cpu-nests; test_first_candidates]
GATHER = 0.8
MASKED = 2.0  # cycles: a vector at an edge that is known at compile time [measured: cpu-nests; test_first_candidates]
SEARCHED = 27.0  # cycles: a vector at an edge that is known at run time [measured: cpu-nests; test_first_candidates]
# times: the cost of an edge vector in a value that is computed before its store is known to take place [measured: cpu-nests;
# test_first_candidates]
COUNTED = 6.0
TEST = 1.5  # cycles: to test whether a vector is at an edge [measured: cpu-nests; test_first_candidates]
# registers: of more than two rows with edges, beyond which branches cost more [measured: cpu-nests; test_first_candidates]
BRANCHES = 4
CROWDED = 1.4  # times: the cost of edge vectors beyond BRANCHES registers [measured: cpu-nests; test_first_candidates]
# cycles: to take the next share of the work, where edges are distinguished [measured: cpu-nests; test_first_candidates]
WINDOWS = 200.0
PAST = 1.0  # cycles: added for a non-temporal store [measured: cpu-nests; test_first_candidates]


def seconds(
    ctx: LoweringContext, cpu: MachineModel, problems: Sequence[AccessProblem], tree: Node, sizes: Mapping[str, int]
) -> Cost:
    """Seconds of one launch, whose computations share its loops; all cores take part if it is worth waking them."""
    lane = ctx.device.levels[-1]
    dtype = max(problems, key=lambda p: len(p.axes)).computation.value.dtype.compute
    reduced = frozenset(a for p in problems for a in p.reduced)
    nest = costed_nest(ctx, tree, sizes, max(1, (lane.bytes or 1) // dtype.bytes), reduced)
    # Results that are wider than what is computed with, as places are, make vectors of fewer lanes.
    stored = [a.dtype.bytes for p in problems for a in p.writes if nest.vector in a.axes]
    lanes = max(1, (lane.bytes or 1) // max(dtype.bytes, *stored, 1)) if nest.vector else 1
    if stored and max(stored) > dtype.bytes:
        nest = costed_nest(ctx, tree, sizes, lanes, reduced)
    written = {a.tensor: a.footprint(sizes) * a.dtype.bytes for p in problems for a in p.writes}
    past = frozenset(t for t, least in nest.streamed.items() if written.get(t, 0) >= least)
    arithmetic = sum(_cycles(p, nest, lanes, past) for p in problems)
    tasks = prod(x.trips for x in nest.loops if x.core) or 1
    arithmetic += tasks * (WINDOWS if any(_outside(p, a) for p in problems for a in p.inner) else TASK)
    traffic = traffic_cycles(ctx, cpu, problems, nest, sizes)
    longest, other = max(arithmetic, traffic), min(arithmetic, traffic)
    alone = (longest + HIDDEN * other) / cpu.clock
    dealt = any(x.core for x in nest.loops)
    together = alone * -(-tasks // cpu.units) / tasks + WAKE if dealt else alone
    return Cost(min(alone, together), {"arithmetic": arithmetic / cpu.clock, "memory": traffic / cpu.clock})


# ---------------------------------------------------------------- BODY


def _cycles(p: AccessProblem, nest: CostedNest, lanes: int, past: frozenset[str]) -> float:
    """Cycles of one computation on one core; `past`: results with non-temporal stores."""
    loops = [x for x in nest.loops if x.axis in p.axes]
    inside = len(loops)
    while inside and loops[inside - 1].unrolled:
        inside -= 1
    body, around = loops[inside:], prod(x.trips for x in loops[:inside])
    points = prod(x.trips for x in body)
    if nest.cycles is not None:
        return around * points * (nest.cycles + TURN)
    value = {a.tensor for a in p.inner}
    free = prod(x.trips for x in body if x.axis in p.free)
    summed = prod(x.trips for x in body if x.axis in p.reduced and x.axis != nest.vector)
    known = not any(x.trips > 1 and x.axis in p.reduced and x.axis != nest.vector for x in loops[:inside])
    deep = sum(1 for x in body if x.trips > 1)
    rows = prod(x.trips for x in body if x.axis in p.free and x.axis != nest.vector)
    crowded = free > BRANCHES and rows > 2
    need = 0.0
    for a in p.inner:
        turns = prod(x.trips for x in body if x.axis in a.axes) * (CROWDED if crowded and _outside(p, a) else 1.0)
        need += turns * _load(p, a, nest, lanes, known, deep)
    post = sum(LOAD for a in p.reads if a.tensor not in value)
    kind = p.computation.reduction.kind if p.computation.reduction is not None else ""
    # A call is made once for what it depends on: the exponential of a score, for a tile of features.
    called = sum(c.operations * prod(x.trips for x in body if x.axis in c.axes) for c in p.calls)
    operations = max(points, called + points * (PLACES if kind.startswith("arg") else 0)) * OPERATION
    stores = points * (STORE + PAST * (not past.isdisjoint(p.computation.targets))) if not p.reduced else 0.0
    chain = CHAIN * summed if p.reduced else 0.0
    every = max(need, operations, stores, (need / LOAD + operations / OPERATION + stores) / ISSUE, chain)
    total = around * (every + TURN)
    if p.reduced:
        first = next((n for n, x in enumerate(nest.loops) if x.axis in p.reduced), len(nest.loops))
        outside = min((nest.kept[t] for t in p.computation.names if t in nest.kept), default=first)
        enter = prod(x.trips for x in nest.loops[:outside] if x.axis in p.axes)
        held = free * (2 * LOAD + STORE + post)
        if nest.vector in p.reduced:
            held += free * (points / free - 1 + log2(max(2, lanes))) * MERGE * (PLACES if kind.startswith("arg") else 1)
        total += enter * (ENTER + held)
    return total


def _load(p: AccessProblem, a: AccessModel, nest: CostedNest, lanes: int, known: bool, deep: int) -> float:
    """Cycles to load one vector."""
    if nest.vector is None or nest.vector not in a.axes:
        return LOAD
    stride = a.stride(nest.vector)
    cost = LOAD if stride == 1 else (GATHER if stride is None else STRIDED) * lanes
    if a.tensor in nest.staged:
        cost = min(cost, GATHER * lanes / 2)
    if _outside(p, a):
        cost += _edges(nest, lanes, known, stride == 1, deep)
    cut = _cut(nest, lanes, stride == 1)
    return cost + (COUNTED * _together(nest) * cut if _held(p, nest) else cut)


def _together(nest: CostedNest) -> int:
    """Vectors of the innermost tile."""
    return next((x.trips for x in reversed(nest.loops) if x.axis == nest.vector), 1)


def _held(p: AccessProblem, nest: CostedNest) -> bool:
    """Whether the value is in registers before it is stored. Then all vectors of a partial tile are masked loads, also whole
    ones."""
    return not p.reduced and any(t in nest.kept for t in p.computation.targets)


def _outside(p: AccessProblem, a: AccessModel) -> bool:
    """Whether the access may be out of bounds."""
    return a.tensor in p.guarded


def _cut(nest: CostedNest, lanes: int, near: bool) -> float:
    """Mean extra cycles of a vector because the last one of a row is partial: its count is computed, and it is masked; elements
    that are not contiguous go one by one, if the row is one tile."""
    mine = [x.trips for x in nest.loops if x.axis == nest.vector]
    if nest.extent % lanes == 0 or nest.leaf or not (near or (nest.free and prod(mine) == mine[-1])):
        return 0.0
    return (MASKED if near else 2 * SEARCHED) / prod(mine)


def _edges(nest: CostedNest, lanes: int, known: bool, near: bool, deep: int) -> float:
    """Mean extra cycles of a vector because the first and the last one of a row may cross an edge. EDGES"""
    mine = [x for x in nest.loops if x.axis == nest.vector]
    vectors, together = prod(x.trips for x in mine), mine[-1].trips
    share = min(1.0, 2 / vectors)
    if not known:
        return share * SEARCHED / min(2, together)
    return TEST / together + share * (MASKED / (2 if deep > 3 else 1) if near else STRIDED * lanes)
