"""Mistakes in the declaration of a device."""

from __future__ import annotations

from .base import UserError

# ---------------------------------------------------------------- names


class UnknownParent(UserError):
    """A device extends one that is not known.

    Check the spelling, or import the file that declares it.
    """

    id = "unknown-parent"


class ExtendsCycle(UserError):
    """Devices extend each other in a circle.

    Put the common facts into a device that extends none of them.
    """

    id = "extends-cycle"


class DuplicateItem(UserError):
    """Two devices, or two items of one device, have the same name.

    A device that extends another may state an item of its parent again. Within one device each item is stated once.
    """

    id = "duplicate-item"


class UnknownLevel(UserError):
    """A memory or an instruction names a compute level that the device does not have.

    Levels are declared outermost first: `level block: open, siblings nothing`.
    """

    id = "unknown-level"


class UnknownMemory(UserError):
    """A place or an `in` names a memory that the device does not have.

    Memories are declared above, in this device or in the one that it extends.
    """

    id = "unknown-memory"


class ArgumentMemory(UserError):
    """The first memory of a device does not belong to its outermost level.

    Arguments live in the first memory, and every unit of the device must see them.
    """

    id = "argument-memory"


# ---------------------------------------------------------------- facts


class BadFact(UserError):
    """A fact at a place where it has no meaning.

    Levels have `open`, `shaped` or `finite N`, `siblings ...`, `at most N units`, `width N`, `N bytes`. Memories have a
    capacity, a bandwidth, `banks N x B`, `transaction B`, `reserve B`, `slices N`, `in MEMORY`, `N x B` registers and
    `spill B`. Instructions have `cost`, `latency`, `error N ulp`, `align` and `least` of an operand, and `await group` or
    `await counter`.
    """

    id = "bad-fact"


class UnknownUnit(UserError):
    """A number with a wrong unit, or without the unit that its fact needs.

    Sizes are in B, rates in B/s or FLOP/s, clocks in Hz, times in s or cycles, with the usual prefixes: `163 KiB`, `1.41
    GHz`.
    """

    id = "unknown-unit"


class IncompleteLevel(UserError):
    """A level does not say how many units it has, or how they synchronise.

    Each level states `open`, `shaped` or `finite N`, and `siblings nothing`, `barrier` or `lockstep`.
    """

    id = "incomplete-level"


# ---------------------------------------------------------------- instructions


class InstructionBody(UserError):
    """The op of an instruction is not one statement over plain indices.

    An instruction is a single statement. Index names subscript each operand, and shapes are numbers: `C[m, n] += sum(k)
    f32(A[m, k]) * f32(B[k, n])`.
    """

    id = "instruction-body"


class UnknownOperand(UserError):
    """A place or a fact of an instruction names an operand that its `op` does not have.

    Operands are the tensors in the parentheses of the instruction's `op`.
    """

    id = "unknown-operand"


class MissingPlace(UserError):
    """An operand of an instruction has no place.

    Add a line such as `A in register at (lane, r): m = lane/4, k = 2*(lane % 4) + r`.
    """

    id = "missing-place"


class UnknownCoordinate(UserError):
    """A place binds a coordinate other than `lane` and `r`.

    `lane` numbers the units below the one that executes the instruction, `r` the registers (or the elements from the
    address that a unit passes).
    """

    id = "unknown-coordinate"


class MissingMapAxis(UserError):
    """A place does not give one of the operand's axes.

    Give every axis of the operand as an expression of `lane` and `r`. An axis has the name of the index that subscripts it.
    """

    id = "missing-map-axis"


class UnknownMapAxis(UserError):
    """A place gives an axis that the operand does not have, or gives one twice.

    The axes are the indices by which the instruction's `op` subscripts the operand. Give each once.
    """

    id = "unknown-map-axis"


class MapOutOfRange(UserError):
    """The map of a place leaves the operand for some lane and register.

    The map must stay inside the operand for all lanes and registers. Correct a factor, or take a remainder.
    """

    id = "map-out-of-range"


class FragmentNotCovering(UserError):
    """Some elements of an operand are in no lane's registers.

    Every element of an operand must be in a register of a lane. Widen the range of a coordinate, or correct the map.
    """

    id = "fragment-not-covering"


class ResultReplicated(UserError):
    """Several registers hold the same element of a result.

    Inputs may be replicated. Every element of a result is in one register of one lane.
    """

    id = "result-replicated"


class MissingKindValue(UserError):
    """One kind of an instruction has no value for a name for which the other kinds have one.

    Every `for` line of an instruction gives values to the same names: `for 16 B: V = uint4` and `for 8 B: V = uint2`.
    """

    id = "missing-kind-value"


class KindNameTaken(UserError):
    """A name in a `for` line of an instruction already stands for something else in the instruction.

    `T` and `N` are the type and the count of the kind; operands (in lower case too), indices, `lane`, `r` and types have their
    names. A line gives each other name one value.
    """

    id = "kind-name-taken"


class UnknownKindName(UserError):
    """Braces in the name or in a text of an instruction have a name to which no `for` line gives a value.

    `mma_${SHAPE}` needs a value for `SHAPE` in every `for` line: `for f16: SHAPE = m16n8k16`. `${T}` and `${N}` have theirs.
    """

    id = "unknown-kind-name"


class UnusedKindName(UserError):
    """An instruction gives values to a name that it does not use.

    A name counts where it is a whole word of a text, a shape, a map, a type or a fact. Inside a word it is written `${NAME}`.
    """

    id = "unused-kind-name"


class WrongKindValue(UserError):
    """A name of a kind stands for a word where a number is needed, or for a number where a type is needed.

    Shapes, maps and arithmetic in braces take whole numbers; tensors and casts take types.
    """

    id = "wrong-kind-value"


class BadSequence(UserError):
    """A sequence in the text of an instruction counts down, or is very long.

    `"r"(a[0]), ..., "r"(a[3])` counts from its first to its last number, by one.
    """

    id = "bad-sequence"


class TooFewLanes(UserError):
    """An instruction is spread over more lanes than a unit of its level has.

    A vector of 64 bytes has 16 lanes of four bytes. A level with `at most 8 units` has no such vector. Without a `width`, the
    number of lanes is a power of two. A device inherits only the instructions that take no more lanes than it has.
    """

    id = "too-few-lanes"
