"""Siblings in one launch beside a launch for each of them.

CHOSEN  One launch is taken where it is predicted to take less time than the launches apart, at the sizes that candidates are
        judged at. What launches cost the host is not in the model, and results apart go through memory. Both are in the report.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....dsl.op import Op
from ...lower.lowering_context import LoweringContext
from ...plan.computations import Computation
from ..gpu.passes.one_pass_choice import apart_launch, side_by_side
from ..rank import sample_sizes
from ..report import LaunchReport
from .find_siblings import mergeable_results, siblings_of

Launches = list[tuple[Computation, ...]]

_SIBLINGS = "siblings: 1 launch"


def siblings_joined(ctx: LoweringContext, op: Op, launches: Callable[[frozenset[str]], Launches]) -> frozenset[str]:
    """What launches of siblings leave to the last of them, where one launch of these is predicted to be faster. The context
    gets the reports.

    launches   that there are where these are kept
    """
    out: frozenset[str] = frozenset()
    now = launches(frozenset())
    for kept in mergeable_results(op, now):
        apart = [g for g in now if not kept.isdisjoint(t for w in g for t in (*w.targets, *w.reads))]
        together = next((g for g in launches(kept) if kept <= {t for w in g for t in w.targets}), None)
        report = _beside(ctx, together, apart) if together is not None and len(apart) == len(kept) + 1 else None
        if report is not None:
            ctx.alternatives.append(report)
            out |= kept if report.candidates[0].nest == _SIBLINGS else frozenset()
    return out


def _beside(
    ctx: LoweringContext, together: tuple[Computation, ...], apart: Sequence[tuple[Computation, ...]]
) -> LaunchReport | None:
    """The faster of one launch and of several, first. None: there is no such launch, or no candidate for one of them."""
    if siblings_of(together) is None:
        return None
    at = sample_sizes(ctx, together)
    found = [apart_launch(ctx, x, at) for x in (together, *apart)]
    if any(x is None for x in found):
        return None
    one, *several = (x for x in found if x is not None)
    return side_by_side({_SIBLINGS: one}, {f"apart: {len(several)} launches": several}, 1)
