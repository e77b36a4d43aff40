"""Faults that the emulator finds in a kernel that it runs.

The compiler derives barriers, waits, guards and initialisation, so none of these is a mistake in a schedule. Either the text of
a device describes an instruction wrongly, or Andiron is at fault. Each fault points to the line of the schedule that the
kernel's code was made from. The line of the emitted source code stands below.
"""

from __future__ import annotations

from .base import UserError


class EmulatorFault(UserError):
    """An access or a wait of a kernel under the emulator that is not allowed.

    Its subclasses name the fault. If the schedule uses a device or an instruction of your own, look at its text first: fragment
    maps, `align`, `await`. Otherwise please report it, with the schedule.
    """

    id = "emulator-fault"


class Race(EmulatorFault):
    """Two threads access one element of a buffer, at least one writes it, and nothing orders them.

    Barriers order threads of a block, barriers of a warp order its lanes. Nothing orders blocks of one launch. Lanes are not
    taken to be in lockstep. The report shows the lines of both accesses. The compiler places the barriers, so please report it.
    """

    id = "emulator-race"


class NotAwaited(EmulatorFault):
    """An element is accessed while an asynchronous copy may still be writing it, or is overwritten while one may read it.

    The thread that issued the copy must wait for it. Other threads need a barrier after that. The compiler places the waits. In
    a device of your own, check the `await` of the instruction.
    """

    id = "emulator-not-awaited"


class OutOfBounds(EmulatorFault):
    """An access lies outside of its buffer.

    It is in global memory, in shared memory, or between two buffers there. The compiler derives guards. An instruction of your
    own may access more than its operands' maps say.
    """

    id = "emulator-out-of-bounds"


class Uninitialised(EmulatorFault):
    """A read of an element that nothing has written, or an element of an output that is never written.

    Shared memory and workspaces hold old values. Registers are not observed. A register that is read before it is set holds a
    pattern that shows in the results.
    """

    id = "emulator-uninitialised"


class InputWritten(EmulatorFault):
    """A kernel writes into one of its inputs.

    Inputs belong to the caller. Only an `out` that is the memory of an input may be written.
    """

    id = "emulator-input-written"


class Misaligned(EmulatorFault):
    """The address of an access of several bytes is not a multiple of its alignment.

    A vector of 16 bytes must lie at a multiple of 16. An instruction needs its `align`. On a GPU the access would fail.
    """

    id = "emulator-misaligned"


class DivergentBarrier(EmulatorFault):
    """Not all threads of a block reach a barrier, or they wait at different ones.

    Some threads have ended, or wait for something else, so no thread can go on. The message names the threads and their places.
    """

    id = "emulator-divergent-barrier"


class DivergentCall(EmulatorFault):
    """Threads that execute an instruction together diverge.

    A matrix instruction, a shuffle or a barrier of a warp needs all the lanes that it names at the same place at the same time.
    """

    id = "emulator-divergent-call"


class ReplicasDiffer(EmulatorFault):
    """Threads that hold copies of one element of an instruction's operand hold different values.

    An operand's fragment map may give an element to several threads. Then their values must be equal. See the map in the
    device's text.
    """

    id = "emulator-replicas-differ"


class LimitExceeded(EmulatorFault):
    """A launch needs more than the device has: threads of a block, or bytes of shared memory.

    Take smaller tiles. The compiler checks the schedule too; this is the check of the launch itself.
    """

    id = "emulator-limit"


class NotEmulated(UserError):
    """A request for counts of a kernel that does not run under the emulator.

    Compile it for `emulate:DEVICE`. The counts belong to the source code for that device. `andiron explain` predicts instead.
    """

    id = "not-emulated"
