"""Texts embedded in Python: signatures, and mistakes at their line of the Python file."""

from __future__ import annotations

import inspect

import andiron
import numpy as np
import pytest
from andiron.dsl.errors import UserError
from andiron.dsl.errors.run import SignatureDiffers

HALF = np.float32(0.5)
SCALE = """
op scale[N](X: f32[N], s: f32[]) -> (Y: f32[N]):
    Y[i] = s[] * X[i]
"""


def line_of(marker: str, function) -> int:
    lines, start = inspect.getsourcelines(function)
    return start + next(i for i, line in enumerate(lines) if marker in line)


def fault(make) -> UserError:
    with pytest.raises(UserError) as found:
        make()
    return found.value


def place(error: UserError) -> tuple[str, int]:
    return error.span.source.name, error.span.line + error.span.source.line_offset


def test_a_mistake_in_a_literal():
    def make():
        return andiron.op("""
            op twice[N](X: f32[N]) -> (Y: f32[N]):
                Y[i] = 2.0 * Z[i]  # the mistake
        """)

    assert place(fault(make)) == (__file__, line_of("# the mistake", make))


def test_a_mistake_in_a_variable():
    text = """
op twice[N](X: f32[N]) -> (Y: f32[N]):
    Y[i] = 2.0 * Q[i]  # in a variable
"""
    error = fault(lambda: andiron.op(text))
    assert place(error) == (__file__, line_of("# in a variable", test_a_mistake_in_a_variable))
    assert __file__.rpartition("/")[2] in str(error)


def test_a_mistake_under_a_decorator():
    def make():
        @andiron.kernel("""
        op twice[N](X: f32[N]) -> (Y: f32[N]):
            Y[i] = 2.0 * X[j]  # under a decorator
        """)
        def twice(X): ...

        return twice

    assert place(fault(make)) == (__file__, line_of("# under a decorator", make))


def test_a_mistake_in_an_f_string():
    def make(n=7):
        return andiron.op(f"""
            op first[N](X: f32[N]) -> (Y: f32[{n}]) where N >= {n}:
                Y[i] = W[i]  # in an f-string
        """)

    assert place(fault(make)) == (__file__, line_of("# in an f-string", make))


def test_integers_in_an_f_string():
    n = 3
    k = andiron.op(f"op first[N](X: f32[N]) -> (Y: f32[{n}]) where N >= {n}:\n    Y[i] = X[i]\n")
    np.testing.assert_array_equal(k(np.arange(5, dtype=np.float32)), [0, 1, 2])


def test_text_from_nowhere():
    error = fault(lambda: andiron.op("".join(["op bad[N](X: f32[N]) -> (Y: f32[N]):\n", "    Y[i] = Z[i]\n"])))
    assert error.span.line == 2


def test_the_signature_names_the_inputs():
    @andiron.kernel(SCALE)
    def scale(s, X): ...

    x = np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(scale(np.float32(2), x), 2 * x)
    np.testing.assert_array_equal(scale(X=x, s=np.float32(3)), 3 * x)


def test_defaults():
    @andiron.kernel(SCALE)
    def scale(X, s=HALF): ...

    np.testing.assert_array_equal(scale(np.ones(2, np.float32)), [0.5, 0.5])


@pytest.mark.parametrize("function", [lambda X: ..., lambda X, t: ..., lambda X, s, more: ...])
def test_a_signature_that_differs(function):
    with pytest.raises(SignatureDiffers, match="scale"):
        andiron.kernel(SCALE)(function)
