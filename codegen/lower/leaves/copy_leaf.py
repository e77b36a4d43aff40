"""The leaf of `move ... -> register with I`: the instruction where it fills the fragment that the lines below read, else
element by element.

SEVERAL   an instruction may fill several of the fragments at once, if they lie in turn along an index (`fragment_fit`,
          IN_TURN), all tiles come in groups of so many, and the registers of a group lie one after another. Of those that fit,
          the one that fills most is called.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ....dsl.device import Instr
from ....dsl.errors.schedule import InstrMismatch
from ....dsl.support.fast_replace import replace
from ...ir.schedule_tree import CopyLeaf
from ...ir.tile_ir import Stmt
from ...plan.computations import Computation
from ...plan.derived_names import tensor_of
from ...schedule.synthetic_spans import names_instr
from ..spec import Focus
from .check_instr import UnusableInstr, leave_out
from .fragment_fit import index_in_turn, same_fragment
from .instr_leaf import strip_mask
from .match_instr import InstrMatch, all_matches, fragment_map, own_fragment
from .scalar_leaf import scalar_leaf

if TYPE_CHECKING:
    from ..lower_schedule import Lowering


def copy_leaf(low: Lowering, focus: Focus, leaf: CopyLeaf) -> list[Stmt]:
    """Raises UnknownInstr, InstrMismatch; UnusableInstr where the author names one that cannot be used."""
    (computation,) = focus.computations
    known = low.instrs_named(leaf.instr, leaf.move.span)
    fills = [i.operand(i.statement.target).memory for i in known]
    if not any(map(low.ctx.register, fills)):
        raise InstrMismatch(
            f"`{leaf.instr}` writes to `{fills[0]}`, and this line moves `{leaf.move.tensor}` to registers",
            leaf.move.span,
            help="leave `with` out, or name an instruction that fills registers",
        )
    why = f"no member of it lays `{tensor_of(leaf.move.tensor)}` out as the lines below read it"
    unusable = UnusableInstr(leaf.instr, why)
    for m in sorted(_fitting(low, focus, computation, leaf, known), key=lambda m: (m.volume, m.score), reverse=True):
        try:
            return low.by_instr(focus, computation, replace(m, named_at=leaf.move.span), span=leaf.move.span)
        except UnusableInstr as reason:
            unusable = reason
    leave_out(low.ctx, unusable, leaf.move.span, not names_instr(leaf.move.line))
    return scalar_leaf(low.ctx, focus, computation, leaf.fragment)


def _fitting(
    low: Lowering, focus: Focus, computation: Computation, leaf: CopyLeaf, known: Sequence[Instr]
) -> Iterator[InstrMatch]:
    """The ways of the instructions that fill the fragment, or SEVERAL of them; where any will do, the best one."""
    if leaf.fragment is None:
        best = low.find_instr(leaf.instr, computation, leaf.move.span, must=False)
        yield from () if best is None else (best,)
        return
    inside = computation if computation.domain else strip_mask(computation)[0]
    indices = frozenset([i for i, _, _ in leaf.fragment.maps])
    for instr in known:
        own = own_fragment(instr, instr.statement.target)
        if own.lanes != leaf.fragment.lanes or own.registers < leaf.fragment.registers:
            continue
        for m in all_matches(instr, inside, indices):
            filled = fragment_map(m, instr.statement.target)
            if same_fragment(leaf.fragment, filled):
                yield m
            elif leaf.fragment.registers < filled.registers and _come_together(
                focus, computation, index_in_turn(leaf.fragment, filled), m
            ):
                yield replace(m, held=leaf.fragment)


def _come_together(focus: Focus, computation: Computation, index: str | None, m: InstrMatch) -> bool:
    """SEVERAL: whether tiles along the index come in groups, with registers one after another: of no index after it are several
    tiles held."""
    if index is None:
        return False
    view = focus.views[computation.name]
    at = view.axes.index(index)
    capacity = focus.ranges[index].capacity
    if capacity is None or capacity % m.extent(index):
        return False
    return all(_is_one_tile(focus, i, depth, m) for i, depth in list(zip(view.axes, view.depth, strict=True))[at + 1 :])


def _is_one_tile(focus: Focus, index: str, depth: int, m: InstrMatch) -> bool:
    r = focus.ranges[index]
    tiles = [s for s in r.steps[depth:] if s.unit is None and s.extent.constant != 1]
    return not tiles and not r.strided_runs and r.capacity is not None and r.capacity <= m.extent(index)
