"""Mistakes in schedules: what cannot be lowered correctly is refused with the line that asks for it."""

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

    `for gemm` serves an op whose contraction unifies with gemm's. Say which tensors play which role:
    `for linear as gemm(A = X, B = W)`.
    """

    id = "schedule-does-not-fit"


class UnknownIndexInSchedule(UserError):
    """A line names an index that the spec in focus does not have.

    Indices are those of the op's statements, and fused ones once `fuse` made them.
    """

    id = "schedule-unknown-index"


class UnknownTensorInSchedule(UserError):
    """A line names a tensor that the op does not have.

    `move` takes tensors that the statements in focus read, `keep` those that they compute.
    """

    id = "schedule-unknown-tensor"


class UnknownLevel(UserError):
    """A tile is dealt to a level that the device does not have.

    The levels are those of the device's text, outermost first.
    """

    id = "schedule-unknown-level"


class LevelOrder(UserError):
    """A tile goes to a level that is not inside the one in focus.

    Levels are entered outermost first; once inside a warp, blocks are out of reach. Move the line up.
    """

    id = "schedule-level-order"


class UnknownMemoryInSchedule(UserError):
    """A line names a memory that the device does not have.

    The memories are those of the device's text. A schedule for several devices names roles that all of them have, or `auto`.
    """

    id = "schedule-unknown-memory"


class UnknownInstr(UserError):
    """`compute with` or `with` names an instruction that the device does not have.

    Instructions and their families are those of the device's text. `compute` alone is the scalar body and fits every device.
    """

    id = "schedule-unknown-instruction"


class InstrMismatch(UserError):
    """An instruction does not compute what is in focus.

    The op of the instruction must unify with the statement: the same arithmetic on operands of the same types, with
    an index of the statement for each of its own.
    """

    id = "schedule-instruction-mismatch"


class InstrCannotMask(UserError):
    """An instruction would run over the end of a reduction, and its padding would not be neutral.

    Padding contributes zero only when every factor has the reduced index; here some factor does not, and 0 * inf is not 0.
    """

    id = "schedule-instruction-mask"


class UnboundedTile(UserError):
    """A tile needs a constant extent, and its index is open here.

    Units of fixed number, strided tiles and registers need extents that are known when the kernel is compiled.
    Tile the index above, or bound the size: `schedule ... where N <= 4096`.
    """

    id = "schedule-unbounded-tile"


class TooManyUnits(UserError):
    """A tile wants more units than the device has.

    Tile one after another first, so that what is left fits the units.
    """

    id = "schedule-too-many-units"


class BadTileSize(UserError):
    """A tile's size is not a positive integer known when the kernel is compiled.

    Sizes are numbers, parameters of the schedule or of the op, and arithmetic on them. With `every`, chunks may not overlap:
    the distance is a multiple of the size.
    """

    id = "schedule-tile-size"


class NotRead(UserError):
    """`move` names a tensor that the statements in focus do not read.

    What is computed is held by `keep`; a pointwise intermediate is recomputed where it is read, unless a line keeps it.
    """

    id = "schedule-not-read"


class NotComputed(UserError):
    """`keep` names a tensor that the statements in focus do not compute.

    An input is staged by `move`; an intermediate must belong to the launch that the line is in.
    """

    id = "schedule-not-computed"


class MoveDistributed(UserError):
    """A memory of an inner level cannot hold a tile of an outer one.

    Each unit of the inner level has its own; tile to that level first, then move.
    """

    id = "schedule-move-distributed"


class RegisterMismatch(UserError):
    """Registers would be read by a unit that does not own them.

    What is held in registers is read by the unit that wrote it: the tiles below the `keep` or `move` must be the same wherever
    it is used. Hold it in a shared memory instead.
    """

    id = "schedule-register-owner"


class SplitReduction(UserError):
    """Units that take parts of a reduction would overwrite each other's results.

    Each of them needs an accumulator of its own, in registers, opened above the tile that deals out the parts, so that the
    parts can be combined when it closes.
    """

    id = "schedule-split-reduction"


class CannotMeet(UserError):
    """Units would have to wait for each other where not all of them come by.

    What one unit stores another one reads, inside a tile that is dealt out unevenly or under a condition: a barrier there would
    wait for units that never reach it. Store it above the tile, or deal out nothing around it. The blocks of a GPU never wait
    for each other: nothing is staged in a cache that they share.
    """

    id = "schedule-cannot-meet"


class CapacityExceeded(UserError):
    """The tiles held in a memory need more than it has.

    What is alive at one time counts, for all units that share the memory; tiles whose lifetimes do not meet share space. A
    buffer meant to stay in a cache is checked against the cache. Take smaller tiles, or move less.
    """

    id = "memory-capacity"


class UnknownStrategy(UserError):
    """`apply` names a strategy that does not exist.

    Strategies are declared in this file, or in a file that it imports.
    """

    id = "schedule-unknown-strategy"


class StrategyArguments(UserError):
    """`apply` passes arguments that the strategy does not take, or leaves one out.

    Arguments go by position, then by name; those without a default must be given.
    """

    id = "schedule-strategy-arguments"


class StrategyRecursion(UserError):
    """A strategy applies itself, directly or through others.

    It would never end: lines are put in place of each `apply`. Write the lines out where the circle closes.
    """

    id = "schedule-strategy-recursion"


class TooManyLines(UserError):
    """A schedule is longer than any that is written by hand, once its strategies are written out.

    Strategies that apply others more than once multiply; the line shown is the one at which there were too many.
    """

    id = "schedule-too-many-lines"


class BadParam(UserError):
    """A `param` is set to a value that is not among its own.

    The values after `in` are all there are; the default, and what a caller chooses, must be one of them.
    """

    id = "schedule-param"


class BadFuse(UserError):
    """`fuse` names indices that cannot be one.

    Fused indices are all free or all reduced, exist, and are not tiled yet; the new name is free.
    """

    id = "schedule-fuse"


class BadLayout(UserError):
    """A `layout`, `pad`, `swizzle` or `as (...)` does not fit the tensor that is moved.

    A layout names each axis of what is staged, `as (...)` each index by which it is read. Registers have no layout: theirs
    follows from the tiles and the leaf below.
    """

    id = "schedule-layout"


class BadArrange(UserError):
    """`arrange` does not give each unit a tile of its own.

    Its maps say, for each index of the tile, which tile a unit takes; over all units every tile must be taken once.
    """

    id = "schedule-arrange"


class NotYet(UserError):
    """The line is part of the language, and this version does not lower it yet.

    Leave the line out: it changes speed, never results.
    """

    id = "schedule-not-yet"


class DeviceMismatch(UserError):
    """A schedule is for another device than the target.

    `on D` fits the device D and those that extend it. Compile for D, or leave `on D` out.
    """

    id = "schedule-device"


class AmbiguousRole(UserError):
    """A role can be played by several tensors or indices.

    Say which: `for linear as gemm(A = X, B = W)`.
    """

    id = "schedule-ambiguous-role"


class LateInline(UserError):
    """`inline` names a tensor that cannot be recomputed in its consumers.

    Only pointwise intermediates are recomputed; a reduction is kept, or gets a launch of its own.
    """

    id = "schedule-inline"


class BadBound(UserError):
    """A bound of a schedule is not of the form `N <= 4096`, or nothing satisfies it.

    The left side is a size of the op, the right side a number; `<`, `<=`, `>`, `>=` and `==` are known. Sizes are at least 0.
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
    """A modifier stands on a line that it says nothing about.

    `pipeline` belongs to moves and to loops, `raster` and `arrange` to tiles dealt to units, `unroll` and `peel` to loops,
    `layout`, `pad` and `swizzle` to what is held in a memory, `by` to parallel reductions.
    """

    id = "schedule-modifier"


