"""How fragments fit each other: what of one lies where in another. All is found by the maps of the device's text.

PROJECTED    a tensor that lacks indices of a fragment lies as the fragment does for those that it has: a register for each
             element of its own that a lane meets.
IN_TURN      a fragment is several equal ones, next to each other along an index, if its registers are those of the first, then
             those of the second, and so on.
AS_IT_LIES   an element is read from the registers of the lane that needs it. Which register that is must not depend on the
             lane, since the text of a kernel names registers.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ....dsl.fragment import FragmentLayout
from ....dsl.index.expr import ZERO, Expr, Var, as_expr
from ....dsl.support.fast_replace import replace
from .match_instr import FragmentMap
from .term_order import prime_factors


def same_fragment(one: FragmentMap | None, other: FragmentMap) -> bool:
    """Do both say the same element for every (lane, register)?"""
    if one is None:
        return False
    if (one.lanes, one.registers, len(one.maps)) != (other.lanes, other.registers, len(other.maps)):
        return False
    for index, extent, e in one.maps:
        part = other.of(index)
        if part is None or part[0] != extent or not _same(e, part[1], one.lanes, one.registers):
            return False
    return True


@lru_cache(maxsize=1 << 12)
def _same(e: Expr, other: Expr, lanes: int, registers: int) -> bool:
    """Have both the same value for every lane and register? Of expressions of these two alone, so what is known stays true."""
    env = {"lane": np.arange(lanes)[:, None], "r": np.arange(registers)[None, :]}
    return e == other or bool(np.all(e.evaluate(env) == other.evaluate(env)))


@lru_cache(maxsize=1 << 10)
def index_in_turn(one: FragmentMap, several: FragmentMap) -> str | None:
    """IN_TURN: the index along which the fragments lie; None where `several` is something else."""
    counts = {i: whole[0] // n for i, n, _ in one.maps if (whole := several.of(i)) is not None and not whole[0] % n}
    more = [i for i, count in counts.items() if count > 1]
    if len(more) != 1 or len(counts) < len(one.maps) or one.lanes != several.lanes:
        return None
    same_order = replace(several, maps=tuple((i, *(several.of(i) or ())) for i in counts))
    return more[0] if _are_tiles(_layout(one), tuple(counts.values()), _layout(same_order)) else None


@lru_cache(maxsize=1 << 10)
def _are_tiles(one: FragmentLayout, counts: tuple[int, ...], several: FragmentLayout) -> bool:
    """IN_TURN, whatever the indices are called: a fact about instructions, which all computations share."""
    return one.tiled(counts).equal(several)


@lru_cache(maxsize=1 << 10)
def projected(f: FragmentMap, indices: frozenset[str]) -> FragmentMap | None:
    """PROJECTED: the fragment of what has only these of its indices; None where it has none of them.

    The registers of one element are those whose numbers agree in a digit; where they are not, each register has its own.
    """
    maps = tuple(x for x in f.maps if x[0] in indices)
    if not maps or len(maps) == len(f.maps) or f.r is None:
        return replace(f, maps=maps) if maps else None
    found = [fragment_values(f, e) for _, _, e in maps]
    numbers = np.arange(f.registers)
    for count in range(1, f.registers + 1):
        for div in (d for d in range(1, f.registers + 1) if f.registers % (d * count) == 0):
            if all((v == v[:, numbers // div % count * div]).all() for v in found):
                r = Var(f.r.name, 0, count - 1)
                at = as_expr(r) * div if count > 1 else ZERO
                own = tuple((i, n, e.subs({f.r: at})) for i, n, e in maps)
                return FragmentMap(own, f.lane, f.lanes, r if count > 1 else None, count)
    return replace(f, maps=maps)


Digits = tuple[tuple[int, int], ...]  # of a lane's number: (stride, count)


@lru_cache(maxsize=1 << 10)
def parts_over_lanes(f: FragmentMap, kept: frozenset[str]) -> tuple[Digits, Digits]:
    """The digits of a lane's number that do not tell apart elements of the indices kept.

    Lanes that differ in the first ones have different elements of the others: parts of a reduction. Those that differ in the
    second ones have the same elements.
    """
    own = [fragment_values(f, e) for i, _, e in f.maps if i in kept]
    others = [fragment_values(f, e) for i, _, e in f.maps if i not in kept]
    lanes, stride = np.arange(f.lanes), 1
    parts: list[tuple[int, int]] = []
    replicas: list[tuple[int, int]] = []
    for prime in prime_factors(f.lanes):
        without = lanes - lanes // stride % prime * stride
        if all((v == v[without]).all() for v in own):
            out = replicas if all((v == v[without]).all() for v in others) else parts
            joins = out and out[-1][0] * out[-1][1] == stride
            out[-1:] = [(out[-1][0], out[-1][1] * prime)] if joins else [*out[-1:], (stride, prime)]
        stride *= prime
    return tuple(parts), tuple(replicas)


def coordinates_in(
    held: FragmentMap, steps: tuple[tuple[str, int, int], ...], f: FragmentMap, offsets: dict[str, Expr], register: Expr
) -> tuple[Expr, ...] | None:
    """AS_IT_LIES: where a lane has the element, that it meets in another fragment; None where it has it in no register that is
    the same for all lanes.

    steps     (index, extent, stride) of the tiles that number registers, before the fragment `held` of each
    offsets   of each index, the element's distance from the first one, without what `f` adds
    register  the number of the register in `f`
    """
    whole = {i: e + (part[1] if (part := f.of(i)) is not None else 0) for i, e in offsets.items()}
    found = [whole[i] // stride % extent for i, extent, stride in steps]
    if held.r is not None and held.registers > 1:
        inner = [whole[i] % n if i in whole else ZERO for i, n, _ in held.maps]
        back = _layout(held).inverse(inner)
        if back is None:
            return None
        found.append(back[held.r.name])
    else:
        found.append(ZERO)
    if f.lane is not None:
        found = [e.subs({f.lane: ZERO}) for e in found]
    if not _is_there(held, steps, f, whole, found):
        return None
    return tuple(e.subs({f.r: register}) if f.r is not None else e for e in found)


@lru_cache(maxsize=1 << 10)
def is_read_as_it_lies(held: FragmentMap, f: FragmentMap) -> bool:
    """AS_IT_LIES, for each register of `f`, over as many fragments `held` as it spans."""
    own = {i: n for i, n, _ in f.maps}
    if any(i not in own for i, _, _ in held.maps):
        return False
    steps = tuple((i, -(-own[i] // n), n) for i, n, _ in held.maps if own[i] > n)
    return coordinates_in(held, steps, f, dict.fromkeys((i for i, _, _ in held.maps), ZERO), ZERO) is not None


def _is_there(
    held: FragmentMap, steps: tuple[tuple[str, int, int], ...], f: FragmentMap, whole: dict[str, Expr], found: list[Expr]
) -> bool:
    """Whether the registers at the coordinates hold the elements: for each lane, register, and tile.

    What is past the end of what is held is past the end of its range, and nobody looks at its value.
    """
    free = sorted({v for e in (*whole.values(), *found) for v in e.variables()}, key=lambda v: v.name)
    names = dict.fromkeys((*((v.name, v.hi) for v in free), *((v.name, v.hi) for v in (f.lane,) if v is not None)))
    if any(hi is None for _, hi in names):
        return False
    grid = np.meshgrid(*(np.arange((hi or 0) + 1) for _, hi in names), indexing="ij", sparse=True)
    env = {name: g for (name, _), g in zip(names, grid, strict=True)}
    at = [e.evaluate(env) for e in found]
    own = {held.lane.name: env[f.lane.name] if f.lane is not None else 0} if held.lane is not None else {}
    own |= {held.r.name: at[-1]} if held.r is not None else {}
    spread = {i: e.evaluate(own) for i, _, e in held.maps}
    ends = {i: n for i, n, _ in held.maps}
    for i, extent, stride in steps:
        ends[i] = max(ends.get(i, 0), extent * stride)
    where = {i: e.evaluate(env) for i, e in whole.items()}
    inside = np.logical_and.reduce(np.broadcast_arrays(True, *(where[i] < n for i, n in ends.items() if i in where)))
    for i, e in where.items():
        there = sum(stride * n for (j, _, stride), n in zip(steps, at, strict=False) if j == i) + spread.get(i, 0)
        if not np.all((e == there) | ~inside):
            return False
    return True


def shown_fragment(f: FragmentMap) -> str:
    """`i = lane/4 + 8*(r/2), t = ...`, for messages."""
    return ", ".join(f"{i} = {e}" for i, _, e in f.maps)


@lru_cache(maxsize=1 << 8)
def _layout(f: FragmentMap) -> FragmentLayout:
    coords = tuple(v for v in (f.lane, f.r) if v is not None)
    return FragmentLayout(coords, tuple(e for _, _, e in f.maps), tuple(n for _, n, _ in f.maps))


def fragment_values(f: FragmentMap, e: Expr) -> np.ndarray:
    """The value of an expression of its coordinates: [lane, register]."""
    env = {
        v.name: n for v, n in ((f.lane, np.arange(f.lanes)[:, None]), (f.r, np.arange(f.registers)[None, :])) if v is not None
    }
    return np.broadcast_to(e.evaluate(env), (f.lanes, f.registers))
