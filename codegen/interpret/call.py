"""Instructions and reductions that several units execute together.

Each unit of the instruction's level executes a `Call` together with all units below it (its lanes, in one linear order).
Element (lane, r) of an operand is element r of the fragment that this lane passes; the operand's map gives its logical element.
So register fragments and addressed memory are one case. An operand without a lane coordinate has a copy in every lane if it is
in registers; in shared memory the address of lane 0 counts.
"""

from __future__ import annotations

from math import prod

import numpy as np

from ...dsl.device import Instr, Operand
from ...dsl.index.expr import Expr
from ...dsl.values import Apply, Load, Value, children, loads, walk
from ..ir.tile_ir import AllReduce, Call, Piece, goes_on_in_next_row
from .domain import Domain, picked, put
from .frame import Frame, UnitVariables
from .memory import Memory, Site
from .value import evaluate

_COMBINE = {"sum": "add", "prod": "mul", "max": "max", "min": "min", "any": "or", "all": "and"}

Landing = tuple[Memory, np.ndarray, np.ndarray]  # what an asynchronous call wrote: memory, positions, units


def call(stmt: Call, instr: Instr, frame: Frame, memories: dict[str, Memory], site: Site) -> list[Landing]:
    """Gathers the operands, executes the instruction's statement on them, scatters the results.

    Gives what is under way afterwards, for an instruction that is awaited.
    """
    lanes = site.tree.size(instr.level)
    ids = _whole_groups(frame.ids, lanes)
    if len(ids) != len(frame.ids):
        site.report("divergent-call", f"`{instr.name}` is executed by only some of the {lanes} units that it needs")
        frame = frame.sub(np.isin(frame.ids, ids))
    if not len(ids):
        return []
    groups = len(ids) // lanes
    dense: dict[str, np.ndarray] = {}
    inputs = [(o, p) for o, p in zip(instr.operands, stmt.pieces, strict=True) if o.role != "output"]
    # READ_WHAT_IS_TAKEN: which elements of an operand are read may depend on another one.
    asked = {
        ld.tensor for v in walk(instr.statement.value) if isinstance(v, Apply) and v.fn == "where" for ld in loads(v.args[0])
    }
    for operand, piece in sorted(inputs, key=lambda x: x[0].name not in asked):
        taken = _source_operands(instr, operand.name, dense, groups, site.domain)
        dense[operand.name] = _gather(operand, piece, frame, memories[piece.buffer], groups, lanes, site, taken)
    results = _execute(instr, dense, groups, site.domain)
    landing: list[Landing] = []
    for operand, piece in zip(instr.operands, stmt.pieces, strict=True):
        if operand.role == "input":
            continue
        memory = memories[piece.buffer]
        view = _View(operand, piece, frame, memory, groups, lanes, site)
        values = picked(results, (slice(None), *view.logical)).reshape(-1)
        values = site.domain.cast(values, operand.dtype, memory.buffer.dtype)
        where, units = memory.store(site, view.ids, view.coords, values, flight=instr.awaits is not None)
        if instr.awaits is not None:
            landing.append((memory, where, units))
    return landing


