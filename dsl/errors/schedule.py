"""Mistakes in schedules. A line that cannot be lowered correctly is refused."""

from __future__ import annotations

from .base import UserError


class UnknownOpInSchedule(UserError):
    """A schedule is for an op that does not exist.

    The name after `for` is neither an op of this file, nor of its imports, nor `contraction`.
    Write the op's name, or import the file that has it.
    """

    id = "schedule-unknown-op"


class ScheduleDoesNotFit(UserError):
    """A schedule is applied to an op that it does not fit.

    `for gemm` serves an op whose contraction unifies with gemm's. Assign tensors to roles: `for linear as gemm(A = X, B = W)`.
    """

    id = "schedule-does-not-fit"


class UnknownIndexInSchedule(UserError):
    """A line names an index that the spec in focus does not have.

    The indices are those of the op's statements, and fused ones below their `fuse`.
    """

    id = "schedule-unknown-index"


class UnknownTensorInSchedule(UserError):
    """A line names a tensor that the op does not have.

    `move` takes tensors that the focus reads, `keep` tensors that it computes.
    """

    id = "schedule-unknown-tensor"


class UnknownLevel(UserError):
    """A tile is distributed over a level that the device does not have.

    The levels are those of the device's text, outermost first.
    """

    id = "schedule-unknown-level"


class LevelOrder(UserError):
    """A tile goes to a level that is not inside the one in focus.

    Levels are entered outermost first. Inside a warp, tiles cannot go to blocks. Move the line up.
    """

    id = "schedule-level-order"


class UnknownMemoryInSchedule(UserError):
    """A line names a memory that the device does not have.

    The memories are those of the device's text. A schedule for several devices uses roles that all of them have, or `auto`.
    """

    id = "schedule-unknown-memory"


class UnknownInstr(UserError):
    """`compute with` or `with` names an instruction that the device does not have.

    Instructions and their families are those of the device's text. `compute` alone is the scalar body and works on every
    device.
    """

    id = "schedule-unknown-instruction"


class InstrMismatch(UserError):
    """An instruction does not compute the focus.

    The op of the instruction must unify with the statement: the same arithmetic on operands of the same types. Each of its
    indices stands for an index of the statement.
    """

    id = "schedule-instruction-mismatch"


class InstrCannotMask(UserError):
    """An instruction would run over the end of a reduction, where its padding is not neutral.

    A factor that lacks the reduced index, or that a `keep` computes up to the edge, is not zero there, and 0 * inf is not 0.
    """

    id = "schedule-instruction-mask"


class UnboundedTile(UserError):
    """A tile needs a constant extent, but its index is open.

    Units of fixed number, strided tiles and registers need extents that are known when the kernel is compiled.
    Tile the index above, or bound the size: `schedule ... where N <= 4096`.
    """

    id = "schedule-unbounded-tile"


class TooManyUnits(UserError):
    """A tile wants more units than the device has.

    Add a loop tile first, so that the remaining tiles fit the units.
    """

    id = "schedule-too-many-units"


class BadTileSize(UserError):
    """The size of a tile is not a positive integer that is known at compile time.

    Sizes are numbers, parameters of the schedule or of the op, and arithmetic on them. With `every`, chunks must not overlap:
    the distance is a multiple of the size.
    """

    id = "schedule-tile-size"


class NotRead(UserError):
    """`move` names a tensor that the statements in focus do not read.

    `keep` holds computed tensors. A pointwise intermediate is recomputed for each reader, unless a line keeps it.
    """

    id = "schedule-not-read"


class NotComputed(UserError):
    """`keep` names a tensor that the statements in focus do not compute.

    `move` stages an input. An intermediate must belong to the launch of the line.
    """

    id = "schedule-not-computed"


class MoveDistributed(UserError):
    """A memory of an inner level cannot hold a tile of an outer one.

    Each unit of the inner level has its own memory. Tile to that level first, then move.
    """

    id = "schedule-move-distributed"


class RegisterMismatch(UserError):
    """A unit would read registers of another unit.

    Only the unit that wrote a register can read it. So all readers need the same tiles below the `keep` or `move`. Otherwise
    hold the tensor in a shared memory.
    """

    id = "schedule-register-owner"


