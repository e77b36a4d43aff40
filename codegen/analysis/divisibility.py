"""Divisibility of index expressions by powers of two, which vector accesses need of their addresses.

    divisor(e, known)         a power of two that divides e for all values of its variables
    required(e, n, known)     the divisors that sizes must have so that n divides e; None where no divisors suffice

Only the divisors of a size are known (`KnownMultiples`). Sums and products have their usual rules. A quotient by a power of two
has the remaining divisors; a remainder and an exclusive or have the common divisors of both sides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import gcd

from ...dsl.index.expr import Atom, Expr, Fn, Var

# bytes: no instruction asks for a larger alignment, and the host allocates at multiples of it [fact: instructions, host
# allocator]
MOST = 256

Needs = tuple[tuple[tuple[Var, ...], int], ...]  # products of sizes, and what must divide them


@dataclass(frozen=True)
class KnownMultiples:
    """`sizes`: variables that are constant in a call. `lets`: the expressions of variables, where known. `multiples`: products
    of sizes (sorted by name), with a power of two that divides each."""

    sizes: frozenset[Var]
    lets: Mapping[Var, Expr]
    multiples: Mapping[tuple[Var, ...], int]
    found: dict[Atom, int] = field(default_factory=dict, compare=False, repr=False)  # what divides an atom, found once


def divisor(e: Expr, known: KnownMultiples) -> int:
    """The greatest power of two, up to MOST, that provably divides `e`."""
    found = _two(e.const)
    for atom, c in e.terms:
        found = min(found, _two(c) * _of_atom(atom, known))
    return min(found, MOST)


def required_divisors(e: Expr, n: int, known: KnownMultiples) -> Needs | None:
    """For a power of two n: products of sizes that must be divisible so that n divides e; () when it does anyway."""
    if _two(e.const) < n:
        return None
    needs: dict[tuple[Var, ...], int] = {}
    for atom, c in e.terms:
        lacking = n // min(n, _two(c) * _of_atom(atom, known))
        if lacking == 1:
            continue
        mine = tuple(sorted((f for f in factors(atom) if isinstance(f, Var) and f in known.sizes), key=lambda v: v.name))
        if not mine:
            return None
        needs[mine] = max(needs.get(mine, 1), lacking * _of_product(mine, known))
    return tuple(needs.items())


def merged_divisors(needs: Iterable[tuple[tuple[Var, ...], int]]) -> dict[tuple[Var, ...], int]:
    """One divisor for each product."""
    out: dict[tuple[Var, ...], int] = {}
    for sizes, n in needs:
        out[sizes] = max(out.get(sizes, 1), n)
    return out


def factors(atom: Atom) -> tuple[Atom, ...]:
    """The factors of an atom that is a product; itself, if it is none."""
    if isinstance(atom, Fn) and atom.kind == "mul":
        return tuple(f for e in atom.args for f in factors(e.terms[0][0]))
    return (atom,)


def _two(n: int) -> int:
    """The greatest power of two that divides n."""
    return gcd(n, MOST) if n else MOST


def _of_atom(atom: Atom, known: KnownMultiples) -> int:
    if atom not in known.found:
        known.found[atom] = _divisor_of(atom, known)
    return known.found[atom]


def _divisor_of(atom: Atom, known: KnownMultiples) -> int:
    if isinstance(atom, Var):
        own = known.multiples.get((atom,), 1)
        return max(own, divisor(known.lets[atom], known)) if atom in known.lets else own
    a, b = atom.args[0], atom.args[1]
    match atom.kind:
        case "mul":
            return _of_product(factors(atom), known)
        case "div":
            by = b.constant or 0
            return max(1, divisor(a, known) // by) if by and by & (by - 1) == 0 else 1
        case _:  # mod, xor, min, max
            return min(divisor(x, known) for x in atom.args)


def _of_product(parts: tuple[Atom, ...], known: KnownMultiples) -> int:
    """Known divisors of products of sizes count for the product; the other factors count each by itself."""
    left = list(parts)
    found = 1
    for sizes, n in sorted(known.multiples.items(), key=lambda x: (-len(x[0]), x[0][0].name)):
        if len(sizes) > 1 and all(left.count(v) >= sizes.count(v) for v in sizes):
            found *= max(n, _each(sizes, known))
            for v in sizes:
                left.remove(v)
    return min(MOST, found * _each(left, known))


def _each(parts: Iterable[Atom], known: KnownMultiples) -> int:
    found = 1
    for f in parts:
        found *= _of_atom(f, known)
    return min(MOST, found)
