"""Mistakes in the declaration of an op."""

from __future__ import annotations

from .base import UserError

# ---------------------------------------------------------------- names


class UnknownName(UserError):
    """An unknown name.

    It is neither an index of the statement, nor a size, a parameter or a tensor. Check the spelling, or declare it.
    """

    id = "unknown-name"


class UnknownTensor(UserError):
    """An access to an unknown tensor.

    Declare it among the inputs, or define it by a statement above its first use.
    """

    id = "unknown-tensor"


class UnknownFunction(UserError):
    """A call of a function that the language does not have.

    The functions are the usual libm set, `relu gelu silu sigmoid`, `where(c, a, b)`, and casts by type name.
    """

    id = "unknown-function"


class UnknownType(UserError):
    """An element type that the language does not have.

    The types are f64, f32, tf32, bf16, f16, f8e4m3, f8e5m2, i64, i32, i16, i8, u8, i4 and bool.
    """

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
    """A declared name that is a word of the language: a function, a type, a reduction, or a word such as `auto`.

    Take another name.
    """

    id = "reserved-name"


class ShadowedName(UserError):
    """An index named like a size, a parameter or a tensor of the op, or like an index around it.

    A reader could not distinguish the two. Rename the index.
    """

    id = "shadowed-name"


# ---------------------------------------------------------------- indices


class UnboundIndex(UserError):
    """A subscript that is not an index of the statement.

    An index is bound by the target's brackets or by a reduction: `sum(k) ...`.
    """

    id = "unbound-index"


class DuplicateIndex(UserError):
    """The same index twice in one target or one reduction.

    A target names each of its elements once. Write a diagonal with `where(i == j, ..., 0)`.
    """

    id = "duplicate-index"


class ReducedAndFree(UserError):
    """An index of the target that the statement also reduces.

    Give the reduction an index of its own.
    """

    id = "reduced-and-free"


class AmbiguousRange(UserError):
    """An index without a range.

    A range comes from an axis that the index subscripts alone, as in `X[i, ...]`, or from the axis of a declared output. A
    reduction and a left side can state it: `max(r: 2) X[2*i + r]`, `D[i: N] = X[i - 1 else 0]`.
    """

    id = "ambiguous-range"


class InconsistentRange(UserError):
    """An index that subscripts axes of different sizes, or whose range is written as another one.

    Name the two axes by one size in the declaration, or read one of them with an `else` value.
    """

    id = "inconsistent-range"


class WrongRank(UserError):
    """The number of subscripts differs from the number of the tensor's axes.

    Correct the subscripts, or the declared shape.
    """

    id = "wrong-rank"


class NotAffine(UserError):
    """A subscript or a size that is not quasi-affine.

    Subscripts are built with + and - from indices, sizes, parameters and constants, and with * / % by constants or parameters.
    """

    id = "not-affine"


class FloatSubscript(UserError):
    """A subscript or a size that is not an integer.

    Subscripts of a tensor are integers. The language has no gather through a computed subscript.
    """

    id = "float-subscript"


class MayLeaveTensor(UserError):
    """An access that may leave its tensor, without `else`.

    Add `else VALUE` after the last subscript, or choose sizes for which the access provably stays inside.
    """

    id = "may-leave-tensor"


# ---------------------------------------------------------------- values


class WrongArity(UserError):
    """A function called with too few or too many arguments.

    The message gives the right number.
    """

    id = "wrong-arity"


class BoolArithmetic(UserError):
    """Arithmetic on truth values.

    Use `and`, `or`, `not`, `where(c, a, b)`, or a cast: `i32(a < b)`.
    """

    id = "bool-arithmetic"


class WrongOperand(UserError):
    """An operand of a type that the operation does not take.

    Cast it, as in `f32(x)`, or write the intended operation.
    """

    id = "wrong-operand"


class NeedsCast(UserError):
    """A conversion that needs a cast, because it loses more than rounding.

    A float becomes an integer or a bool, or a number a bool, only by a cast such as `i32(x)`.
    """

    id = "needs-cast"


