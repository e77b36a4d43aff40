"""Room for nested calls.

CPython, from 3.11 on, has the frames of a thread in blocks of 16 KiB. A call whose frame no longer fits gets a block from the
operating system, and gives it back when it returns. Where a loop calls functions at the end of a block, each of these calls
takes as long as a hundred others. Whether it does depends on how many functions are around: the same compilation took up to
half as long again.

A frame that is larger than a block gets a larger one. The frames of the calls in it are in the rest of that.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

# words: a block is the least power of two that holds a frame of so many, so twice as large, and the rest holds some hundred
# frames. Memory that nobody writes to costs nothing. [fact: CPython; test_calls_in_it_get_no_memory_of_their_own]
_WORDS = 1 << 15


def with_stack_room(function: Callable[P, R]) -> Callable[P, R]:
    """The function, with room for the calls that are nested in it."""

    def roomy(*args: P.args, **kwargs: P.kwargs) -> R:
        return function(*args, **kwargs)

    roomy.__code__ = roomy.__code__.replace(co_stacksize=_WORDS)
    return wraps(function)(roomy)