class SplitReduction(UserError):
    """Units of a split reduction would overwrite each other's results, or be without one.

    Each unit needs an accumulator of its own: a `keep` in registers above the tile that splits the reduction. The parts are
    combined when that accumulator closes.
    """

    id = "schedule-split-reduction"


class CannotMeet(UserError):
    """Units would have to wait for each other in divergent control flow.

    One unit stores elements that another reads, inside a tile that is distributed unevenly or under a condition. A barrier
    there would wait for units that never reach it. Store the elements above the tile, or distribute nothing around it. The
    blocks of a GPU never wait for each other, so nothing can be staged in a cache that they share. On a CPU only cores wait.
    """

    id = "schedule-cannot-meet"


class CapacityExceeded(UserError):
    """The tiles in a memory exceed its capacity.

    All tiles that are alive at one time count, for all units that share the memory. Tiles with separate lifetimes share space.
    A buffer for a cache is checked against the cache. Where a compiler spills registers, the device's text states how much
    memory there is for them, as `spill 64 KiB`. Take smaller tiles, or move fewer tensors.
    """

    id = "memory-capacity"


class UnknownStrategy(UserError):
    """`apply` names a strategy that does not exist.

    Strategies are declared in this file, or in a file that it imports.
    """

    id = "schedule-unknown-strategy"


class StrategyArguments(UserError):
    """`apply` passes arguments that the strategy does not take, or leaves one out.

    Arguments go by position, then by name. Arguments without a default are required.
    """

    id = "schedule-strategy-arguments"


class StrategyRecursion(UserError):
    """A strategy applies itself, directly or through others.

    The expansion would never end, because the strategy's lines replace each `apply`. Write the lines themselves where the
    circle closes.
    """

    id = "schedule-strategy-recursion"


class TooManyLines(UserError):
    """A schedule is too long after its strategies are expanded.

    The number of lines multiplies when strategies apply others more than once. The line shown exceeds the limit.
    """

    id = "schedule-too-many-lines"


class BadParam(UserError):
    """A `param` is set to a value that is not among its own.

    The default, and a caller's value, must be one of the values after `in`.
    """

    id = "schedule-param"


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


class DeviceMismatch(UserError):
    """A schedule is for another device than the target.

    `on D` is for the device D and those that extend it. Compile for D, or leave `on D` out.
    """

    id = "schedule-device"


class AmbiguousRole(UserError):
    """Several tensors or indices match a role.

    Choose one: `for linear as gemm(A = X, B = W)`.
    """

    id = "schedule-ambiguous-role"


class LateInline(UserError):
    """`inline` names a tensor that cannot be recomputed in its consumers, or that another line holds, or stands in a block.

    A reduction, and what is read with `else`, is in memory. The line is about all readers, so it stands outside of blocks.
    """

    id = "schedule-inline"


class BadBound(UserError):
    """A bound of a schedule is not of the form `N <= 4096`, or nothing satisfies it.

    The left side is a size of the op, the right side a number. The operators are `<`, `<=`, `>`, `>=` and `==`. Sizes are at
    least 0.
    """

    id = "schedule-bound"


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


class HeldTwice(UserError):
    """A tensor is moved to, or kept in, a memory where it is already.

    Below a `move` the name means the copy. A second copy in the same memory has no use. Leave one of the lines out.
    """

    id = "schedule-held-twice"


class AfterCompute(UserError):
    """A line stands below `compute`.

    `compute` is the leaf, so no line can follow it. Move the line above it.
    """

    id = "schedule-after-compute"


class UnusedParam(UserError):
    """A `param` that no line uses.

    Its values change nothing. Use it, or leave it out.
    """

    id = "schedule-unused-param"


class NameClash(UserError):
    """The op, the device, or another line already has this name.

    Parameters and fused indices need new names. Otherwise they would hide a size, index, tensor, level or memory.
    """

    id = "schedule-name-clash"


class NotOneLine(UserError):
    """The argument of a `Schedule` method is not a single line, name or size.

    Every method adds one line: pass names, numbers, and expressions without line breaks.
    """

    id = "schedule-not-one-line"
