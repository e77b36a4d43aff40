"""Lines that have no meaning where they stand, or as they are written."""

from __future__ import annotations

from ..base import UserError


class LevelOrder(UserError):
    """A tile goes to a level that is not inside the one in focus.

    Levels are entered outermost first. Inside a warp, tiles cannot go to blocks. Move the line up.
    """

    id = "schedule-level-order"


class BadTileSize(UserError):
    """The size of a tile is not a positive integer that is known at compile time.

    Sizes are numbers, parameters of the schedule or of the op, and arithmetic on them. With `every`, chunks must not overlap:
    the distance is a multiple of the size.
    """

    id = "schedule-tile-size"


class BadFuse(UserError):
    """`fuse` names indices that cannot be one.

    Fused indices must exist. They are all free or all reduced, and not tiled yet. The new name must be unused.
    """

    id = "schedule-fuse"


class BadLayout(UserError):
    """A `layout`, `pad`, `swizzle` or `as (...)` does not fit the tensor that is moved.

    A layout names each axis of the staged tensor. `as (...)` names each index by which it is read. Registers take no layout:
    the tiles and the leaf below determine it.
    """

    id = "schedule-layout"


class BadArrange(UserError):
    """`arrange` does not give each unit a tile of its own.

    For each index of the tile, its maps give the tile of a unit. Over all units every tile must be taken once.
    """

    id = "schedule-arrange"


class NotYet(UserError):
    """The line is part of the language, and this version does not lower it yet.

    Leave the line out: it changes speed, never results.
    """

    id = "schedule-not-yet"


class LateInline(UserError):
    """`inline` names a tensor that cannot be recomputed in its consumers, or that another line holds, or stands in a block.

    A reduction, and what is read with `else`, is in memory. The line is about all readers, so it stands outside of blocks.
    """

    id = "schedule-inline"


class DuplicateAxis(UserError):
    """One line tiles the same index twice.

    Tiles of tiles are lines of their own, the outer one first.
    """

    id = "schedule-duplicate-axis"


class BadOrder(UserError):
    """`order` names an index that the line does not have, or one twice.

    On a tile it lists the tile's indices, outermost first; on `compute` those of the statements.
    """

    id = "schedule-order"


class MisplacedModifier(UserError):
    """A modifier on a line that it does not apply to.

    `pipeline` belongs to moves and loops, `raster`, `arrange` and `within` to distributed tiles, `unroll`, `peel`, `online`,
    `carry` to loops, `vector` to tiles, copies and leaves, `layout`, `pad`, `swizzle` to tensors in a memory, `by` to split
    reductions, `with` to copies and stored results. Of `keep T in dram:` with a block only the block says how T is computed.
    """

    id = "schedule-modifier"


class ModifierArgument(UserError):
    """A modifier has an argument that is not possible on its line.

    A vector is a power of two that divides the innermost tile. The depth of a pipeline is its number of buffers, and they
    rotate over a loop above the line. `by` names the method by which units combine partial results, as they do.
    """

    id = "schedule-modifier-argument"


class AfterCompute(UserError):
    """A line stands below `compute`.

    `compute` is the leaf, so no line can follow it. Move the line above it.
    """

    id = "schedule-after-compute"


class NotOneLine(UserError):
    """The argument of a `Schedule` method is not a single line, name or size.

    Every method adds one line: pass names, numbers, and expressions without line breaks.
    """

    id = "schedule-not-one-line"
