"""One pass over the keys for attention and what is like it: products around a softmax, with a row for each lane.

    tile h: 1, i: 32 -> core                   ROWS_IN_LANES: of neighbouring rows each lane has one
    move q -> l2 layout (h, d, i)
    keep m, l in register
    keep o in l2 layout (h, d, i)
    tile t: 64 online
    keep s in l2 layout (h, t, i):             tiles of the scores accumulate in registers
        tile t: 8
        keep s in register
        tile d: 1
        tile i: 1 -> lane
        compute
    keep p in l2 layout (h, t, i)
    tile d: 8                                  so do tiles of the result
    keep o in register
    tile t: 1
    tile i: 1 -> lane
    compute

ROWS_IN_LANES   no lane waits for another: maxima and sums over the keys are those of vectors, and products need no transposed
                keys. Queries are transposed once, results when they are stored.
KNOWN_FEATURES  features must have a bound, as buffers hold a tile of all of them. Heads, rows and keys may be open.
WHOLE_VECTORS   a tile that has only some of its rows is slow: rows are a multiple of it, or many.
MANY_KEYS       transposing queries and results takes time with the features, and pays where there are many more keys.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

from ....dsl import syntax
from ....dsl.device import Device
from ....dsl.index.expr import Expr
from ....dsl.op import Op
from ....dsl.values import loads
from ...lower.lowering_context import LoweringContext
from ...plan.computations import Computation, plain_index
from ...schedule.candidate import Candidate, Description, Lines
from ...schedule.size_bounds import size_conditions
from ..line_builders import modifier, move_with_layout, tile_text
from ..one_pass.chains import chains_of, together_in_launch
from ..one_pass.find_pass import OnePass, name_of, one_pass_of
from ..one_pass.kept_intermediates import kept_intermediates
from .default_nests import cores_and_lanes
from .precompute_operands import precomputed_operands

VECTORS = 2  # vectors: of rows, side by side [tried; test_lines_of_attention]
KEYS = 64  # keys: of an iteration, or a few more for whole register tiles [tried; test_lines_of_attention]
HIGH = 8  # rows of a register tile: of keys or of features, where registers allow as many [tried; test_lines_of_attention]
KEYS_A_FEATURE = 8  # keys: for each feature, for a pass to pay [measured: online; test_limits]
# tiles: of rows, from which on there may be one with a part of its rows, which is as slow as two or three [measured: online;
# test_numbers_of_rows]
WHOLE_TILES = 4
ROOM = 0.75  # share: of a cache, for the buffers [estimate; test_limits]


@dataclass(frozen=True)
class Pass:
    """A pass on cores: what it computes, and its tiles.

    core, lane   the levels        width  elements of a vector     across  rows of a tile
    keys         of an iteration   high   keys or features that registers hold at a time
    bytes        of an element
    """

    found: OnePass
    core: str
    lane: str
    width: int
    across: int
    high: int
    keys: int
    bytes: int

    @property
    def row(self) -> Expr:
        return self.found.extents[self.found.rows[-1]]

    @property
    def features(self) -> tuple[Expr, ...]:
        """In the order of their names: that of conditions in the text."""
        return tuple(sorted([self.found.extents[i] for i in self.found.all_features], key=str))

    def conditions(self, features: int) -> tuple[syntax.SizeCondition, ...]:
        """What open sizes must be for it to pay, where none of the features is more than so many."""
        most = max(e.constant or features for e in self.features)
        few = ((self.row, WHOLE_TILES * self.across), (self.found.extents[self.found.key], KEYS_A_FEATURE * most))
        return (*self.features_within(features), *size_conditions(_open_sizes(few), ">="))

    def features_within(self, most: int) -> tuple[syntax.SizeCondition, ...]:
        return size_conditions(_open_sizes((e, most) for e in self.features))

    def memory(self, device: Device) -> str | None:
        """The smallest cache of a core with room for its buffers; None where there is none, or the pass does not pay
        (KNOWN_FEATURES, WHOLE_VECTORS, MANY_KEYS)."""
        most = {i: e.interval[1] for i, e in self.found.extents.items()}
        fewest, rows = self.found.extents[self.found.key].interval[0] or 0, self.row.constant or 0
        features = [most[i] for i in self.found.all_features]
        whole = rows % self.width == 0 if rows < self.across else rows % self.across == 0
        if not (whole and rows) and (self.row.interval[0] or 0) < WHOLE_TILES * self.across:
            return None
        if None in features or 0 in most.values() or fewest < KEYS_A_FEATURE * max(n or 0 for n in features):
            return None
        cells = [[most[i] for i in axes if i not in self.found.rows] for _, axes in _staged(self.found)]
        cells += [[most[i] for i in self.found.features(w)] for w in self.found.products]
        cells += [[self.keys]] * (len(self.found.scores) + len(self.found.values))
        if any(None in x for x in cells):
            return None
        need = sum(prod(n or 0 for n in x) for x in cells) * self.across * self.bytes
        near = (m for m in device.memories if m.level == self.core and m.capacity and need <= ROOM * m.capacity)
        memory = min(near, key=lambda m: m.capacity or 0, default=None)
        return None if memory is None else memory.name


def _open_sizes(ends: Iterable[tuple[Expr, int]]) -> dict[str, int]:
    return {str(e): n for e, n in ends if e.constant is None}


def core_pass(device: Device, computations: tuple[Computation, ...]) -> Pass | None:
    """None where the computations are no pass, or the device has no cores with lanes."""
    levels = cores_and_lanes(device)
    found = one_pass_of(computations) if levels is not None else None
    registers = device.memories[-1].registers
    if levels is None or found is None or found.beside or registers is None:
        return None
    cores, lane = levels
    dtype = found.statistics[0].value.dtype.compute
    if dtype.kind != "float":
        return None
    width = max(1, (lane.bytes or 1) // dtype.bytes)
    high = min(HIGH, max(1, (registers[0] - VECTORS - 1) // VECTORS))  # beside a row of operands and one that is broadcast
    return Pass(found, cores.name, lane.name, width, VECTORS * width, high, -(-KEYS // high) * high, dtype.bytes)


def one_pass_lines(device: Device, computations: tuple[Computation, ...]) -> Lines | None:
    """The lines of the pass; None where it is none, does not pay, or no cache holds its buffers."""
    p = core_pass(device, computations)
    memory = p.memory(device) if p is not None else None
    return None if p is None or memory is None else _lines(device, p, memory)


def pass_of(op: Op, device: Device) -> Pass | None:
    """The pass of the op, or of a chain in it."""
    for part in chains_of(op):
        kept = kept_intermediates(part)
        together = pass_together(part, device, kept) if kept else None
        found = core_pass(device, together) if together is not None else None
        if found is not None:
            return found
    return None


def pass_together(op: Op, device: Device, kept: frozenset[str]) -> tuple[Computation, ...] | None:
    """What is the launch of the pass where those intermediates are kept in it."""
    return together_in_launch(op, kept, precomputed_operands(op, device) - kept)


def _staged(found: OnePass) -> list[tuple[str, tuple[str, ...]]]:
    """Tensors with rows that scores read, with their indices: lanes read neighbours of them where rows are last."""
    out: dict[str, tuple[str, ...]] = {}
    for w in found.scores:
        for ld in loads(w.value):
            axes = tuple(plain_index(e) for e in ld.indices)
            if found.rows[-1] in axes and None not in axes and len(set(axes)) == len(axes) and ld.otherwise is None:
                out[ld.tensor] = tuple(str(i) for i in axes)
    return list(out.items())


def _lines(device: Device, p: Pass, memory: str) -> Lines:
    found = p.found
    register, last = device.memories[-1].name, found.rows[-1]
    vector = tile_text((last, 1), level=p.lane)

    def rows_last(axes: tuple[str, ...]) -> tuple[str, ...]:
        return (*(i for i in axes if i != last), last)

    def kept(w: Computation, where: str, block: Lines | None = None) -> syntax.Keep:
        layout = tuple(syntax.Name(i) for i in rows_last(w.indices)) if where == memory else ()
        modifiers = (syntax.Modifier("layout", layout),) if layout else ()
        return syntax.Keep((name_of(w, found),), where, block=block, modifiers=modifiers)

    lines: list[syntax.Line] = [tile_text(*((i, p.across if i == last else 1) for i in found.rows), level=p.core)]
    lines += [move_with_layout(tensor, memory, rows_last(axes)) for tensor, axes in _staged(found)]
    lines += [kept(w, register) for w in (*found.statistics, *found.sums)]
    lines += [kept(w, memory) for w in found.products]
    lines.append(tile_text((found.key, p.keys), modifiers=modifier("online")))
    for w in found.scores:
        loop = [tile_text((i, 1)) for i in w.reduced]
        inner = (tile_text((found.key, p.high)), syntax.Keep((name_of(w, found),), register), *loop, vector, syntax.Compute())
        lines.append(kept(w, memory, inner))
    lines += [kept(w, memory) for w in found.values]
    for w in found.products[:1]:
        more = found.features(w)
        lines.append(tile_text(*((i, p.high if i == more[-1] else 1) for i in more)))
        lines.append(syntax.Keep(tuple(name_of(x, found) for x in found.products), register))
    return (*lines, tile_text((found.key, 1)), vector, syntax.Compute())


def one_pass_candidates(ctx: LoweringContext, computations: tuple[Computation, ...]) -> list[Candidate]:
    lines = one_pass_lines(ctx.device, computations)
    return (
        []
        if lines is None
        else [Candidate(lambda: lines, lambda: Description(about="one pass, a row for each lane"), "one pass")]
    )
