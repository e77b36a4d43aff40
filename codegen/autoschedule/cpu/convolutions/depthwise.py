"""DEPTHWISE: convolutions with one filter a channel, of open sizes.

    Y[n, c, p, q] = sum(r, s) I[n, c, p + r, q + s] * F[c, r, s]

Where sizes are known, the filter is unrolled and edges are masks that are known (`nest_space`, WINDOWS). Where they are open,
each load would ask for edges. Instead a core copies some lines of one channel into its cache, with zeros at the edges, as
`windows` does, and asks nothing. Several lines in registers share what they read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from .....dsl import syntax
from .....dsl.device import Device
from .....dsl.index.expr import Expr, Var
from .....dsl.values import Load
from ....lower.lowering_context import LoweringContext
from ....plan.computations import Computation, plain_index
from ....schedule.build_tree import schedule_tree
from ....schedule.candidate import Candidate, Description
from ...access_model import AccessProblem
from ...line_builders import modifier, tile_text
from ...machine_model import core_machine
from ...representative_sizes import typical_sizes
from ..matmul_model import operands_of
from ..nest_cost import seconds

LINES = 16  # lines: of results, of a core's tile [tried; test_open_depthwise]
ACROSS = 4  # vectors: of a line, of a core's tile of wide images [tried; test_open_depthwise]
TOGETHER = 4  # lines: in registers, which share what they read [tried; test_open_depthwise]
VECTORS = 2  # vectors: of a line, in registers [tried; test_open_depthwise]


@dataclass(frozen=True)
class DepthwiseModel:
    """`last`: the index of columns, `line`: that of lines, the one before it."""

    image: Load
    last: str
    line: str
    filters: tuple[str, ...]
    lanes: int
    instr: str
    extents: Mapping[str, Expr]

    def largest_extent(self, index: str) -> int | None:
        return self.extents[index].interval[1]

    @property
    def is_open(self) -> bool:
        return any(self.extents[i].constant is None for i in (*self.filters, self.last))


def depthwise_of(device: Device, computation: Computation) -> DepthwiseModel | None:
    """None for what is no sum of windows of an image times one filter, with columns side by side."""
    found = operands_of(device, computation)
    if found is None:
        return None
    match, last, image, _, rows = found
    *_, line, end = ("", "", *computation.indices)
    columns = image.indices[-1].coefficient(Var(last))
    boxes = all(isinstance(a, Var) for e in image.indices for a, _ in e.terms)
    moved = [e for e in image.indices if plain_index(e) is None]
    windows = all(any(e.coefficient(Var(i)) for e in moved) for i in (line, *computation.reduced))
    if rows or end != last or not line or columns < 1 or not boxes or not windows or len(match.extents()) != 1:
        return None
    lanes = match.extents()[match.instr.statement.indices[0]]
    extents = dict(computation.extents)
    return DepthwiseModel(image, last, line, computation.reduced, lanes, match.instr.name, extents)


def depthwise_candidates(ctx: LoweringContext, computations: tuple[Computation, ...]) -> list[Candidate]:
    """One, if sizes are open and those of the filters bounded."""
    cpu = core_machine(ctx.device)
    p = depthwise_of(ctx.device, computations[0]) if len(computations) == 1 and cpu is not None else None
    if cpu is None or p is None or not p.is_open or any(p.largest_extent(i) is None for i in p.filters):
        return []
    lines = depthwise_lines(p, computations[0], cpu.outer.name, cpu.staging.name, cpu.register.name)
    problems = (AccessProblem.of(computations[0], ctx.dtypes),)

    def description() -> Description:
        cost = seconds(ctx, cpu, problems, schedule_tree(lines), typical_sizes(problems))
        return Description(cost, f"{p.image.tensor} -> {cpu.staging.name}, {LINES} lines a core")

    return [Candidate(partial(tuple, lines), description)]


def depthwise_lines(
    p: DepthwiseModel, computation: Computation, cores: str, inner: str, register: str
) -> tuple[syntax.Line, ...]:
    most = p.largest_extent(p.last)
    columns = p.lanes * (ACROSS if most is None else min(ACROSS, max(1, -(-most // p.lanes))))
    vector = min(columns, VECTORS * p.lanes)
    together = TOGETHER if vector > p.lanes else TOGETHER // 2
    others = [(i, 1) for i in computation.indices if i not in (p.line, p.last)]
    return (
        tile_text(*others, (p.line, LINES), (p.last, columns), level=cores),
        syntax.Move(p.image.tensor, inner),
        tile_text((p.line, together)),
        *((tile_text((p.last, vector)),) if vector < columns else ()),
        syntax.Keep((computation.result,), register),
        *(tile_text((i, 1)) for i in p.filters),
        tile_text((p.line, 1), modifiers=modifier("unroll", together)),
        syntax.Compute(p.instr),
    )
