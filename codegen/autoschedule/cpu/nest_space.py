"""Nests on CPUs for computations that are not matrix products, as schedule lines, ranked by a closed form (`nest_cost`).

The nest of the default rules (`default_nests`) is one of them. It is chosen unless another is predicted to be clearly faster.

MAPS      pieces of rows and rows for a core; vectors in flight; for windows, rows inside columns; squares that an instruction
          transposes.
ROWS      lanes along a reduced axis: rows of a core, rows together in registers, vectors; or lanes across short rows.
PARTS     rows that are fewer than cores are split: cores have parts of a row, which a launch that follows combines.
COLUMNS   lanes along a free axis, and the reduction in a loop: strips of columns by a few rows, or a few columns by all rows.
WINDOWS   short reduced axes are unrolled: each point of a window has a constant offset, and edges are masks. Several rows in
          registers share their loads.
WHOLE     a reduction to one element: parts for cores, vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import product
from math import inf, log, prod

from ....dsl import syntax
from ....dsl.index.expr import Expr, Var
from ....dsl.support.fast_replace import replace
from ....dsl.values import loads
from ...lower.lowering_context import LoweringContext
from ...plan.computations import Computation, computation_extents, plain_index
from ...schedule.build_tree import schedule_tree
from ...schedule.candidate import Candidate, Cost, Description, Lines
from ..access_model import AccessProblem
from ..gpu.split_reductions import has_parts
from ..line_builders import modifier, tile_text
from ..machine_model import MachineModel, core_machine
from ..representative_sizes import typical_sizes
from ..row_parts.find_chain import RowChain, row_chain
from ..tile_space import even_tiles, round_up
from .default_nests import CHUNK, DEEP
from .default_nests import ROWS as RULE_ROWS
from .matmul_model import fma_of
from .nest_cost import seconds

VECTORS = (4, 1, 2, 8)  # vectors: a block of lanes [tried; test_first_candidates]
ROWS = (1, 4, 128)  # rows: that a core takes at once, besides the rule's [tried; test_sizes_tried]
SHORT_CHUNK = 1024  # elements: of a row, that a core takes at once, besides the rule's [tried; test_sizes_tried]
STRIPS = (2048, 512, 4096, 8192)  # elements: a register strip of a row [tried; test_sizes_tried]
PARTS = (4, 2, 8)  # parts: for a core, of all rows that are split [tried; test_few_rows_are_split]
# elements: of all rows, from which on more cores are worth waking for parts of them [estimate; test_few_rows_are_split]
LEAST = 131072
# elements: of a part, after which lanes correct their sums [tried; test_a_pass_over_parts]
IN_CACHE = 4096
IN_PARTS = modifier("by", words=("workspace",))
WINDOW = 32  # points: of a window that is unrolled, at most [limit]
# log of times: by which another nest must be faster than the rule's, the precision of the model [measured: cpu-nests;
# test_first_candidates]
CLEARLY = 0.05
SAME = 0.02  # log of times: candidates within it count as equal [measured: cpu-nests; test_first_candidates]


def nest_candidates(ctx: LoweringContext, computations: tuple[Computation, ...], rule: Lines) -> list[Candidate]:
    """All candidates, the best first. `rule`: the lines of the default nest, chosen unless another is clearly better."""
    nests, price = nest_schedules(ctx, computations, rule)
    if not nests:
        return []
    costs = [price(x) for x in nests]
    best = min(c.seconds for c in costs)
    preferred = [log(costs[0].seconds / best) <= CLEARLY, *[False] * (len(nests) - 1)]
    order = sorted(range(len(nests)), key=lambda n: (not preferred[n], int(log(costs[n].seconds / best) / SAME), n))
    return [Candidate(partial(nests.__getitem__, n), partial(_description, nests[n], costs[n])) for n in order]


def _description(nest: Lines, cost: Cost) -> Description:
    return Description(cost, describe_tiles(nest))


def nest_schedules(
    ctx: LoweringContext, computations: tuple[Computation, ...], rule: Lines
) -> tuple[list[Lines], Callable[[Lines], Cost]]:
    """The rule's lines and the other candidates, and a function that predicts the cost of any lines for these computations."""
    cpu = core_machine(ctx.device)
    if cpu is None or not computations:
        return [], lambda _: Cost(inf, {})
    problems = tuple(AccessProblem.of(w, ctx.dtypes) for w in computations)
    sizes = typical_sizes(problems)
    return list(dict.fromkeys((rule, *alternative_nests(ctx, cpu, computations, rule)))), lambda x: seconds(
        ctx, cpu, problems, schedule_tree(x), sizes
    )


