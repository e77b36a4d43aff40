"""Rows that stay in registers while several computations go over them: what is read once, and what is computed once.

ALL_AT_ONCE  loops over registers are unrolled, so a compiler moves the loads of other operands up: they take registers as well.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import ceil

from ....dsl.op import Op
from ...plan.group_launches import group_launches, launch_keeping
from ..access_model import AccessProblem
from ..cpu.row_caching import repeated_rows
from ..machine_model import MachineModel

MOST_REGISTERS = 64  # registers: of a lane for its part of a row [estimate; test_sizes_tried]
# registers: of a lane besides its part of rows [measured: rows-2026-11; test_first_candidates]
OTHERS = 16
# share: of a cache that rows may fill so that they are there when they are read again [estimate;
# test_reading_again_is_free_where_resident_rows_fit_the_cache]
CACHE_SHARE = 0.75
GROUPS = (1, 2, 4, 8)  # warps: that share a row in registers [tried; test_sizes_tried]


def repeated_inputs(problems: Sequence[AccessProblem], rows: Collection[str], fast: str) -> tuple[str, ...]:
    """Inputs whose rows along `fast` several of the problems read, all of them the same element at a time."""
    reads = [(n, a) for n, p in enumerate(problems) for a in p.reads if a.axes == {*rows, fast}]
    computed = {t for p in problems for t in p.computation.targets}
    unfit = {t for p in problems for t in p.guarded} | computed
    out = []
    for tensor in dict.fromkeys(a.tensor for _, a in reads):
        mine = [(n, a) for n, a in reads if a.tensor == tensor]
        everywhere = [a for p in problems for a in p.reads if a.tensor == tensor]
        alike = len({a.dims for a in everywhere}) == 1 and all(len(d) == 1 and d[0][1] == 1 for d in mine[0][1].dims)
        if len({n for n, _ in mine}) > 1 and alike and tensor not in unfit:
            out.append(tensor)
    return tuple(out)


def bytes_of_place(problems: Sequence[AccessProblem], fast: str, kept: Collection[str]) -> int:
    """Of one place of a row, the bytes that registers take: of the tensors that are kept there, and of what one computation
    reads besides (ALL_AT_ONCE)."""
    along = [{a.tensor: a.dtype.bytes for a in (*p.reads, *p.writes) if fast in a.axes} for p in problems]
    mine = {t: size for sizes in along for t, size in sizes.items() if t in kept}
    inputs = ({a.tensor: a.dtype.bytes for a in p.reads if fast in a.axes and a.tensor not in kept} for p in problems)
    return sum(mine.values()) + (max(sum(x.values()) for x in inputs) if mine else 0)


def fits_registers(machine: MachineModel, longest: int | None, size: int, groups: int) -> bool:
    """Whether a row whose places take so many bytes fits the registers of so many warps, with at most MOST_REGISTERS elements
    of each tensor."""
    if longest is None:
        return False
    each = ceil(longest / (machine.lanes * groups))
    return each <= MOST_REGISTERS and OTHERS + each * size / machine.register_bytes <= machine.max_registers


def repeated_values(op: Op, machine: MachineModel, statistics: frozenset[str]) -> frozenset[str]:
    """Rows of these statistics that are computed once (`repeated_rows`), and fit registers beside what else is there. Only of
    rows of one length: of shorter ones the registers would be visited in vain."""
    every = [w for g in group_launches(op, frozenset()) for w in g if w.reduction is not None]
    launch = launch_keeping(op, statistics) or [w for w in every if not statistics.isdisjoint(w.targets)]
    rows = next((w.indices for w in launch if not statistics.isdisjoint(w.targets)), ())
    along = {i for w in launch for i in w.reduced}
    found = repeated_rows(op, rows, along)
    names = frozenset(s.target for s in found)
    computations = launch_keeping(op, statistics | names) if len(along) == 1 and found else None
    if computations is None:
        return frozenset()
    (fast,) = along
    problems = [AccessProblem.of(w, {}) for w in computations]
    size = bytes_of_place(problems, fast, {*names, *repeated_inputs(problems, rows, fast)})
    return names if fits_registers(machine, found[0].extent(fast).constant, size, GROUPS[-1]) else frozenset()
