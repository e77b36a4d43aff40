"""A value that counts, as an array: two elements of a prime field, those of a second one for exponents, and a number.

The functions of the first field are those of the second too, modulo another prime. What they mean: `field_elements`.

LANES    The two elements of a value lie side by side in its record, its two exponents next to them. Most arrays are short, so
         each call of NumPy counts: what is one function in both fields is computed of all four at once (`components`), modulo
         `_MODULI`. `lanes` copies elements or exponents into a dense array, whose last axis is the lanes.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any

import numpy as np

from ..interpret.domain import Array

# prime: products of two elements fit 64 bits, and the ends of i32 and i64 are no small elements, as 0 and 1 modulo 2**31 - 1;
# squares have the order Q = (P - 1) / 2 [fact: arithmetic]
Q = 15 * (1 << 26) + 23
P = 2 * Q + 1  # prime: the elements are counted modulo it [fact: arithmetic]
LANES = 2  # elements: of the field for each value, so that a false match is unlikely [fact: probability]
# `at`: two elements; `ex`: two exponents, -1 for none; `num`: a number that goes along, NaN for none
VALUE = np.dtype([("at", np.int64, (LANES,)), ("ex", np.int64, (LANES,)), ("num", np.float64)])
INFINITE = 0x2F6E9A31  # field element: that stands for infinity, arbitrary [fact: marker]
NO_NUMBER = 0x1BD1E995  # field element: that stands for NaN, arbitrary [fact: marker]
NO_EXPONENTS = np.full(LANES, -1)
_MODULI = np.array([P] * LANES + [Q] * LANES)  # of `components`
_FEW = 32  # elements: that Python raises to a power one by one, which is faster for so few [limit]
_LONG = 1000  # values: whose four components are computed at once; for more, four calls are faster than loops over four [limit]
_COMPONENTS = np.dtype([("of", np.int64, (2 * LANES,)), ("num", np.float64)])  # VALUE, named otherwise


@lru_cache(maxsize=4096)
def field_element(value: int | float | bool, p: int = P) -> int:
    """A number of the language in the field of p elements."""
    if value != value:
        return NO_NUMBER
    if value in (float("inf"), float("-inf")):
        return INFINITE if value > 0 else p - INFINITE
    exact = Fraction(value)
    return exact.numerator % p * pow(exact.denominator, -1, p) % p


def mixed(x: np.ndarray) -> np.ndarray:
    """The finaliser of splitmix64 (Steele, Lea and Flood 2014)."""
    with np.errstate(over="ignore"):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def lanes(values: Array, name: str) -> np.ndarray:
    """LANES: the elements ("at") or the exponents ("ex"), copied: shape (*values.shape, LANES)."""
    found, out = values[name], np.empty((*values.shape, LANES), np.int64)
    for lane in range(LANES):
        out[..., lane] = found[..., lane]
    return out


def components(values: Array) -> np.ndarray:
    """LANES: the elements, then the exponents, in place: shape (*values.shape, 2 * LANES)."""
    return values.view(_COMPONENTS)["of"]


def set_lanes(values: Array, name: str, new: np.ndarray) -> None:
    """LANES: `new` as of `lanes`, broadcast."""
    place = values[name]
    for lane in range(LANES):
        place[..., lane] = new[..., lane]


def in_all_lanes(true: np.ndarray) -> np.ndarray:
    """`true.all(-1)`, which takes ten times as long."""
    out = true[..., 0]
    for lane in range(1, LANES):
        out = out & true[..., lane]
    return out


def field_values(at: np.ndarray, num: Any, exponents: np.ndarray) -> Array:
    """`at` and `exponents`: as of `lanes`; `num`: a number for each value. All are broadcast."""
    shape, others = at.shape[:-1], np.shape(num)
    out = np.empty(shape if others in ((), shape) else np.broadcast_shapes(shape, others), VALUE)
    set_lanes(out, "at", at)
    set_lanes(out, "ex", exponents)
    out["num"] = num
    return out


def whole_numbers(whole: np.ndarray, num: np.ndarray) -> Array:
    """Integers as values; `num`: the same, where a zero may have a sign."""
    out = np.empty(whole.shape, VALUE)
    components(out)[...] = whole[..., None] % _MODULI
    out["num"] = num
    return out


def in_both_fields(f: Callable[[list[np.ndarray], Any], Any], args: tuple[Array, ...], num: Any) -> Array:
    """The function `f` of arrays, modulo primes, of the elements and of the exponents, also of those that stand for none."""
    given = [components(a) for a in args]
    shape = np.broadcast_shapes(*(a.shape for a in args)) if len({a.shape for a in args}) > 1 else args[0].shape
    out = np.empty(shape, VALUE)
    place = components(out)
    if out.size < _LONG:
        place[...] = f(given, _MODULI)
    else:
        for n, p in enumerate(_MODULI):
            place[..., n] = f([x[..., n] for x in given], p)
    out["num"] = num
    return out


def exponents_of(at: np.ndarray) -> np.ndarray:
    """Elements of the other field that go along with those of the first, at random."""
    return (mixed(at.astype(np.uint64)) % np.uint64(Q)).astype(np.int64)


def is_constant(x: Array) -> np.ndarray:
    """Constants have one element twice."""
    at = x["at"]
    return at[..., 0] == at[..., 1]


def is_element(x: Array, element: int) -> np.ndarray:
    """Where both elements are this one."""
    at = x["at"]
    return (at[..., 0] == element) & (at[..., 1] == element)


OF_BOTH_FIELDS = ("add", "sub", "mul", "scaled", "above_zero", "fma", "neg")  # of `field_function`: those of one expression


def field_function(fn: str, x: list[np.ndarray], p: Any) -> np.ndarray | None:
    """`p`: a prime, or one for each component for OF_BOTH_FIELDS."""
    match fn:
        case "add":
            return (x[0] + x[1]) % p
        case "sub":
            return (x[0] - x[1]) % p
        case "above_zero":
            return x[0]
        case "mul" | "scaled":
            return x[0] * x[1] % p
        case "fma":
            return (x[0] * x[1] + x[2]) % p
        case "neg":
            return -x[0] % p
        case "div" | "divide_by":
            return x[0] * _inverse(x[1], p) % p
        case "reciprocal":
            return _inverse(x[0], p)
        case "sqrt":
            return _root(x[0], p)
        case "rsqrt":
            return _inverse(_root(x[0], p), p)
    return None


def power_of(base: int, exponents: np.ndarray) -> np.ndarray:
    """Powers in the first field, of exponents from 0 to Q - 1: products of the powers by three times ten bits."""
    out: Any = 1
    for n, powers in enumerate(_powers_by_bits(base)):
        out = out * powers[exponents >> 10 * n & 1023] % P
    return out


@cache
def _powers_by_bits(base: int) -> tuple[np.ndarray, ...]:
    return tuple(np.array([pow(base, bits << 10 * n, P) for bits in range(1024)]) for n in range(3))


def _inverse(x: np.ndarray, p: int) -> np.ndarray:
    """Of 0 it is 0."""
    return _raised(x, p - 2, p)


def _root(x: np.ndarray, p: int) -> np.ndarray:
    """ROOTS"""
    return _raised(x, (p + 1) // 4, p)


def raised_to(x: np.ndarray, powers: np.ndarray, p: int) -> np.ndarray:
    """Each element to a whole power of its own."""
    x, left = np.broadcast_arrays(np.where(powers < 0, _inverse(x, p), x), np.abs(powers) % (p - 1))
    out = np.ones_like(x)
    while left.any():
        out = np.where(left & 1, out * x % p, out)
        x, left = x * x % p, left >> 1
    return out


def _raised(x: np.ndarray, power: int, p: int) -> np.ndarray:
    if x.size <= _FEW:
        return np.array([pow(one, power, p) for one in x.reshape(-1).tolist()], np.int64).reshape(x.shape)
    out = np.ones_like(x)
    while power:
        if power & 1:
            out = out * x % p
        x, power = x * x % p, power >> 1
    return out