def describe_tiles(lines: Lines) -> str:
    """The sizes of the tiles and the kept tensors, for people."""
    out = []
    for x in lines:
        if isinstance(x, syntax.Tile):
            sizes = ", ".join(f"{a.index}: {a.size.value}" for a in x.axes if isinstance(a.size, syntax.Num))
            unroll = [f" unroll {n.value}" for m in x.modifiers for n in m.values if isinstance(n, syntax.Num)]
            out.append("".join((sizes, f" -> {x.level}" if x.level else "", *unroll)))
        elif isinstance(x, syntax.Keep):
            out.append(f"{', '.join(x.tensors)} in {x.memory}" + (" past the caches" if x.modifiers else ""))
        elif isinstance(x, syntax.Move):
            out.append(f"{x.tensor} -> {x.memory}")
    return "; ".join(out)


# ---------------------------------------------------------------- candidates


def alternative_nests(
    ctx: LoweringContext, cpu: MachineModel, computations: tuple[Computation, ...], rule: Lines
) -> Iterator[Lines]:
    """Nests besides the rule's. Each is legal for any sizes; none where there are no vectors."""
    computation = max(computations, key=lambda w: len(w.all_indices))
    lane = ctx.device.levels[-1]
    if rule and isinstance(rule[0], syntax.Fuse):
        return  # rows that are as one have nothing to choose
    fast = next((x.axes[0].index for x in rule if isinstance(x, syntax.Tile) and x.level == lane.name), None)
    leaf = rule[-1]
    if fast is None and isinstance(leaf, syntax.Compute) and leaf.instr is not None and computation.reduction is not None:
        m = fma_of(ctx.device, computation)
        fast = m.index[0][1] if m is not None and len(m.index) == 1 else None
    if fast is None:
        yield from _squares(rule, computation_extents(computation))
        return
    n = NestTemplate(ctx, cpu, computation, rule, fast, max(1, (lane.bytes or 1) // computation.value.dtype.compute.bytes))
    if len(computations) > 1:
        yield from n.row_chain_nests() if any(w.reduction is not None for w in computations) else ()
        chain = row_chain(computations)
        yield from n.row_pass_nests(chain) if chain is not None else ()
    elif computation.reduction is None:
        yield from n.elementwise_nests()
    elif not computation.indices:
        yield from n.whole_row_nests()
    elif fast in computation.reduced and not n.window:
        yield from n.row_nests()
    else:
        yield from n.column_nests()


def _squares(rule: Lines, extents: Mapping[str, Expr]) -> Iterator[Lines]:
    """MAPS, squares that an instruction transposes: other blocks of them, and the other order inside a block."""
    outer = rule[0] if rule else None
    if not isinstance(outer, syntax.Tile) or outer.level is None or len(rule) < 2 or not isinstance(rule[1], syntax.Tile):
        return
    square = rule[1]
    both = [a.index for a in square.axes]
    if len(both) != 2:
        return
    for flat, long in ((64, 1024), (16, 1024), (64, 256), (128, 512), (32, 4096), (64, 4096), (256, 256)):
        new = {i: _within(extents[i].constant, x, square) for i, x in ((both[1], flat), (both[0], long))}
        axes = tuple(replace(a, size=syntax.Num(new[a.index])) if a.index in new else a for a in outer.axes)
        yield (replace(outer, axes=axes), *rule[1:])


def _within(extent: int | None, size: int, square: syntax.Tile) -> int:
    """At most as many whole squares as there are."""
    step = max(int(a.size.value) for a in square.axes if isinstance(a.size, syntax.Num))
    return size if extent is None else max(step, min(size, -(-extent // step) * step))


class NestTemplate:
    """Candidates for one computation, or several that share rows, with lanes along `fast`."""

    def __init__(self, ctx: LoweringContext, cpu: MachineModel, computation: Computation, rule: Lines, fast: str, lanes: int):
        self.computation, self.rule, self.fast, self.lanes = computation, rule, fast, lanes
        self.line = max(lanes, (ctx.device.memories[0].transaction or 1) // computation.value.dtype.bytes)
        self.extents = computation_extents(computation)
        self.cores, self.lane, self.units = cpu.outer.name, ctx.device.levels[-1].name, cpu.units
        self.keeps = tuple(x for x in rule if isinstance(x, syntax.Keep))
        self.plain = tuple(x for x in self.keeps if not x.modifiers)
        self.result = syntax.Keep((computation.result,), cpu.register.name)
        extents = [self.extents[i].constant for i in computation.reduced]
        moving = any(plain_index(e) is None for ld in loads(computation.value) for e in ld.indices)
        self.window = moving and None not in extents and 0 < prod(n or 0 for n in extents) <= WINDOW
        if self.window and computation.indices and fast in computation.reduced:
            self.fast = computation.indices[-1]
        m = fma_of(ctx.device, computation) if computation.reduction is not None else None
        self.leaf = m.instr.name if m is not None and [theirs for _, theirs in m.index] == [self.fast] else None

    def largest_extent(self, index: str) -> int | None:
        return self.extents[index].interval[1]

    def blocks(self, along: str) -> list[int]:
        """Vectors of an axis together, without those beyond its extent."""
        most = self.largest_extent(along)
        blocks = [v * self.lanes for v in VECTORS]
        return [b for b in blocks if most is None or b < most + self.lanes or b == self.lanes]

    def sizes(self, index: str, wanted: tuple[int, ...]) -> list[int]:
        """Sizes of an axis's tile: of an extent that is known, as good as equal parts. Parts of rows are whole cache lines.
        Otherwise vectors straddle lines, and stores past the caches fill none (`add_row`: 1001 columns took 1.4 times as long
        as 1008)."""
        known = self.extents[index].constant
        if known is None:
            return list(wanted)
        n, unit = max(1, known), self.line if index == self.fast else 1
        return list(dict.fromkeys(min(n, round_up(even_tiles(n, min(x, n)), unit)) for x in wanted))

    def distributed_rows(self, rows: tuple[str, ...], size: int, *more: tuple[str, int]) -> syntax.Tile:
        return tile_text(*((i, size if i == rows[-1] else 1) for i in rows), *more, level=self.cores)

    def vector(self, along: str) -> syntax.Tile:
        return tile_text((along, 1), level=self.lane)

    # ------------------------------------------------------------ without reduction

    def elementwise_nests(self) -> Iterator[Lines]:
        fast = self.fast
        rows = tuple(i for i in self.computation.indices if i != fast)
        keeps = tuple(dict.fromkeys((self.keeps, ())))
        if not rows:
            for chunk, b, keep in product(self.sizes(fast, (CHUNK, 4096, 65536)), self.blocks(fast), keeps):
                yield (
                    tile_text((fast, chunk), level=self.cores),
                    tile_text((fast, b)),
                    *keep,
                    self.vector(fast),
                    syntax.Compute(),
                )
            return
        one = tile_text((rows[-1], 1))
        for r, chunk, b, keep in product(
            self.sizes(rows[-1], (RULE_ROWS, 4, 128)), self.sizes(fast, (CHUNK, SHORT_CHUNK)), self.blocks(fast), keeps
        ):
            yield (
                self.distributed_rows(rows, r, (fast, chunk)),
                one,
                tile_text((fast, b)),
                *keep,
                self.vector(fast),
                syntax.Compute(),
            )
        reads = [ld.tensor for ld in loads(self.computation.value)]
        if len(set(reads)) < len(reads):
            for r, b in product(self.sizes(rows[-1], (RULE_ROWS, 8)), self.blocks(fast)):
                dealt = self.distributed_rows(rows, r, (fast, CHUNK))
                yield (dealt, tile_text((fast, b)), one, *self.keeps, self.vector(fast), syntax.Compute())

    # ------------------------------------------------------------ reductions

    def row_chain_nests(self) -> Iterator[Lines]:
        rows = tuple(i for i in self.computation.indices if i != self.fast)
        if not rows:
            return
        streams = tuple(x for x in self.keeps if x.modifiers)
        past = dict.fromkeys((streams, ()))
        for r, b, stream in product(self.sizes(rows[-1], (RULE_ROWS, *ROWS)), self.blocks(self.fast), past):
            lines = (self.distributed_rows(rows, r), tile_text((rows[-1], 1)), *self.plain, tile_text((self.fast, b)), *stream)
            yield (*lines, self.vector(self.fast), syntax.Compute())

    def row_pass_nests(self, chain: RowChain) -> Iterator[Lines]:
        """PARTS, all statistics in one pass over each part."""
        dealt = (tile_text(*((i, 1) for i in chain.rows), level=self.cores),) if chain.rows else ()
        for part, b in product(self.parts(chain.fast, self.tiles(chain.rows)), self.blocks(chain.fast)):
            yield (
                *dealt,
                tile_text((chain.fast, part), level=self.cores, modifiers=(*modifier("online"), *IN_PARTS)),
                syntax.Keep(chain.results, self.result.memory),
                tile_text((chain.fast, IN_CACHE), modifiers=modifier("online")),
                tile_text((chain.fast, b)),
                self.vector(chain.fast),
                syntax.Compute(),
            )

    def row_nests(self) -> Iterator[Lines]:
        w, fast = self.computation, self.fast
        rows, others = w.indices, [tile_text((i, 1)) for i in w.reduced if i != self.fast]
        end = (self.vector(fast), syntax.Compute())
        for r, b in product(self.sizes(rows[-1], (RULE_ROWS, *ROWS)), self.blocks(fast)):
            yield (self.distributed_rows(rows, r), tile_text((rows[-1], 1)), *self.plain, *others, tile_text((fast, b)), *end)
            for j in (2, 4):
                if j <= r and b <= 4 * self.lanes // j:
                    few, each = tile_text((rows[-1], j)), tile_text((rows[-1], 1), modifiers=modifier("unroll", j))
                    yield (self.distributed_rows(rows, r), few, *self.plain, *others, tile_text((fast, b)), each, *end)
        across = (self.vector(rows[-1]), syntax.Compute())
        for b in self.blocks(rows[-1]):
            inner = [tile_text((i, 1)) for i in w.reduced]
            yield (self.distributed_rows(rows, max(b, 128)), tile_text((rows[-1], b)), *self.plain, *inner, *across)
        in_parts = self.parts(fast, self.tiles(rows)) if w.reduced == (fast,) else []
        for part, b in product(in_parts, self.blocks(fast)):
            dealt = tile_text(*((i, 1) for i in rows), level=self.cores)
            yield (
                dealt,
                tile_text((fast, part), level=self.cores, modifiers=IN_PARTS),
                *self.plain,
                tile_text((fast, b)),
                *end,
            )

    def parts(self, index: str, free: int | None) -> list[int]:
        """PARTS: elements of a reduced axis that a core has, where `free` tiles of the results leave cores idle; none where
        that is not known, or takes no time."""
        extents = [e.constant for i, e in self.extents.items() if i in self.computation.all_indices]
        long = self.extents[index].constant
        if None in extents or long is None or free is None or not 0 < free < self.units or not has_parts(self.computation):
            return []
        wanted = tuple(max(1, long * free // (x * self.units)) for x in PARTS)
        return [x for x in self.sizes(index, wanted) if x < long] if prod(n or 0 for n in extents) >= LEAST else []

    def tiles(self, rows: tuple[str, ...], strip: int = 1) -> int | None:
        """How many rows there are, or strips of them, if that is known."""
        extents = [self.extents[i].constant for i in rows]
        long = self.extents[self.fast].constant if strip > 1 else 1
        return None if None in extents or long is None else prod(n or 0 for n in extents) * -(-long // strip)

    def whole_row_nests(self) -> Iterator[Lines]:
        w, fast = self.computation, self.fast
        others = [i for i in w.reduced if i != fast]
        first = others[0] if others else fast
        split = any(isinstance(x, syntax.Tile) and x.level == self.cores for x in self.rule)
        parts = self.sizes(first, (2 * RULE_ROWS, 16, 256) if others else (4 * CHUNK, 16384, 262144)) if split else [0]
        for part, b in product(parts, self.blocks(fast)):
            dealt = (tile_text((first, part), level=self.cores, modifiers=IN_PARTS),) if split else ()
            yield (
                *dealt,
                *self.plain,
                *(tile_text((i, 1)) for i in others),
                tile_text((fast, b)),
                self.vector(fast),
                syntax.Compute(),
            )

    def column_nests(self) -> Iterator[Lines]:
        w, fast = self.computation, self.fast
        rows = tuple(i for i in w.indices if i != fast)
        keeps = self.plain or (self.result,)
        end = (self.vector(fast), syntax.Compute())
        inner = [
            tile_text((i, 1), modifiers=modifier("unroll", self.extents[i].constant) if self.window else ()) for i in w.reduced
        ]
        inside = all(None not in map(plain_index, ld.indices) and ld.otherwise is None for ld in loads(w.value))
        arguments = w.reduction is not None and w.reduction.kind in ("argmax", "argmin")
        if inside and not arguments and not self.window:
            first, others = w.reduced[0], [tile_text((i, 1)) for i in w.reduced[1:]]
            are_few = (self.tiles(rows, VECTORS[0] * self.lanes) or self.units) < self.units  # even as narrow strips
            for strip, deep, b in product(self.sizes(fast, STRIPS), self.sizes(first, (DEEP, 4, 32)), self.blocks(fast)):
                distributed = tile_text(*((i, 1) for i in rows), (fast, max(strip, b)), level=self.cores)
                unrolled = tile_text((first, 1), modifiers=modifier("unroll", min(8, deep)))
                rest = (tile_text((first, deep)), tile_text((fast, b)), *keeps, unrolled, *others, *end)
                yield (distributed, *rest)
                for part in self.parts(first, self.tiles(rows, max(strip, b))) if are_few else ():
                    yield (distributed, tile_text((first, part), level=self.cores, modifiers=IN_PARTS), *rest)
        for b in self.blocks(fast):
            if not rows:
                for strip in self.sizes(fast, (b, 1024, 16384)):
                    yield (tile_text((fast, max(b, strip)), level=self.cores), tile_text((fast, b)), *keeps, *inner, *end)
                continue
            last = rows[-1]
            ends = (end, (syntax.Compute(self.leaf),)) if self.leaf is not None else (end,)
            for r, j, e in product(self.sizes(last, (16, 4, 128, 1)), (1, 2, 4, 8), ends):
                if j > r or (j > 1 and not self.is_reused(last)) or j * b > 8 * self.lanes:
                    continue
                few = (tile_text((last, j)),) if j < r else ()
                unrolled = (tile_text((last, 1), modifiers=modifier("unroll", j)),) if j > 1 else ()
                yield (self.distributed_rows(rows, r), *few, tile_text((fast, b)), *keeps, *inner, *unrolled, *e)

    def is_reused(self, index: str) -> bool:
        """Is there anything that is read for several of an index's points?"""
        reads = [ld.indices for ld in loads(self.computation.value)]
        return any(all(e.coefficient(Var(index)) == 0 for e in x) or None in map(plain_index, x) for x in reads)
