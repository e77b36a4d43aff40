"""`mutate`: a schedule that differs from a complete one by a change, drawn at random.

ANYTHING_GOES  Whether a schedule is legal is for the compiler to say. So a mutation needs no rules of its own, and none for a
               device.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from ....dsl import syntax
from ....dsl.support.fast_replace import replace
from .line_changes import drop_line, exchange_levels, exchange_lines, insert_move, insert_tile, reorder_axes, split_tile
from .mutation_space import Change, Lines, MutationSpace, blocks, with_block
from .size_changes import resize_everywhere, resize_one, trade_sizes
from .word_changes import change_instr, change_memory, change_modifier

Mutation = Callable[[Lines, MutationSpace, Random], Change | None]
# Sizes decide most, and most changes of them are legal.
_WEIGHTS: dict[Mutation, int] = {
    resize_everywhere: 8, resize_one: 4, trade_sizes: 3,
    exchange_lines: 3, reorder_axes: 1, exchange_levels: 1, split_tile: 1, drop_line: 2, insert_tile: 2, insert_move: 1,
    change_modifier: 4, change_memory: 1, change_instr: 1,
}  # fmt: skip
_ATTEMPTS = 50  # draws: many do not apply to the block that was drawn


def mutate(decl: syntax.ScheduleDecl, space: MutationSpace, rng: Random) -> tuple[syntax.ScheduleDecl, str] | None:
    """Another schedule, and what is different, for people; None where no change was found. ANYTHING_GOES"""
    found = list(blocks(decl.lines))
    for _ in range(_ATTEMPTS):
        (mutation,) = rng.choices(list(_WEIGHTS), list(_WEIGHTS.values()))
        path, block = rng.choice(found)
        change = mutation(block, space, rng)
        if change is not None and change[0] != block:
            return replace(decl, lines=with_block(decl.lines, path, change[0])), change[1]
    return None
