"""Faults that the emulator finds in a kernel that it runs.

The compiler derives barriers, waits, guards and initialisation, so none of these is a mistake in a schedule. Either the text of
a device describes an instruction wrongly, or Andiron is at fault. Each fault points to the line of the schedule that the
kernel's code was made from. The line of the emitted source code stands below.
"""

from __future__ import annotations

from .base import UserError


class EmulatorFault(UserError):
    """Something that a kernel did under the emulator and must not do.

    Its subclasses say what. If the schedule uses a device or an instruction of your own, look at its text first (fragment maps,
    `align`, how a copy is awaited); else please report it, with the schedule.
    """

    id = "emulator-fault"


class Race(EmulatorFault):
    """Two threads access one element of a buffer, at least one writes it, and nothing orders them.

    Threads of a block are ordered by barriers, lanes of a warp by barriers of the warp; blocks of one launch never. Lanes are
    not taken to be in lockstep. The lines of both accesses are shown. The compiler places the barriers, so please report it.
    """

    id = "emulator-race"


class NotAwaited(EmulatorFault):
    """An element is accessed while an asynchronous copy may still be writing it, or is overwritten while one may read it.

    The thread that issued the copy has to await it, and others to meet it after that. The compiler places the waits; in a
    device of your own, see how the instruction says that it is awaited.
    """

    id = "emulator-not-awaited"


class OutOfBounds(EmulatorFault):
    """An access lies outside of the buffer that it is meant for.

    In global memory, in shared memory, or between two buffers there. Guards are derived by the compiler; an instruction of your
    own may touch more than its operands' maps say.
    """

    id = "emulator-out-of-bounds"


class Uninitialised(EmulatorFault):
    """An element is read that nothing has written, or an element of an output is never written.

    Shared memory and workspaces hold whatever was there before. Registers are not observed: those that are read before they are
    set hold a pattern that shows in the results.
    """

    id = "emulator-uninitialised"


class InputWritten(EmulatorFault):
    """A kernel writes into one of its inputs.

    Inputs belong to the caller. Only an `out` that is the memory of an input may be written.
    """

    id = "emulator-input-written"


class Misaligned(EmulatorFault):
    """An access of several bytes is not at a multiple of what it needs.

    A vector of 16 bytes must lie at a multiple of 16; an instruction needs what its `align` says. On a GPU it would fail.
    """

    id = "emulator-misaligned"


class DivergentBarrier(EmulatorFault):
    """Not all threads of a block reach a barrier, or they wait at different ones.

    Some have ended, or wait for something else: nobody can go on. The message says which threads wait where.
    """

    id = "emulator-divergent-barrier"


class DivergentCall(EmulatorFault):
    """Threads that execute an instruction together part ways.

    A matrix instruction, a shuffle or a barrier of a warp needs all the lanes that it names at the same place at the same time.
    """

    id = "emulator-divergent-call"


class ReplicasDiffer(EmulatorFault):
    """Threads that hold copies of one element of an instruction's operand hold different values.

    An operand's fragment map may give an element to several threads, which then must agree. See the map in the device's text.
    """

    id = "emulator-replicas-differ"


class LimitExceeded(EmulatorFault):
    """A launch needs more than the device has: threads of a block, or bytes of shared memory.

    Smaller tiles need less. The compiler checks this as well, from the schedule; this is what the launch really asks for.
    """

    id = "emulator-limit"


class NotEmulated(UserError):
    """Counts of accesses were asked of a kernel that does not run under the emulator.

    Compile it for `emulate:DEVICE`; the counts are those of the text for that device. `andiron explain` predicts instead.
    """

    id = "not-emulated"
