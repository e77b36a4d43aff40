"""Mistakes at the prompt of the interactive shell, and in the cells of a notebook."""

from __future__ import annotations

from .base import UserError


class NotUnderstood(UserError):
    """An input that is neither a declaration, nor a line of a schedule, nor a command.

    `help` lists the commands. Lines begin with the word of a statement, as in `tile m: 64`.
    """

    id = "not-understood"


class NothingToSchedule(UserError):
    """A line of a schedule without an op, or with several ops to choose from.

    Begin a schedule first, as in `schedule s for gemm:`, or declare or import one op.
    """

    id = "nothing-to-schedule"


class NothingToDo(UserError):
    """A command of the shell that finds nothing to work on: no step to undo, no schedule of that name, no such topic.

    `show` and `help` list what there is.
    """

    id = "nothing-to-do"


class BadMagic(UserError):
    """The words after `%%sched` in a notebook cannot be read.

    Write a name for the module, `--target` and `--size`. Each may be left out.
    """

    id = "bad-magic"
