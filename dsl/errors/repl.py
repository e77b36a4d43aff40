"""Mistakes at the prompt of the interactive shell, and in the cells of a notebook."""

from __future__ import annotations

from .base import UserError


class NotUnderstood(UserError):
    """Something typed at the prompt that is neither a declaration, nor a line of a schedule, nor a command.

    `help` lists the commands; lines begin with a statement's word, as in `tile m: 64`.
    """

    id = "not-understood"


class NothingToSchedule(UserError):
    """A line of a schedule before there is an op that it could be for, or with several ops to choose from.

    Begin a schedule first, as in `schedule s for gemm:`, or declare or import one op.
    """

    id = "nothing-to-schedule"


class NothingToDo(UserError):
    """A command of the shell that finds nothing to work on: no step to undo, no schedule of that name, no such topic.

    `show` tells what there is.
    """

    id = "nothing-to-do"


class BadMagic(UserError):
    """What follows `%%sched` in a notebook cannot be read.

    It is a name for the module, `--target` and `--size`, each of which may be left out.
    """

    id = "bad-magic"
