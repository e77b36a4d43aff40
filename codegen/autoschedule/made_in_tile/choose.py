"""Whether an intermediate is made in the tile of its reader, or apart: the way that is predicted to take less time.

CLEARLY   it is made in the tile where that is faster by more than the precision of the models, at all the sizes that candidates
          are judged at together.
PAIRS     of a chain each computation is in one pair at most. Pairs that save most come first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ....dsl.device import Device
from ...lower.lowering_context import LoweringContext
from ...plan.computations import Computation
from ..gpu.computed_operands import is_window_factor
from ..gpu.passes.one_pass_choice import apart_launches, chosen_launch, side_by_side
from ..machine_model import block_machine
from ..one_pass.find_pass import product_of_product
from ..rank import rank_candidates, sample_sizes
from ..report import LaunchReport
from .find_pairs import Pair, pair_of
from .find_products import product_pair_of

# times: as long as the launches apart, that a pair is predicted to take at most [estimate;
# test_it_is_made_where_memory_is_the_bound]
CLEARLY = 0.95
MOST = 32  # intermediates: that are tried, because launches are planned for each [limit]
MOST_INLINED = 4  # intermediates: of those that are inlined otherwise, because their readers grow with each [limit]

Launches = list[tuple[Computation, ...]]


@dataclass(frozen=True)
class MadeInTile:
    """A pair beside the launches apart; `saved`: seconds, at the largest of the sizes."""

    pair: Pair
    is_faster: bool
    saved: float
    report: LaunchReport


def made_in_tile(
    device: Device, tensors: frozenset[str], launches: Callable[[frozenset[str]], Launches], new: Callable[[], LoweringContext]
) -> tuple[MadeInTile, ...]:
    """Those of the `tensors` that may be made in their readers' tiles, where nothing else is kept. PAIRS

    launches   that there are where these are kept      new   a context for trying
    """
    found = sorted(_compared(device, tensors, launches, new), key=lambda x: (not x.is_faster, -x.saved))
    out: list[MadeInTile] = []
    taken: set[str] = set()
    for x in found:
        names = {x.pair.producer.name, x.pair.reader.name}
        if taken.isdisjoint(names):
            taken |= names if x.is_faster else set()
            out.append(x)
    return tuple(out)


def _compared(
    device: Device, tensors: frozenset[str], launches: Callable[[frozenset[str]], Launches], new: Callable[[], LoweringContext]
) -> Iterator[MadeInTile]:
    if block_machine(device) is None or len(tensors) > MOST:
        return  # on CPUs it was slower (docs/decisions/rims.md)
    apart = launches(frozenset()) if tensors else []
    inlined = tensors - {t for g in apart for w in g for t in w.targets}
    for t in sorted(tensors - (inlined if len(inlined) > MOST_INLINED else frozenset())):
        together = launches(frozenset({t}))
        pair = next((x for g in together if (x := _pair_of(g)) is not None and x.tensor == t), None)
        if pair is None:
            continue
        changed = [g for g in apart if g not in together]
        if len([g for g in together if g not in apart]) != 1 or not changed:
            continue  # others change with it
        found = _beside_apart(pair, changed, new)
        if found is not None:
            yield found


def _pair_of(computations: tuple[Computation, ...]) -> Pair | None:
    if product_of_product(computations) is not None or is_window_factor(computations):
        first, second = computations
        return Pair(first, second, first.targets[0])
    return pair_of(computations) or product_pair_of(computations)


def _beside_apart(pair: Pair, changed: Launches, new: Callable[[], LoweringContext]) -> MadeInTile | None:
    own, together = new(), (pair.producer, pair.reader)
    ranked = rank_candidates(own, together)
    if not ranked:
        return None
    judged = [sizes for sizes, _ in sample_sizes(own, together)]
    apart = apart_launches(changed, new, judged)
    if apart is None:
        return None
    made = chosen_launch(pair.reader.targets[0], ranked)
    way = f"{pair.tensor} made in each tile: 1 launch"
    name = f"apart: {len(apart)} launches" if len(apart) > 1 else f"{pair.tensor} inlined: 1 launch"
    report = side_by_side({way: made}, {name: apart}, CLEARLY)
    is_faster = report.candidates[0].nest == way
    return MadeInTile(pair, is_faster, float(sum(x.seconds[-1] for x in apart) - made.seconds[-1]), report)
