"""Calls that are nested in a function with room get no memory of their own from the operating system."""

from __future__ import annotations

import inspect

import pytest
from andiron.codegen.emit.printers import emit
from andiron.codegen.pipeline import compile_program
from andiron.dsl.support.stack_room import with_stack_room

_CALLS = 200


def _leaf() -> None:
    pass


def _most_faults(depth: int) -> int:
    """The most page faults of the calls from one of so many nested functions."""
    resource = pytest.importorskip("resource")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(_CALLS):
        _leaf()
    mine = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    return max(mine, _most_faults(depth - 1)) if depth else mine


def test_calls_in_it_get_no_memory_of_their_own():
    roomy = with_stack_room(_most_faults)
    roomy(300)  # blocks, and all else that is made once
    assert roomy(300) < _CALLS // 2


def test_it_takes_and_gives_what_the_function_does():
    @with_stack_room
    def divided(x: int, *, by: int = 1) -> int:
        """The quotient."""
        return x // by

    assert (divided(7), divided(7, by=2), divided(x=7, by=7)) == (7, 3, 1)
    with pytest.raises(ZeroDivisionError):
        divided(7, by=0)
    assert divided.__name__ == "divided"
    assert divided.__doc__ == "The quotient."
    assert str(inspect.signature(divided)) == "(x: 'int', *, by: 'int' = 1) -> 'int'"


def test_functions_do_not_share_it():
    one, two = with_stack_room(lambda: 1), with_stack_room(lambda: 2)
    assert (one(), two(), one()) == (1, 2, 1)


@pytest.mark.parametrize("function", [compile_program, emit])
def test_passes_and_printers_have_it(function):
    assert function.__code__.co_stacksize > 1 << 14