class LiteralRange(UserError):
    """A literal that its type cannot hold.

    Write a number that fits, or cast to a wider type.
    """

    id = "literal-out-of-range"


# ---------------------------------------------------------------- statements


class NeverAssigned(UserError):
    """A declared output that no statement defines.

    Write a statement for it, or take it out of the outputs.
    """

    id = "never-assigned"


class AssignedTwice(UserError):
    """A tensor defined by two statements.

    Statements are single-assignment; give the second one another name.
    """

    id = "assigned-twice"


class AssignedInput(UserError):
    """A statement that assigns an input.

    Inputs are only read. Give the result a name of its own, and declare it as an output if it is one.
    """

    id = "assigned-input"


class UsedBeforeDefinition(UserError):
    """A tensor read above the statement that defines it.

    Statements are read from top to bottom. Move the definition up.
    """

    id = "used-before-definition"


class SelfReference(UserError):
    """A statement that reads the tensor it defines.

    Each tensor is assigned once. The language has no recurrence over an index. Give the parts different names.
    """

    id = "self-reference"


class AccumulateInOp(UserError):
    """`+=` in an op.

    Only instructions accumulate. In an op write the reduction: `C[m, n] = sum(k) ...`.
    """

    id = "accumulate-in-op"


class NoOutputs(UserError):
    """An op without outputs computes nothing.

    Declare the results behind the arrow: `-> (C: f32[M, N])`.
    """

    id = "no-outputs"


class SparseFormat(UserError):
    """A tensor with a storage format (`as csr`): sparse operands are not compiled yet.

    Declare the tensor dense, or write the op over its stored elements.
    """

    id = "sparse-format"


# ---------------------------------------------------------------- sizes and parameters


class SizeNotInferable(UserError):
    """A size that no input's shape determines.

    Every size of the brackets must be a whole axis of some input, as in `X: f32[N, ...]`. Define others by
    `where P = ...`, or make them parameters: `P: int`.
    """

    id = "size-not-inferable"


class BadWhere(UserError):
    """A line of `where` that is neither a definition of a new size, `P = ...`, nor a comparison of sizes.

    Define a size by its name alone, `P = H - R + 1`, or compare two, `H >= R`.
    """

    id = "bad-where"


class BadDomain(UserError):
    """A domain, `where` behind the left side or in a reduction, that cannot be: of an output, of argmax, or without elements.

    Its conditions compare indices and sizes by < <= > >= ==. An output has all its elements: `where(t <= i, x, 0)`.
    """

    id = "bad-domain"


class BadDefault(UserError):
    """The default of an `int` parameter must be a constant integer.

    Write a number. Sizes that follow from others are defined after `where`.
    """

    id = "bad-default"


class MissingParameter(UserError):
    """An `int` parameter without a default and without a value.

    Give the value to `compile(..., stride=1)`, or a default in the op.
    """

    id = "missing-parameter"


class UnknownSize(UserError):
    """A value given for a size or parameter that the op does not have.

    The names are those in the op's brackets and its `int` parameters.
    """

    id = "unknown-size"


class BadSize(UserError):
    """A size or parameter that is not an integer, is negative, or divides by zero.

    Sizes are integers from 0 on, of at most 64 bits.
    """

    id = "bad-size"


class ConditionFailed(UserError):
    """Sizes for which a condition of the op's `where` does not hold.

    The op is defined only for sizes that satisfy its `where`. Pass others, or change the `where`.
    """

    id = "condition-failed"


class SizeOverflow(UserError):
    """A tensor with 2^63 elements or more.

    Addresses are 64-bit integers. Take smaller sizes, or split the call.
    """

    id = "size-overflow"


# ---------------------------------------------------------------- the reference


class WrongArgument(UserError):
    """An argument whose type, rank or shape is not the declared one.

    Convert or reshape the array before the call.
    """

    id = "wrong-argument"


class EmptyArgmax(UserError):
    """An argmax or argmin over no elements.

    Other reductions have a neutral value. This one needs at least one element.
    """

    id = "empty-argmax"
