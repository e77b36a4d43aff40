"""`price_lines`: what the closed forms predict for the lines of a launch on a CPU, whoever wrote them.

ONE_PRICE   products of which an author wrote some lines, and written schedules, are priced here. A product of which nothing is
            written is priced by its blocking, before its lines are made: they read as the same blocking
            (`test_lines_have_the_price_of_their_blocking`).
"""

from __future__ import annotations

from ...ir.schedule_tree import Keep
from ...lower.lowering_context import LoweringContext
from ...plan.computations import Computation
from ...schedule.build_tree import schedule_tree
from ...schedule.candidate import Cost, Lines
from ..access_model import AccessProblem
from ..machine_model import MachineModel
from ..representative_sizes import typical_sizes
from . import matmul_cost, nest_cost
from .matmul import sample_problem
from .read_blocking import read_blocking


def price_lines(ctx: LoweringContext, cpu: MachineModel, computations: tuple[Computation, ...], lines: Lines) -> Cost | None:
    """The price of a blocking if the lines follow one, else that of their loops. Lines must be explicit.

    None for a nest within the nest, as in one pass over the keys of an attention.
    """
    tree = schedule_tree(lines)
    product = sample_problem(ctx.device, computations[0], ctx.shapes) if len(computations) == 1 else None
    if product is not None:
        p = product[1]
        blocking = read_blocking(p, cpu, tree, p.typical_extents)
        if blocking is not None:
            return matmul_cost.seconds(p, cpu, blocking, p.typical_extents)
    if any(isinstance(x, Keep) and x.block is not None for x in tree.path()):
        return None
    problems = tuple(AccessProblem.of(w, ctx.dtypes) for w in computations)
    return nest_cost.seconds(ctx, cpu, problems, tree, typical_sizes(problems))
