"""The mistakes of `op` declarations."""

from __future__ import annotations

from .base import UserError

# ---------------------------------------------------------------- names


class UnknownName(UserError):
    """A name that means nothing here.

    It is neither an index of the statement, nor a size, a parameter or a tensor. Check the spelling, or declare it.
    """

    id = "unknown-name"


class UnknownTensor(UserError):
    """An access to a tensor that the op does not have.

    Declare it among the inputs, or define it by a statement above its first use.
    """

    id = "unknown-tensor"


class UnknownFunction(UserError):
    """A call of a function that the language does not have.

    The functions are the usual libm set, `relu gelu silu sigmoid`, `where(c, a, b)`, and casts by type name.
    """

    id = "unknown-function"


class UnknownType(UserError):
    """An element type that the language does not have."""

    id = "unknown-type"


class UnknownReduction(UserError):
    """A reduction that the language does not have.

    The reductions are sum, prod, max, min, any, all, argmax and argmin.
    """

    id = "unknown-reduction"


class DuplicateName(UserError):
    """One name declared twice.

    Sizes, parameters and tensors of an op share one space of names.
    """

    id = "duplicate-name"


class ReservedName(UserError):
    """A declared name that the language has given a meaning: a function, a type, a reduction, or a word such as `auto`."""

    id = "reserved-name"


class ShadowedName(UserError):
    """An index named like a size, a parameter or a tensor of the op, or like an index around it.

    The reader could not tell which is meant; rename the index.
    """

    id = "shadowed-name"


# ---------------------------------------------------------------- indices


class UnboundIndex(UserError):
    """A subscript by a name that no index of the statement has.

    An index is bound by the target's brackets or by a reduction: `sum(k) ...`.
    """

    id = "unbound-index"


class DuplicateIndex(UserError):
    """The same index twice in one target or one reduction.

    A target names each of its elements once; write a diagonal with `where(i == j, ..., 0)`.
    """

    id = "duplicate-index"


class ReducedAndFree(UserError):
    """An index of the target that the statement also reduces.

    Give the reduction an index of its own.
    """

    id = "reduced-and-free"


class AmbiguousRange(UserError):
    """An index whose range no shape tells.

    A range comes from an axis that the index subscripts plainly, as in `X[i, ...]`, or from the axis of a declared output.
    A reduction can state it: `max(r: 2) X[2*i + r]`.
    """

    id = "ambiguous-range"


class InconsistentRange(UserError):
    """An index that subscripts axes of different sizes.

    Name the two axes by one size in the declaration, or read one of them with an `else` value.
    """

    id = "inconsistent-range"


class WrongRank(UserError):
    """As many subscripts as the tensor has axes are needed, no more and no fewer."""

    id = "wrong-rank"


class NotAffine(UserError):
    """A subscript or a size that is not quasi-affine.

    Subscripts are built with + and - from indices, sizes, parameters and constants, and with * / % by constants or parameters.
    """

    id = "not-affine"


class FloatSubscript(UserError):
    """A subscript or a size that is not an integer."""

    id = "float-subscript"


class MayLeaveTensor(UserError):
    """An access that may leave its tensor and does not say what is read there.

    Add `else VALUE` after the last subscript, or make the sizes such that the access provably stays inside.
    """

    id = "may-leave-tensor"


# ---------------------------------------------------------------- values


class WrongArity(UserError):
    """A function called with too few or too many arguments."""

    id = "wrong-arity"


class BoolArithmetic(UserError):
    """Arithmetic on truth values.

    Use `and`, `or`, `not`, `where(c, a, b)`, or a cast: `i32(a < b)`.
    """

    id = "bool-arithmetic"


class WrongOperand(UserError):
    """An operand of a type that the operation does not take."""

    id = "wrong-operand"


class NeedsCast(UserError):
    """A conversion that loses more than rounding, and is not written.

    A float becomes an integer or a bool, or a number a bool, only by a cast such as `i32(x)`.
    """

    id = "needs-cast"


class LiteralRange(UserError):
    """A literal that its type cannot hold."""

    id = "literal-out-of-range"


# ---------------------------------------------------------------- statements


class NeverAssigned(UserError):
    """A declared output that no statement defines."""

    id = "never-assigned"


class AssignedTwice(UserError):
    """A tensor defined by two statements.

    Statements are single-assignment; give the second one another name.
    """

    id = "assigned-twice"


class AssignedInput(UserError):
    """A statement that assigns an input."""

    id = "assigned-input"


class UsedBeforeDefinition(UserError):
    """A tensor read above the statement that defines it.

    Statements are read from top to bottom; move the definition up.
    """

    id = "used-before-definition"


class SelfReference(UserError):
    """A statement that reads the tensor it defines."""

    id = "self-reference"


class AccumulateInOp(UserError):
    """`+=` in an op.

    Only instructions accumulate. In an op write the reduction: `C[m, n] = sum(k) ...`.
    """

    id = "accumulate-in-op"


class NoOutputs(UserError):
    """An op without outputs computes nothing."""

    id = "no-outputs"


class SparseFormat(UserError):
    """A tensor with a storage format (`as csr`): sparse operands are not compiled yet."""

    id = "sparse-format"


# ---------------------------------------------------------------- sizes and parameters


class SizeNotInferable(UserError):
    """A size that no input's shape tells.

    Every size of the brackets must be a whole axis of some input, as in `X: f32[N, ...]`. Define others by
    `where P = ...`, or make them parameters: `P: int`.
    """

    id = "size-not-inferable"


class BadWhere(UserError):
    """A line of `where` that is neither a definition of a new size, `P = ...`, nor a comparison of sizes."""

    id = "bad-where"


class BadDefault(UserError):
    """The default of an `int` parameter must be a constant integer."""

    id = "bad-default"


class MissingParameter(UserError):
    """An `int` parameter without a default that was given no value."""

    id = "missing-parameter"


class UnknownSize(UserError):
    """A value given for a size or parameter that the op does not have."""

    id = "unknown-size"


class BadSize(UserError):
    """A size or parameter that is no integer, is negative, or divides by zero."""

    id = "bad-size"


class ConditionFailed(UserError):
    """Sizes for which a condition of the op's `where` does not hold."""

    id = "condition-failed"


class SizeOverflow(UserError):
    """A tensor with 2^63 elements or more."""

    id = "size-overflow"


# ---------------------------------------------------------------- the reference


class WrongArgument(UserError):
    """An argument whose type, rank or shape is not the declared one."""

    id = "wrong-argument"


class EmptyArgmax(UserError):
    """argmax or argmin over nothing has no answer."""

    id = "empty-argmax"
