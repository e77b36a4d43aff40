"""Warnings of `andiron check`: the schedule compiles, its results are right, and it is slow.

A warning ends nothing. The exit status stays 0.
"""

from __future__ import annotations

from .base import UserError


class Caution(UserError):
    """A schedule that compiles and is slow.

    Its subclasses say why, at the line that asks for it, and what to write instead.
    """

    id = "caution"
    word = "warning"


class OneUnitForAll(Caution):
    """One unit, or a few of many, stores or copies what all could, while the others wait.

    It comes of a block under `move` or `keep` that deals nothing to the units: what all of them would store alike is stored by
    the first. Deal the elements out in the block, or leave the block out: the compiler deals them then.
    """

    id = "one-unit-for-all"


class IdleUnits(Caution):
    """Units of a block are idle all the time.

    A block has fewer units than one instruction drives (a warp executes for all its threads at once, whether they are there or
    not), or more than there are tiles for. Deal tiles to the innermost level, as many as it has units.
    """

    id = "idle-units"


class StridedAccess(Caution):
    """Neighbouring units read or write the outermost memory far apart.

    Memory is moved in whole pieces, and of each only a little is used then. Deal the last index of the tensor to the innermost
    level, last in the line; where two tensors want different orders, bring one of them to a memory that the block shares first.
    """

    id = "strided-access"


class TooManyRegisters(Caution):
    """The tiles held in registers need more of them than there are.

    The compiler of the text puts the rest into memory, inside the innermost loop. Take smaller tiles, or an instruction of
    vectors.
    """

    id = "too-many-registers"


class Spills(Caution):
    """A compiler put registers into memory; it said so when the kernel was built.

    Told by `check --verify`, where a compiler for the device is there. Take smaller tiles, or fewer copies under way at a time.
    """

    id = "spills"
