"""Mistakes in schedules: what cannot be lowered correctly is refused with the line that asks for it."""

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
    """A line names a memory that the device does not have."""

    id = "schedule-unknown-memory"


class UnknownInstr(UserError):
    """`compute with` or `with` names an instruction that the device does not have."""

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
    """A tile's size is not a positive integer known when the kernel is compiled."""

    id = "schedule-tile-size"


class NotRead(UserError):
    """`move` names a tensor that the statements in focus do not read."""

    id = "schedule-not-read"


class NotComputed(UserError):
    """`keep` names a tensor that the statements in focus do not compute."""

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


class CapacityExceeded(UserError):
    """The tiles held in a memory need more than it has."""

    id = "memory-capacity"


class UnknownStrategy(UserError):
    """`apply` names a strategy that does not exist."""

    id = "schedule-unknown-strategy"


class StrategyArguments(UserError):
    """`apply` passes arguments that the strategy does not take, or leaves one out."""

    id = "schedule-strategy-arguments"


class StrategyRecursion(UserError):
    """A strategy applies itself, directly or through others."""

    id = "schedule-strategy-recursion"


class BadParam(UserError):
    """A `param` has no values, or a value that is not among them."""

    id = "schedule-param"


class BadFuse(UserError):
    """`fuse` names indices that cannot be one.

    Fused indices are all free or all reduced, exist, and are not tiled yet; the new name is free.
    """

    id = "schedule-fuse"


class BadLayout(UserError):
    """A `layout`, `pad` or `swizzle` does not fit the tensor that is moved."""

    id = "schedule-layout"


class BadArrange(UserError):
    """`arrange` does not give each unit a tile of its own."""

    id = "schedule-arrange"


class NotYet(UserError):
    """The line is part of the language, and this version does not lower it yet.

    Leave the line out: it changes speed, never results.
    """

    id = "schedule-not-yet"


class DeviceMismatch(UserError):
    """A schedule is for another device than the target."""

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
