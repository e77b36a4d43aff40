"""The choices for the launches of one program: if one cannot be compiled, the next is taken, with a note.

A choice must compile, and the tests require it of the first (`MOST = 1`: the first choice, or its error). But an author without
lines has no use for an error about lines: another choice is worth more. An error that the author's own lines cause is the same
for all choices, so only a few are tried.

PLAIN_LAST   the last way that is tried is the plain one: only the author's lines, or the few rules where there are none.
REPORTED     the first error that no line has a part in which the compiler filled in; where all have one, the first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain, islice

from ...dsl.errors import UserError, UserErrors
from ...dsl.errors.schedule import CapacityExceeded, RegisterMismatch
from ..plan.derived_names import result_of
from .candidate import Candidate
from .synthetic_spans import concerns_filled_in

MOST = 4  # compilations: of one program [limit]


@dataclass
class ScheduleAttempts:
    """`over`: how many ways of a launch were passed over; `notes`: why. Of the attempt under way: the launch that is being
    `lowered` ("": all were), the way `chosen` for each, in the order in which they were asked for, which of these each launch
    of the program is (`names`), and why one of them is the plain one, where lines have no place in others (`plainly`)."""

    over: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    errors: list[UserError] = field(default_factory=list)
    plainly: str = ""
    lowered: str = ""
    chosen: dict[str, Candidate] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def choose(self, launch: str, ways: Iterable[Candidate], plain: Candidate) -> Candidate:
        """The best way that was not passed over, PLAIN_LAST; the error that is REPORTED where none is left."""
        found = next(islice(chain(ways, [plain]), self.over[launch], None), None)
        if found is None:
            raise self._reported()
        if self.over[launch] and self.over.total() + 1 >= MOST:
            found = plain
        self.chosen[launch] = found
        return found

    def reject_current(self, error: UserError) -> None:
        """Begins another attempt, after an error: without the way that it came from. Raises what is REPORTED where none is to
        blame, or enough were tried."""
        again = any(x is error for x in self.errors)
        if not again:
            self.errors.append(error)
            if self.plainly and isinstance(error, CapacityExceeded | RegisterMismatch):  # a nest might have distributed more
                error.help = "; ".join(filter(None, (error.help, self.plainly)))
        # What is found when all launches are there is blamed on the one that has it, else on each in turn, the last one first.
        blamed = self.lowered or self.names.get(_launch_of(error))
        blamed = blamed or min(reversed(self.chosen), key=lambda x: self.over[x], default="")
        if again or blamed not in self.chosen or self.over.total() + 1 >= MOST:
            raise self._reported() from None
        about = self.chosen[blamed].about or "the first choice"
        self.notes.append(f"launch {result_of(blamed)}: {about} cannot be compiled ({error.id}), so the next way was taken")
        self.over[blamed] += 1
        self.lowered = self.plainly = ""
        self.chosen.clear()
        self.names.clear()

    def _reported(self) -> UserError:
        """REPORTED"""
        return next((x for x in self.errors if not concerns_filled_in(x)), self.errors[0])


def _launch_of(error: UserError) -> str:
    """The first launch whose tiles a memory cannot hold; "": none is known."""
    some = error.errors if isinstance(error, UserErrors) else (error,)
    return next((x.launch for x in some if isinstance(x, CapacityExceeded)), "")
