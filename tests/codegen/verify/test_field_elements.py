"""Values of the exactly-once checker: sums and products in a prime field, and extremes of their arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from andiron.codegen.pipeline import compile_program
from andiron.codegen.verify import check_once
from andiron.codegen.verify.field_arithmetic import P, field_element
from andiron.codegen.verify.field_elements import FieldDomain
from andiron.dsl.module import loads
from andiron.dsl.ops.specialise import specialise
from andiron.dsl.semantics.numerics import identity
from andiron.dsl.types import TYPES, DType

F32, I32, U8, BOOL = TYPES["f32"], TYPES["i32"], TYPES["u8"], TYPES["bool"]


def test_sums_and_products_are_those_of_the_field() -> None:
    d = FieldDomain()
    a, b, c = (d.inputs(F32, (5,)) for _ in range(3))
    two = d.constant(2, F32)
    assert d.same(d.apply("add", (a, a), F32), d.apply("mul", (a, two), F32)).all()
    assert d.same(d.apply("fma", (a, b, c), F32), d.apply("add", (c, d.apply("mul", (b, a), F32)), F32)).all()
    third = d.apply("div", (a, d.constant(3, F32)), F32)
    assert d.same(d.apply("add", (third, d.apply("add", (third, third), F32)), F32), a).all()
    assert not d.same(d.apply("add", (a, a), F32), a).any()


FIRST = [
    ("max", F32, -np.inf),
    ("min", F32, np.inf),
    ("max", U8, 0),
    ("min", TYPES["i8"], 127),
    ("or", BOOL, 0),
    ("and", BOOL, 1),
]


@pytest.mark.parametrize(("fn", "dtype", "first"), FIRST)
def test_extremes_count(fn: str, dtype: Any, first: float) -> None:
    """A maximum of the same twice is not the same; of what it begins with and something it is that."""
    d, wide = FieldDomain(), dtype.compute
    a, b, c = (d.inputs(dtype, (7,)) for _ in range(3))
    one = d.apply(fn, (a, d.apply(fn, (b, c), wide)), wide)
    assert d.same(one, d.apply(fn, (d.apply(fn, (c, a), wide), b), wide)).all()
    assert not d.same(d.apply(fn, (a, a), wide), a).any()
    start = d.constant(first, dtype)
    assert d.same(d.apply(fn, (start, a), wide), a).all()
    assert d.same(d.apply(fn, (a, start), wide), a).all()
    assert d.same(d.apply(fn, (start, start), wide), start).all()


def test_other_functions_are_of_their_arguments() -> None:
    d = FieldDomain()
    a, b = d.inputs(F32, (6,)), d.inputs(F32, (6,))
    assert d.same(d.apply("exp", (a,), F32), d.apply("exp", (a,), F32)).all()
    assert not d.same(d.apply("exp", (a,), F32), d.apply("exp", (b,), F32)).any()
    assert not d.same(d.apply("exp", (a,), F32), d.apply("tanh", (a,), F32)).any()
    assert d.same(d.apply("gt", (a, b), BOOL), d.apply("lt", (b, a), BOOL)).all()


def test_what_is_known_of_indices_is_computed() -> None:
    d = FieldDomain()
    i, j = d.number(np.arange(6), I32), d.number(3, I32)
    x, y = d.inputs(F32, (6,)), d.inputs(F32, (6,))
    got = d.apply("where", (d.apply("lt", (i, j), BOOL), x, y), F32)
    assert d.same(got[:3], x[:3]).all()
    assert d.same(got[3:], y[3:]).all()
    assert d.same(d.apply("mod", (i, j), I32), d.number(np.arange(6) % 3, I32)).all()


@pytest.mark.parametrize("fn", ["exp", "exp2"])
def test_powers_turn_sums_into_products(fn: str) -> None:
    d = FieldDomain()
    a, b, c = (d.inputs(F32, (5,)) for _ in range(3))

    def power(x: Any) -> Any:
        return d.apply(fn, (x,), F32)

    def minus(x: Any, y: Any) -> Any:
        return d.apply("sub", (x, y), F32)

    corrected = d.apply("mul", (power(minus(a, b)), power(minus(b, c))), F32)
    assert d.same(corrected, power(minus(a, c))).all()
    assert not d.same(corrected, power(minus(a, b))).any()
    assert not d.same(power(a), d.apply("exp2" if fn == "exp" else "exp", (a,), F32)).any()
    m, x = d.apply("max", (a, b), F32), d.apply("mul", (a, b), F32)
    assert d.same(d.apply("mul", (power(minus(x, m)), power(m)), F32), power(x)).all()
    assert d.same(power(d.constant(0, F32)), d.constant(1, F32)).all()


def test_a_power_of_whole_numbers_is_a_product() -> None:
    d = FieldDomain()
    x, y = d.inputs(F32, (6,)), d.inputs(F32, (6,))
    k = d.number(np.arange(-2, 4), I32)
    raised = d.apply("pow", (x, k), F32)
    assert d.same(raised[3], x[3]).all()
    assert d.same(d.apply("mul", (raised, x), F32), d.apply("pow", (x, d.number(np.arange(-1, 5), I32)), F32)).all()
    product = d.apply("pow", (d.apply("mul", (x, y), F32), k), F32)
    assert d.same(product, d.apply("mul", (raised, d.apply("pow", (y, k), F32)), F32)).all()


def test_a_power_turns_sums_of_its_exponent_into_products() -> None:
    d = FieldDomain()
    x, a, b, c = (d.inputs(F32, (6,)) for _ in range(4))

    def power(y: Any, z: Any) -> Any:
        return d.apply("pow", (x, d.apply("sub", (y, z), F32)), F32)

    assert d.same(d.apply("mul", (power(a, b), power(b, c)), F32), power(a, c)).all()
    assert not d.same(power(a, b), power(a, c)).any()
    assert d.same(power(a, a), d.constant(1, F32)).all()


def test_a_root_is_taken_of_each_factor() -> None:
    d = FieldDomain()
    a, b = d.inputs(F32, (5,)), d.inputs(F32, (5,))
    root, inverse = d.apply("sqrt", (a,), F32), d.apply("rsqrt", (a,), F32)
    product = d.apply("sqrt", (d.apply("mul", (a, b), F32),), F32)
    assert d.same(product, d.apply("mul", (root, d.apply("sqrt", (b,), F32)), F32)).all()
    assert d.same(d.apply("mul", (root, inverse), F32), d.constant(1, F32)).all()
    square = d.apply("mul", (a, a), F32)
    assert d.same(d.apply("mul", (d.apply("sqrt", (square,), F32),) * 2, F32), square).all()
    assert not d.same(root, d.apply("sqrt", (b,), F32)).any()
    assert not d.same(d.apply("sqrt", (d.apply("add", (a, b), F32),), F32), d.apply("add", (root, root), F32)).any()
    assert d.same(d.apply("sqrt", (d.constant(0, F32),), F32), d.constant(0, F32)).all()


def test_an_infinity_absorbs_what_is_finite() -> None:
    d = FieldDomain()
    a, low, zero = d.inputs(F32, (5,)), d.constant(float("-inf"), F32), d.constant(0, F32)
    assert d.same(d.apply("sub", (low, a), F32), low).all()
    assert d.same(d.apply("sub", (a, low), F32), d.constant(float("inf"), F32)).all()
    assert d.same(d.apply("exp", (d.apply("add", (a, low), F32),), F32), zero).all()
    nothing = d.apply("sub", (a, a), F32)  # no constant, though its elements are equal
    for value, expected in ((a, a), (low, zero), (nothing, nothing)):
        found = d.apply("where", (d.apply("eq", (value, low), BOOL), zero, value), F32)
        assert d.same(found, expected).all()
    assert d.same(d.apply("where", (d.apply("gt", (a, low), BOOL), a, zero), F32), a).all()


def test_a_power_of_a_power_is_a_random_function() -> None:
    d = FieldDomain()
    a, b = d.inputs(F32, (5,)), d.inputs(F32, (5,))
    once = d.apply("exp", (d.apply("sub", (a, b), F32),), F32)
    same = d.apply("div", (d.apply("exp", (a,), F32), d.apply("exp", (b,), F32)), F32)
    assert d.same(once, same).all()
    assert d.same(d.apply("exp", (once,), F32), d.apply("exp", (same,), F32)).all()


def test_an_extreme_of_powers_is_one_that_exponentials_are_taken_to() -> None:
    """exp(x - m) exp(m - n) is exp(x - n) where m and n are maxima of exponentials, of one or several."""
    d = FieldDomain()

    def exp(x: Any) -> Any:
        return d.apply("exp", (x,), F32)

    def minus(x: Any, y: Any) -> Any:
        return d.apply("sub", (x, y), F32)

    x, y = exp(d.inputs(F32, (5,))), exp(d.inputs(F32, (5,)))
    m = d.apply("max", (d.constant(float("-inf"), F32), x), F32)
    n = d.apply("max", (m, y), F32)
    assert d.same(d.apply("mul", (exp(minus(x, m)), exp(minus(m, n))), F32), exp(minus(x, n))).all()
    assert not d.same(exp(minus(x, m)), exp(minus(x, n))).any()
    assert d.same(exp(minus(m, m)), d.constant(1, F32)).all()


def test_an_operation_costs_as_much_as_some_hundred_values() -> None:
    for strict in (False, True):
        d = FieldDomain(strict=strict)
        d.apply("add", (d.constant(1, F32), d.inputs(F32, (7,))), F32)
        assert d.spent == 200 + 7 + (7 if strict else 0)  # the input, too


def test_numbers_in_the_field() -> None:
    assert field_element(0.5) * 2 % P == 1
    assert (field_element(-3) + 3) % P == 0
    assert len({field_element(float("inf")), field_element(float("-inf")), field_element(float("nan")), 0, 1}) == 5


@pytest.mark.parametrize("dtype", [TYPES["i8"], TYPES["i16"], I32, TYPES["i64"]])
@pytest.mark.parametrize("fn", ["min", "max"])
def test_small_numbers_are_no_ends_of_a_type(fn: str, dtype: DType) -> None:
    """An extreme of one number and the end of a type is the number, also where the two are near each other in the field."""
    d, wide = FieldDomain(), dtype.compute
    start = d.constant(identity(fn, wide).item(), wide)
    for n in range(-3, 4):
        number = d.constant(n, wide)
        assert d.same(d.apply(fn, (start, number), wide), number).all(), n
        assert not d.same(start, number).any(), n


@pytest.mark.parametrize("kind", ["min", "max"])
@pytest.mark.parametrize("value", ["0", "3 % 2", "(0 - 3) % 2 - 2", "(0 - 1) % 2 - 3"])
def test_an_extreme_of_constants(kind: str, value: str) -> None:
    text = (
        "op o[M](A: i32[M, M]) -> (Y: i32[M, M]):\n"
        f"    t[e] = {value}\n    u = {kind}(m) t[m]\n    Y[n, m] = (A[n, m] - u) + t[m]\n"
    )
    module = loads(text)
    op = specialise(module.ops["o"], {"M": 1})
    program = compile_program(module, op, None, module.device("cpu:generic")).program
    check_once(program, op, {}, {"core": 1})


def test_infinities_and_nan_are_those_of_numbers() -> None:
    d = FieldDomain()
    a, zero, one = d.inputs(F32, (5,)), d.constant(0, F32), d.constant(1, F32)
    high, low, nan = (d.constant(float(x), F32) for x in ("inf", "-inf", "nan"))

    def is_(expected: Any, fn: str, *args: Any) -> bool:
        return bool(d.same(d.apply(fn, args, F32), np.broadcast_to(expected, (5,))).all())

    for fn, *args in (
        ("sub", low, low), ("add", low, high), ("mul", low, zero), ("div", zero, zero), ("add", a, nan), ("mul", nan, zero),
        ("max", a, nan), ("exp", nan), ("tanh", nan), ("fma", low, zero, a),
    ):  # fmt: skip
        assert is_(nan, fn, *args), (fn, args)
    for fn, *args in (
        ("add", low, low),
        ("mul", low, d.constant(2, F32)),
        ("fma", one, low, a),
        ("log", zero),
        ("sub", a, high),
    ):
        assert is_(low, fn, *args), (fn, args)
    for fn, *args in (("exp", low), ("div", one, high), ("exp", d.apply("sub", (low, a), F32))):
        assert is_(zero, fn, *args), (fn, args)
    assert is_(one, "where", d.apply("ne", (nan, a), BOOL), one, zero)
    assert is_(zero, "where", d.apply("ge", (nan, nan), BOOL), one, zero)
    nothing = d.apply("mul", (zero, d.apply("exp", (a,), F32)), F32)  # a partial result, corrected
    assert is_(nan, "div", nothing, zero)
    assert not is_(nan, "add", a, a)


def test_an_infinite_extreme_counts_its_parts() -> None:
    d = FieldDomain()
    a, high = d.inputs(F32, (5,)), d.constant(float("inf"), F32)
    once, twice = d.apply("max", (a, high), F32), d.apply("max", (d.apply("max", (a, high), F32), a), F32)
    assert not d.same(once, twice).any()
    assert d.same(d.apply("sub", (once, high), F32), d.constant(float("nan"), F32)).all()
    assert d.same(d.apply("exp", (d.apply("sub", (a, once), F32),), F32), d.constant(0, F32)).all()


def test_numbers_that_overflow_count_on() -> None:
    d = FieldDomain()
    big, x = d.constant(1e200, F32), d.inputs(F32, (5,))
    one = d.apply("mul", (d.apply("mul", (big, big), F32), x), F32)
    assert d.same(one, d.apply("mul", (d.apply("mul", (x, big), F32), big), F32)).all()


def test_zeros_have_signs_of_their_own() -> None:
    """What an element becomes does not depend on those that are computed with it."""
    d = FieldDomain()
    one, both = d.constant(1, F32), np.stack([d.constant(float(x), F32) for x in ("inf", "-inf")])
    assert d.same(d.apply("div", (one, d.apply("div", (one, both), F32)), F32), both).all()


@pytest.mark.parametrize("powers", [True, False])
@pytest.mark.parametrize("fn", ["add", "sub", "mul", "fma", "neg", "max", "div", "rsqrt", "exp", "gt"])
def test_an_element_does_not_depend_on_how_many_are_computed(fn: str, powers: bool) -> None:
    """Few are computed in another way than many."""
    d, count = FieldDomain(powers=powers), {"fma": 3, "neg": 1, "rsqrt": 1, "exp": 1}.get(fn, 2)
    given = [d.inputs(F32, (1100,)) for _ in range(count)]
    given[0][::3], given[-1][::5] = d.apply("exp", (given[0][::3],), F32), d.constant(0, F32)
    whole = d.apply(fn, tuple(given), F32)
    for some in (slice(7, 8), slice(9, 10), slice(10, 16), slice(100, 200)):
        found = d.apply(fn, tuple(x[some] for x in given), F32)
        assert found.tobytes() == whole[some].tobytes()


def test_many_special_values_are_set_at_once() -> None:
    """A pass over all of them for each took minutes."""
    d, count = FieldDomain(), 1 << 16
    nan = np.broadcast_to(d.constant(float("nan"), F32), (count,))
    found = d.apply("add", (d.inputs(F32, (count,)), nan), F32)
    assert d.same(found, nan).all()


@pytest.mark.parametrize("kept", [(), (0,), (1,), (3, 2)])
@pytest.mark.parametrize("count", [1, 5])
def test_an_instruction_s_reduction_is_of_each_row(kept: tuple[int, ...], count: int) -> None:
    d = FieldDomain()
    x, before = d.inputs(F32, (*kept, count)), d.inputs(F32, kept)
    total = before
    for n in range(count):
        total = d.apply("add", (total, x[..., n]), F32)
    moved = np.moveaxis(x, -1, 0)
    assert d.same(d.reduce("sum", moved, (0,), before, F32, F32), total).all()
