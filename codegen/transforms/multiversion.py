"""A program and what it is given up for: the one for aligned calls first, the one for any call last.

The needs are few and cheap to check: remainders of sizes, and of the addresses of arguments.
"""

from __future__ import annotations

from collections.abc import Callable

from ...dsl.support.fast_replace import replace
from ..analysis.divisibility import product
from ..ir.program import Program
from ..ir.tile_ir import Needs
from .narrow_indices import narrow
from .vectorize.address_cache import Addresses
from .vectorize.vectorizer import Vectors, vectorised


def variants(
    program: Program, finish: Callable[[Program], Program], otherwise: Callable[[], Program]
) -> tuple[Program, tuple[str, ...]]:
    """The program with vector accesses, and notes; `finish` is what is done to each variant afterwards.

    `otherwise`: makes the program for calls whose sizes are not as needed."""
    addresses = Addresses()
    aligned = vectorised(program, True, addresses)
    needs = _needs(aligned)
    if needs is None:
        return finish(aligned.program), aligned.notes
    narrowed, ends = narrow(aligned.program)
    any_ = vectorised(otherwise() if needs.conds else program, False, addresses)
    launches = tuple(replace(x, name=f"{x.name}_any") for x in any_.program.launches)
    instead = finish(replace(any_.program, launches=launches))
    needs = replace(needs, conds=(*needs.conds, *ends))
    return replace(finish(narrowed), needs=needs, instead=instead), aligned.notes


def _needs(v: Vectors) -> Needs | None:
    conds = tuple(-(product(sizes) % n) for sizes, n in v.multiples.items())
    aligned = tuple(v.pointers.items())
    return Needs(conds, aligned) if conds or aligned else None