class ModifierArgument(UserError):
    """A modifier has an argument that makes no sense on its line.

    A vector is a power of two that divides the innermost tile; a pipeline is as deep as there are buffers, and rotates over a
    loop above it; `by` names a way that units combine partial results.
    """

    id = "schedule-modifier-argument"


class HeldTwice(UserError):
    """A tensor is moved to, or kept in, a memory where it is already.

    From a `move` on the name means the copy; a second copy in the same memory would only cost. Leave one of the lines out.
    """

    id = "schedule-held-twice"


class AfterCompute(UserError):
    """A line stands below `compute`.

    `compute` is the leaf: nothing is left to schedule below it. Move the line above it.
    """

    id = "schedule-after-compute"


class UnusedParam(UserError):
    """A `param` that no line uses.

    Tuning it would do nothing. Use it, or leave it out.
    """

    id = "schedule-unused-param"


class NameClash(UserError):
    """A name of the schedule is taken by the op, by the device, or by another line.

    Parameters and fused indices are names of their own: a size, index, tensor, level or memory of that name would be hidden.
    """

    id = "schedule-name-clash"


class NotOneLine(UserError):
    """What a program passed to a method of `Schedule` is no single line, name or size.

    Every method adds one line: pass names, numbers, and expressions without line breaks.
    """

    id = "schedule-not-one-line"
