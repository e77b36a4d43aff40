"""Names that differ from those that are taken."""

from __future__ import annotations

from collections.abc import Container
from itertools import count

from .program import Program
from .tile_ir import Alloc, For, Let
from .tile_visitors import statements


def numbered_name(wish: str, taken: Container[str], first: int = 1, stem: str = "") -> str:
    """The wish; where it is taken the first free one of `wish1`, `wish2`, ... `stem`: to number in place of the wish."""
    if wish not in taken:
        return wish
    return next(name for n in count(first) if (name := f"{stem or wish}{n}") not in taken)


def underscored_name(wish: str, taken: Container[str]) -> str:
    """The wish, with as many underscores after it as make it free."""
    while wish in taken:
        wish += "_"
    return wish


def names_of(program: Program) -> set[str]:
    """The names of a program: of sizes, buffers, launches, levels and variables."""
    names = {v.name for v in program.call_sizes} | {b.name for b in program.buffers}
    for launch in program.launches:
        names |= {launch.name} | {x for u in launch.units for x in (u.var.name, u.level)}
        for s in statements(launch.body):
            names |= {s.buffer.name} if isinstance(s, Alloc) else {s.var.name} if isinstance(s, For | Let) else set()
    return names
