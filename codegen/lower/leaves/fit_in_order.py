"""Whether a result in registers is the operand of an instruction that takes the terms of its reduction in another order.

    C[i, t]    a lane has 2 neighbours along t of each of several tiles
    A[i, t]    a lane needs 4 neighbours along t

Registers fit if for each one of the operand a lane has one of the result with the same row, and if terms and places correspond
one to one, in the same way for all lanes and rows. The order that keeps most terms where they are is found: registers of the
operand take the first result that fits.

COMPONENTS   registers of an operand that have a place in common must be found together. Those that have none in common are free
             of each other, and any result that fits one of two such sets fits the other if some result fits both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from math import lcm

import numpy as np

from ....dsl.index.expr import Var, as_expr
from .fragment_fit import coordinates_in, fragment_values
from .match_instr import FragmentMap, in_order
from .term_order import TermOrder, order_of


@lru_cache(maxsize=1 << 10)
def fitting_order(held: FragmentMap, f: FragmentMap, index: str) -> TermOrder | None:
    """The order of as few terms as possible in which `f`, of one call, is read from fragments `held` next to each other."""
    mine, theirs = f.of(index), held.of(index)
    if mine is None or theirs is None or held.lanes != f.lanes:
        return None
    each, tile = mine[0], theirs[0]
    most = lcm(each, tile)  # more tiles and calls are as these
    for span in range(each, most + 1, each):
        if most % span == 0 and (tile % span == 0 or span % tile == 0):
            terms = _terms(held, f, index, span)
            order = order_of(index, terms) if terms is not None else None
            if order is not None and is_read_in_order(held, f, order, most // span):
                return order
    return None


def is_read_in_order(held: FragmentMap, f: FragmentMap, order: TermOrder, groups: int) -> bool:
    """Whether the operand of each of so many groups of calls is in registers that are the same for all lanes."""
    ordered = in_order(f, order)
    extents = {i: n for i, n, _ in ordered.maps}
    if any(i not in extents for i, _, _ in held.maps):
        return False
    extents[order.index] *= groups
    steps = tuple((i, -(-extents[i] // n), n) for i, n, _ in held.maps if extents[i] > n)
    group = as_expr(Var("$group", 0, groups - 1)) * order.span if groups > 1 else as_expr(0)
    offsets = {i: group if i == order.index else as_expr(0) for i, _, _ in held.maps}
    return coordinates_in(held, steps, ordered, offsets, as_expr(0)) is not None


@dataclass
class _Pairing:
    """Which term is at which place, and the registers of the result that are taken."""

    terms: dict[int, int] = field(default_factory=dict)
    places: dict[int, int] = field(default_factory=dict)

    def with_pairs(self, places: np.ndarray, terms: np.ndarray) -> _Pairing | None:
        """None where a place has two terms, or a term two places."""
        new = _Pairing(dict(self.terms), dict(self.places))
        for place, term in zip(places.tolist(), terms.tolist(), strict=True):
            if new.terms.setdefault(place, term) != term or new.places.setdefault(term, place) != place:
                return None
        return new


def _terms(held: FragmentMap, f: FragmentMap, index: str, span: int) -> tuple[int, ...] | None:
    """The term at each place of `span`; None where registers do not fit."""
    extents = {i: n for i, n, _ in f.maps} | {index: span}
    wanted = list(_registers(f, index, extents))
    there = sorted(_registers(held, index, extents), key=lambda x: x[1].tolist())
    found = _Pairing()
    for part in _components(wanted):
        paired = _paired(part, there, found)
        if paired is None:
            return None
        found = paired
    return tuple(found.terms[n] for n in range(span)) if len(found.terms) == span else None


Register = tuple[np.ndarray, np.ndarray]  # for each lane: the rows, and the place or term


def _registers(f: FragmentMap, index: str, extents: dict[str, int]) -> Iterator[Register]:
    """Of fragments next to each other, up to the extents: those registers whose places are inside in all lanes."""
    maps = sorted(f.maps)
    at = next(n for n, x in enumerate(maps) if x[0] == index)
    own = np.stack([fragment_values(f, e) for _, _, e in maps])
    for first in product(*(range(0, max(extents.get(i, n), n), n) for i, n, _ in maps)):
        for r in range(f.registers):
            coordinates = own[:, :, r] + np.array(first)[:, None]
            places, rows = coordinates[at], np.delete(coordinates, at, 0)
            if (places < extents[index]).all():
                yield rows, places


def _components(registers: list[Register]) -> Iterator[list[Register]]:
    """COMPONENTS, each in an order in which a register has a place in common with those before it."""
    left = list(registers)
    while left:
        part, seen = [left.pop(0)], set()
        while True:
            seen |= set(part[-1][1].tolist())
            near = next((n for n, x in enumerate(left) if not seen.isdisjoint(x[1].tolist())), None)
            if near is None:
                break
            part.append(left.pop(near))
        yield part


def _paired(part: list[Register], there: list[Register], found: _Pairing) -> _Pairing | None:
    if not part:
        return found
    rows, places = part[0]
    for own, terms in there:
        if np.array_equal(own, rows) and (paired := found.with_pairs(places, terms)) is not None:
            whole = _paired(part[1:], there, paired)
            if whole is not None:
                return whole
    return None
