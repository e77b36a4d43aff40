"""The reasons for a choice as one picture: the roofline with the candidates under it, the tiles, the tables of `explain`."""

from __future__ import annotations

from collections.abc import Sequence

from ...codegen.autoschedule.report import LaunchReport, candidate_rows, traffic_rows
from ...runtime.kernel import Kernel
from .roofline import roofline
from .svg import picture, stacked, table, text
from .tiles import tiles
from .traffic import traffic

SHOWN = 5  # candidates of a launch


def choice_picture(kernel: Kernel) -> str:
    """An SVG. While sizes are open there is no roofline; where all lines were written there are no candidates."""
    report, device = kernel.report, kernel.program.device
    choices: Sequence[LaunchReport] = kernel.variants[0].facts.get("choices", ())
    parts = [
        roofline(report, device, _expected(choices, len(kernel.program.launches))),
        tiles(kernel.op, kernel.trace, report.sizes),
        *(_tables(choices) if choices else [traffic(report, device)]),
    ]
    found = [p for p in parts if p]
    if not found:
        said = "Nothing is known before sizes are fixed."
        found = [picture(320, 24, text(8, 16, said), title=said)]
    return stacked(found, 28, f"{report.op} on {device.name}")


def _expected(choices: Sequence[LaunchReport], launches: int) -> list[tuple[str, float, float]]:
    """Candidates of the only launch by number; of several launches, all of them together as they were chosen."""
    if not choices or len(choices) != launches:
        return []
    if launches == 1:
        return [(str(n), x.moved, x.seconds) for n, x in enumerate(choices[0].candidates[:SHOWN], 1)]
    first = [c.candidates[0] for c in choices]
    return [("all launches", sum(x.moved for x in first), sum(x.seconds for x in first))]


def _tables(choices: Sequence[LaunchReport]) -> list[str]:
    out = []
    for c in choices:
        out.append(table(candidate_rows(c, SHOWN), f"Launch {c.launch}: the best of {c.count} candidates"))
        out.append(table(traffic_rows(c), f"Launch {c.launch}: bytes that the first one moves"))
    return out
