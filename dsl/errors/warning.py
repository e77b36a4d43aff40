"""Warnings of `andiron check`: the schedule compiles, its results are right, and it is slow.

A warning ends nothing. The exit status stays 0.
"""

from __future__ import annotations

from .base import UserError


class Caution(UserError):
    """A schedule that compiles and is slow.

    Its subclasses name the reason, the line, and what to write instead.
    """

    id = "caution"
    word = "warning"


class OneUnitForAll(Caution):
    """One unit, or a few of many, stores or copies for all while the others wait.

    The reason is a block under `move` or `keep` that distributes nothing over the units. Then all of them hold the same values,
    and only the first stores. Distribute the elements in the block, or leave the block out: then the compiler distributes them.
    """

    id = "one-unit-for-all"


class IdleUnits(Caution):
    """Units of a block are idle all the time.

    A block has fewer units than a lockstep level (a warp executes for all its lanes, used or not), or more units than tiles.
    Distribute as many tiles over the innermost level as it has units.
    """

    id = "idle-units"


class StridedAccess(Caution):
    """Adjacent units access distant addresses of the outermost memory.

    Memory moves in whole transactions, and then only a small part of each is used. Distribute the last index of the tensor over
    the innermost level, last in the line. If two tensors need different orders, move one of them to a memory that the block
    shares first.
    """

    id = "strided-access"


class TooManyRegisters(Caution):
    """The tiles in registers need more registers than the device has.

    The compiler of the source code spills the others to memory, inside the innermost loop. Take smaller tiles, or a vector
    instruction.
    """

    id = "too-many-registers"


class Spills(Caution):
    """A compiler reported spills when it built the kernel.

    `check --verify` reports it, if a compiler for the device is installed. Take smaller tiles, or fewer copies in flight at a
    time.
    """

    id = "spills"
