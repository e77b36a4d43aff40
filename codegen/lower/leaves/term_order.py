"""The order in which an instruction takes the terms of a reduction.

A sum does not depend on the order of its terms. If both operands have the term `order.of(n)` at an instruction's n-th place,
the result is the same. An order may be of the terms of several calls: these are executed one after another, and each has
registers of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ....dsl.index.expr import ZERO, Expr


@dataclass(frozen=True)
class TermOrder:
    """`index`: of the reduction. `digits` of a term's place, least significant first: (extent, weight) of each. The weights
    say which term is there."""

    index: str
    digits: tuple[tuple[int, int], ...]

    @property
    def span(self) -> int:
        """How many terms are permuted among themselves."""
        return prod(n for n, _ in self.digits)

    def of(self, place: Expr) -> Expr:
        """The term that is at a place."""
        out, stride = ZERO, 1
        for at, (extent, weight) in enumerate(self.digits):
            digit = place // stride
            out = out + (digit if at == len(self.digits) - 1 else digit % extent) * weight
            stride *= extent
        return out


def order_of(index: str, terms: tuple[int, ...]) -> TermOrder | None:
    """The order that has these terms at the places 0, 1, ...; None where it does not permute digits."""
    digits: list[tuple[int, int]] = []
    stride = 1
    for prime in prime_factors(len(terms)):
        weight = terms[stride]
        if digits and weight == digits[-1][0] * digits[-1][1]:
            digits[-1] = digits[-1][0] * prime, digits[-1][1]
        else:
            digits.append((prime, weight))
        stride *= prime
    order = TermOrder(index, tuple(digits))
    return order if tuple(_at(order, n) for n in range(len(terms))) == terms else None


def _at(order: TermOrder, place: int) -> int:
    out = 0
    for extent, weight in order.digits:
        place, digit = divmod(place, extent)
        out += digit * weight
    return out


def prime_factors(n: int) -> list[int]:
    """The factors of a number, smallest first."""
    out, p = [], 2
    while n > 1:
        while n % p == 0:
            out.append(p)
            n //= p
        p += 1
    return out
