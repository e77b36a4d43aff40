"""What the lines of a schedule name, and for what a schedule is: ops, indices, tensors, levels, strategies, parameters."""

from __future__ import annotations

from ..base import UserError


class UnknownOpInSchedule(UserError):
    """A schedule is for an op that does not exist.

    The name after `for` is neither an op of this file, nor of its imports, nor `contraction`.
    Write the op's name, or import the file that has it.
    """

    id = "schedule-unknown-op"


class ScheduleDoesNotFit(UserError):
    """A schedule is applied to an op that it does not fit.

    `for gemm` serves an op whose contraction unifies with gemm's. Assign tensors to roles: `for linear as gemm(A = X, B = W)`.
    """

    id = "schedule-does-not-fit"


class UnknownIndexInSchedule(UserError):
    """A line names an index that the spec in focus does not have.

    The indices are those of the op's statements, and fused ones below their `fuse`.
    """

    id = "schedule-unknown-index"


class UnknownTensorInSchedule(UserError):
    """A line names a tensor that the op does not have.

    `move` takes tensors that the focus reads, `keep` tensors that it computes.
    """

    id = "schedule-unknown-tensor"


class UnknownLevel(UserError):
    """A tile is distributed over a level that the device does not have.

    The levels are those of the device's text, outermost first.
    """

    id = "schedule-unknown-level"


class UnknownMemoryInSchedule(UserError):
    """A line names a memory that the device does not have.

    The memories are those of the device's text. A schedule for several devices uses roles that all of them have, or `auto`.
    """

    id = "schedule-unknown-memory"


class UnknownInstr(UserError):
    """`compute with` or `with` names an instruction that the device does not have.

    Instructions and their families are those of the device's text. `compute` alone is the scalar body and works on every
    device.
    """

    id = "schedule-unknown-instruction"


class UnknownStrategy(UserError):
    """`apply` names a strategy that does not exist.

    Strategies are declared in this file, or in a file that it imports.
    """

    id = "schedule-unknown-strategy"


class StrategyArguments(UserError):
    """`apply` passes arguments that the strategy does not take, or leaves one out.

    Arguments go by position, then by name. Arguments without a default are required.
    """

    id = "schedule-strategy-arguments"


class StrategyRecursion(UserError):
    """A strategy applies itself, directly or through others.

    The expansion would never end, because the strategy's lines replace each `apply`. Write the lines themselves where the
    circle closes.
    """

    id = "schedule-strategy-recursion"


class TooManyLines(UserError):
    """A schedule is too long after its strategies are expanded.

    The number of lines multiplies when strategies apply others more than once. The line shown exceeds the limit.
    """

    id = "schedule-too-many-lines"


class BadParam(UserError):
    """A `param` is set to a value that is not among its own.

    The default, and a caller's value, must be one of the values after `in`.
    """

    id = "schedule-param"


class DeviceMismatch(UserError):
    """A schedule is for another device than the target.

    `on D` is for the device D and those that extend it. Compile for D, or leave `on D` out.
    """

    id = "schedule-device"


class AmbiguousRole(UserError):
    """Several tensors or indices match a role.

    Choose one: `for linear as gemm(A = X, B = W)`.
    """

    id = "schedule-ambiguous-role"


class BadBound(UserError):
    """A bound of a schedule is not of the form `N <= 4096`, or nothing satisfies it.

    The left side is a size of the op, the right side a number. The operators are `<`, `<=`, `>`, `>=` and `==`. Sizes are at
    least 0.
    """

    id = "schedule-bound"


class UnusedParam(UserError):
    """A `param` that no line uses.

    Its values change nothing. Use it, or leave it out.
    """

    id = "schedule-unused-param"


class NameClash(UserError):
    """The op, the device, or another line already has this name.

    Parameters and fused indices need new names. Otherwise they would hide a size, index, tensor, level or memory.
    """

    id = "schedule-name-clash"
