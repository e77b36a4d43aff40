"""Lines that have a meaning, and cannot be lowered: units, registers and memories do not allow it."""

from __future__ import annotations

from ..base import UserError


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
    launch: str = ""  # the one that has the tiles, by its name in the program


class HeldTwice(UserError):
    """A tensor is moved to, or kept in, a memory where it is already.

    Below a `move` the name means the copy. A second copy in the same memory has no use. Leave one of the lines out.
    """

    id = "schedule-held-twice"