def _whole_groups(ids: np.ndarray, size: int) -> np.ndarray:
    """Those of the ascending `ids` whose group of `size` is complete."""
    if size == 1:
        return ids
    _, inverse, counts = np.unique(ids // size, return_inverse=True, return_counts=True)
    return ids[counts[inverse] == size]


class _View:
    """One operand as accesses: (group, lane, r) in one line, with the logical element each of them is."""

    def __init__(
        self, operand: Operand, piece: Piece, frame: Frame, memory: Memory, groups: int, lanes: int, site: Site
    ) -> None:
        lane_vars = [v for v in operand.coords if v.name != "r"]
        reg, registers = operand.register, operand.registers
        if registers != piece.extent:
            site.report("malformed", f"operand {operand.name} has {registers} elements a unit, the piece {piece.extent}")
        if lane_vars and (stated := prod((v.hi or 0) + 1 for v in lane_vars)) != lanes:
            site.report("malformed", f"operand {operand.name} is spread over {stated} units; the launch has {lanes}")
        alone = not lane_vars and memory.below > 1  # lane 0 speaks for all
        speakers = np.arange(0, groups * lanes, lanes) if alone else np.arange(groups * lanes)
        count = 1 if alone else lanes
        r = np.arange(registers)
        self.ids = np.repeat(frame.ids[speakers], registers)
        coords = [np.broadcast_to(c.evaluate(frame.env), frame.ids.shape)[speakers] for c in piece.coords]
        coords = [np.repeat(c, registers) for c in coords]
        if coords:
            coords[-1] = coords[-1] + np.tile(r, len(speakers))
        for d in range(len(coords) - 1, 0, -1):
            row = memory.shape[d]
            goes_on = registers > prod(memory.shape[d:]) or goes_on_in_next_row(piece.coords, d, memory.buffer.shape[d])
            if not row or not goes_on or memory.strides[d - 1] != row * memory.strides[d]:
                break
            coords[d - 1], coords[d] = coords[d - 1] + coords[d] // row, coords[d] % row
        self.coords = coords
        env = _split(lane_vars, np.arange(count)[:, None])
        if reg is not None:
            env[reg.name] = r[None, :]
        full = (count, registers)
        self.logical = tuple(np.broadcast_to(m.evaluate(env), full).reshape(-1) for m in operand.map)
        if operand.alignment > 1:
            first = slice(None, None, registers)
            memory.check_aligned(site, self.ids[first], [c[first] for c in coords], operand.alignment)


def _split(lane_vars: list, lane: np.ndarray) -> dict[str, np.ndarray]:
    """The lane's number as digits, the last coordinate fastest."""
    env: dict[str, np.ndarray] = {}
    for var in reversed(lane_vars):
        extent = (var.hi or 0) + 1
        env[var.name] = lane % extent
        lane = lane // extent
    return env


def _source_operands(
    instr: Instr, operand: str, dense: dict[str, np.ndarray], groups: int, domain: Domain
) -> np.ndarray | None:
    """Which elements of an operand are read: those on the side of a `where` that is taken; None: all.

    Shape (groups, *operand.shape).
    """
    s = instr.statement
    if operand == s.target or not any(isinstance(v, Apply) and v.fn == "where" for v in walk(s.value)):
        return None
    frame, _ = _grid(instr, groups)
    found = np.zeros((groups, *instr.operand(operand).shape), np.bool_)

    def visit(v: Value, here: np.ndarray) -> None:
        match v:
            case Load() if v.tensor == operand:
                where = tuple(np.broadcast_to(e.evaluate(frame.env), frame.ids.shape) for e in v.indices)
                found[(frame.ids[here], *(w[here] for w in where))] = True
            case Apply(fn="where", args=(cond, one, other)):
                visit(cond, here)
                true = (
                    here
                    if operand in {x.tensor for x in loads(cond)}
                    else here & domain.choice(_values(cond, frame, dense, domain))
                )
                visit(one, true)
                visit(other, here & ~true)
            case _:
                for child in children(v):
                    visit(child, here)

    visit(s.value, np.ones(len(frame.ids), np.bool_))
    return found


def _gather(
    operand: Operand, piece: Piece, frame: Frame, memory: Memory, groups: int, lanes: int, site: Site, taken: np.ndarray | None
) -> np.ndarray:
    """The logical operand of each group, shape (groups, *operand.shape)."""
    view, domain = _View(operand, piece, frame, memory, groups, lanes, site), site.domain
    read = None if taken is None or taken.all() else taken[(slice(None), *view.logical)].reshape(-1)
    if site.traffic is not None:
        again = np.tile(_repeated(view, operand, len(view.ids) // groups), groups)
        site.count(memory.buffer, "read", -int(np.sum(again if read is None else again & read)))
    if read is not None:
        values = np.zeros(len(view.ids), domain.storage(operand.dtype))
        loaded = memory.load(site, view.ids[read], [c[read] for c in view.coords])
        values[read] = domain.cast(loaded, memory.buffer.dtype, operand.dtype)
        values = values.reshape(groups, -1)
    else:
        loaded = memory.load(site, view.ids, view.coords)
        values = domain.cast(loaded, memory.buffer.dtype, operand.dtype).reshape(groups, -1)
    if not operand.shape:  # every unit holds the one element
        if not domain.same(values, np.broadcast_to(values[:, :1], values.shape)).all():
            site.report("replica-mismatch", f"units disagree about the scalar {operand.name}", memory.buffer.name)
        return values[:, 0]
    dense = np.zeros((groups, *operand.shape), domain.storage(operand.dtype))
    where = (slice(None), *view.logical)
    put(dense, where, values)
    if not domain.same(picked(dense, where), values).all():
        site.report("replica-mismatch", f"units disagree about a replicated element of {operand.name}", memory.buffer.name)
    return dense


def _repeated(view: _View, operand: Operand, accesses: int) -> np.ndarray:
    """Which accesses of a group are of an element that one before them has: units that pass the same address read it once."""
    element = np.zeros(accesses, np.int64)
    for at, extent in zip(view.logical, operand.shape, strict=True):
        element = element * extent + at
    first = np.zeros(len(element), np.bool_)
    first[np.unique(element, return_index=True)[1]] = True
    return ~first


def _grid(instr: Instr, groups: int) -> tuple[Frame, list[int]]:
    """A frame with one entry for each group and point of the instruction's indices, and their extents; ids are the groups."""
    s = instr.statement
    order = [*s.indices, *(s.reduction.indices if s.reduction else ())]
    extents = [groups, *(_constant(s.extent(i)) for i in order)]
    env = UnitVariables()
    for name, axis in zip(["", *order], np.indices(extents, sparse=True), strict=True):
        env[name] = np.broadcast_to(axis, extents).reshape(-1)
    return Frame(env[""], env), extents


def _values(value: Value, frame: Frame, dense: dict[str, np.ndarray], domain: Domain) -> np.ndarray:
    def load(at: Load, inner: Frame) -> np.ndarray:
        where = tuple(np.broadcast_to(e.evaluate(inner.env), inner.ids.shape) for e in at.indices)
        return picked(dense[at.tensor], (inner.ids, *where))

    return np.broadcast_to(evaluate(value, frame, load, domain), frame.ids.shape)


def _execute(instr: Instr, dense: dict[str, np.ndarray], groups: int, domain: Domain) -> np.ndarray:
    """The target's new contents, shape (groups, *target shape)."""
    s = instr.statement
    frame, extents = _grid(instr, groups)
    target = instr.operand(s.target)
    values = _values(s.value, frame, dense, domain).reshape(extents)
    kind = s.reduction.kind if s.reduction else "sum"
    axes = tuple(range(1 + len(s.indices), len(extents)))
    before = dense[s.target] if instr.accumulate else None
    return domain.reduce(kind, values, axes, before, s.value.dtype, target.dtype)


def _constant(e: Expr) -> int:
    value = e.constant
    assert value is not None, "an instruction's extents are constant"
    return value


def all_reduce(stmt: AllReduce, frame: Frame, memories: dict[str, Memory], site: Site) -> None:
    """Every unit gets the combination over its group, formed in the order of the units' numbers."""
    tree = site.tree
    if tree.device.level(stmt.level).siblings != "lockstep":
        site.report("malformed", f"units of {stmt.level} do not run in lockstep")
    size = tree.size(stmt.level)
    number = frame.ids // size % tree.count(stmt.level)
    first = number - number // stmt.stride % stmt.count * stmt.stride
    members = []
    for j in range(stmt.count):
        partner = frame.ids + (first + j * stmt.stride - number) * size
        at = np.minimum(np.searchsorted(frame.ids, partner), len(frame.ids) - 1)
        absent = (frame.ids[at] != partner) | (first + j * stmt.stride >= tree.count(stmt.level))
        if absent.any():
            who = tree.name(int(frame.ids[int(np.argmax(absent))]))
            site.report("divergent-reduce", f"unit {j} of the group of {who} does not take part", stmt.cells[0][0])
            return
        members.append(at)
    cells = []
    for name, coords in stmt.cells:
        memory = memories[name]
        at = [c.evaluate(frame.env) for c in coords]
        cells.append((memory, at, memory.load(site, frame.ids, at)))
    dtype, domain = cells[0][0].buffer.dtype, site.domain
    if stmt.kind in ("argmax", "argmin"):
        best, where = cells[0][2][members[0]], cells[1][2][members[0]]
        for j in members[1:]:
            take = domain.better(stmt.kind, cells[0][2][j], cells[1][2][j], best, where)
            best, where = np.where(take, cells[0][2][j], best), np.where(take, cells[1][2][j], where)
        for (memory, at, _), values in zip(cells, (best, where), strict=True):
            memory.store(site, frame.ids, at, values)
        return
    memory, at, values = cells[0]
    wide = domain.cast(values, dtype, dtype.compute)
    total = picked(wide, members[0])
    for j in members[1:]:
        total = domain.apply(_COMBINE[stmt.kind], (total, picked(wide, j)), dtype.compute)
    memory.store(site, frame.ids, at, domain.cast(total, dtype.compute, dtype))
