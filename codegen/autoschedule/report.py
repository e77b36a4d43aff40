"""Why a schedule was chosen: candidates with their times and their bottlenecks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from ...dsl.support.amounts import bytes_text, counted, seconds_text

if TYPE_CHECKING:
    from .rank import RankedCandidates

KEPT = 8  # candidates: that a compiled program remembers [limit]


@dataclass(frozen=True)
class CandidateReport:
    """One candidate at the largest of the sizes it was judged at. `slower`: times the best at each of the sizes.

    served    bytes that they ask of the memory of a unit
    parts     seconds by what needs them; the largest is the `bound`       seconds   all together
    asked     bytes that lanes ask of the outermost memory                 moved     bytes to and from the outermost memory
    blocks    of the launch                                                waves     of them over the whole device
    resident  blocks of a unit at a time                                   busy      share of the units' time that is used
    occupancy share of the lanes that a unit can hold which it holds
    waste     share of what is computed that is padding                    held      bytes of staging memory of a block
    """

    nest: str
    tile: Mapping[str, int]
    slower: float
    seconds: float
    bound: str
    parts: Mapping[str, float]
    asked: float
    served: float
    moved: float
    blocks: float
    waves: float
    resident: int
    occupancy: float
    busy: float
    waste: float
    registers: float
    held: float


@dataclass(frozen=True)
class LaunchReport:
    """What was chosen for a launch (the first of `candidates`) among `count`; `least`: bytes that must be moved to and from
    `home`, the outermost memory; `staging`: the memory of a unit."""

    launch: str
    sizes: tuple[Mapping[str, int], ...]
    count: int
    least: float
    home: str
    staging: str
    candidates: tuple[CandidateReport, ...]


def launch_report(
    launch: str, found: Sequence[RankedCandidates], order: Sequence[tuple[RankedCandidates, int, float]]
) -> LaunchReport:
    """The choice among ranked candidates."""
    kept, told = order[:KEPT], {}
    for r in {id(r): r for r, _, _ in kept}.values():
        told |= {(id(r), i): x for i, x in _candidate_report(r, [(i, slower) for x, i, slower in kept if x is r])}
    r, i, _ = kept[0]
    count = sum(x.count for x in found)
    machine = r.nest.machine
    least = told[id(r), i][1]
    candidates = tuple(told[id(r), i][0] for r, i, _ in kept)
    return LaunchReport(launch, tuple(r.sizes), count, least, machine.home.name, machine.staging.name, candidates)


def _candidate_report(
    r: RankedCandidates, which: list[tuple[int, float]]
) -> Iterator[tuple[int, tuple[CandidateReport, float]]]:
    """Candidates of one nest by number, each with the bytes that must be moved; given are number and `slower`."""
    machine, d, numbers = r.nest.machine, r.demand, [i for i, _ in which]
    most = machine.device.limit(f"resident {machine.lane.name}s") or machine.max_groups * machine.lanes
    figures = r.table(numbers, d.dram_bytes, d.blocks, d.groups, d.registers, d.staged, r.cost.resident).T.tolist()
    costs = r.costs(numbers)
    t = r.traffic(numbers)
    bytes_ = zip(*((x + np.zeros(len(which))).tolist() for x in (t.least, t.requested, t.served, t.waste)), strict=True)
    for (i, slower), demand, traffic in zip(which, figures, bytes_, strict=True):
        tile, cost = costs[i]
        far, blocks, groups, registers, staged, resident = demand
        least, asked, served, waste = traffic
        candidate = CandidateReport(
            nest=f"{r.nest.name}: {r.nest}",
            tile=tile,
            slower=slower,
            seconds=cost.seconds,
            bound=cost.bound,
            parts=cost.parts,
            asked=asked,
            served=served,
            moved=far,
            blocks=blocks,
            waves=blocks / (machine.units * max(1, resident)),
            resident=int(resident),
            occupancy=resident * groups * machine.lanes / most,
            busy=blocks / (machine.units * ceil(blocks / machine.units)),
            waste=waste,
            registers=registers,
            held=staged,
        )
        yield i, (candidate, least)


# ---------------------------------------------------------------- tables


def show_launch_report(c: LaunchReport, most: int = KEPT) -> str:
    """A table of the best candidates, then the sizes of each by name, and what needs how long; then the first one's bytes."""
    at = "; ".join(", ".join(f"{n}={x}" for n, x in s.items()) for s in c.sizes)
    rows = candidate_rows(c, most)
    out = [
        f"launch {c.launch}: {counted(c.count, 'candidate')}, judged at {at}; at least {bytes_text(c.least, 3)} must be moved"
    ]
    out += ["  " + x for x in _aligned(rows)]
    for n, x in enumerate(c.candidates[:most], 1):
        shares = ", ".join(f"{name} {seconds_text(s)}" for name, s in x.parts.items())
        sizes = " ".join(f"{name}={v}" for name, v in x.tile.items())
        out.append(f"  {n}: {x.nest}; {sizes}; {shares}")
    return "\n".join(out + ["  " + x for x in _aligned(traffic_rows(c))])


def traffic_rows(c: LaunchReport) -> list[list[str]]:
    """Bytes of the first candidate by memory: what lanes ask for, what caches let through, the least there can be."""
    x = c.candidates[0]
    least = max(c.least, 1.0)
    outermost = [c.home, bytes_text(x.asked, 3), bytes_text(x.moved, 3), bytes_text(c.least, 3), f"{x.moved / least:.2f}"]
    return [["memory", "asked", "moved", "at least", "times"], outermost, [c.staging, bytes_text(x.served, 3), "", "", ""]]


def candidate_rows(c: LaunchReport, most: int = KEPT) -> list[list[str]]:
    """The table of the best candidates, names of the columns first."""
    names = ("", "time", "slower", "bound by", "blocks", "waves", "a unit", "occupied", "busy", "waste", "registers", "held")
    head = [*names, "asked", "moved"]
    rows = [head]
    for n, x in enumerate(c.candidates[:most], 1):
        rows.append(
            [
                f"{n}", seconds_text(x.seconds), f"{x.slower:.2f}", x.bound, f"{x.blocks:.0f}", f"{x.waves:.2f}",
                f"{x.resident}", f"{x.occupancy:.0%}", f"{x.busy:.0%}", f"{x.waste:.0%}", f"{x.registers:.0f}",
                bytes_text(x.held, 3), bytes_text(x.asked, 3), bytes_text(x.moved, 3),
            ]
        )  # fmt: skip
    return rows


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(r[n]) for r in rows) for n in range(len(rows[0]))]
    return ["  ".join(x.rjust(w) for x, w in zip(r, widths, strict=True)).rstrip() for r in rows]
