"""Registers of GPU kernels as arrays: `float c[4][8][4]`, an element for each cell.

The loops that number cells stay loops, each with `#pragma unroll`. Compilers unroll them before they place variables, so every
index is a constant and every cell a register.

VARIABLE  A buffer with one cell that no instruction takes is a plain variable.
ROWS      Where instructions take n cells side by side each, they are a row of the array: `float x[4][n]`, passed as `x[i]`.
WORDS     A loop that stores elements which share a word is a loop over words. It contains a statement for each part of a word,
          so that the parts are constants in the text, and a word is put together at once (`peephole`, PACKED).
CLEARED   An array whose first statements set all of it to zero is declared as `= {}`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ....dsl.index.expr import Expr, Var, as_expr
from ....dsl.support.fast_replace import replace
from ....dsl.values import Const
from ...ir.tile_ir import Alloc, Buffer, Call, For, Let, Piece, Stmt, Store

_ZEROS = ("0", "0.0", "False")  # not -0.0


@dataclass(frozen=True)
class RegisterArray:
    """`axes`: the coordinates of the buffer that index it; `shape`: its extents. VARIABLE: they are (). `row`: elements in a
    row, if the last coordinate counts through several of them (ROWS)."""

    axes: tuple[int, ...]
    shape: tuple[int, ...]
    row: int | None = None

    def indices(self, where: Sequence[Expr]) -> list[Expr]:
        """Of the element at these coordinates (the last one of words, where cells share them)."""
        found = [where[i] for i in self.axes] or [as_expr(0)] * len(self.shape)
        return found if self.row is None else [*found[:-1], found[-1] // self.row, found[-1] % self.row]


def register_arrays(
    everything: Sequence[Stmt], named: Mapping[str, Buffer], packed: Mapping[str, int]
) -> dict[str, RegisterArray]:
    """Of the register buffers whose cells are known. `packed`: elements in a word, where several share one."""
    pieces: dict[str, list[Piece]] = {name: [] for name in named}
    for s in everything:
        for p in s.pieces if type(s) is Call else ():
            if p.buffer in pieces:
                pieces[p.buffer].append(p)
    return {name: _array(b, packed.get(name, 1), pieces[name]) for name, b in named.items()}


def _array(buffer: Buffer, share: int, pieces: Sequence[Piece]) -> RegisterArray:
    extents = [e.constant or 1 for e in buffer.shape]
    last = len(extents) - 1
    if extents:
        extents[last] = -(-extents[last] // share)
    axes = tuple([i for i, n in enumerate(extents) if n > 1 or (pieces and i == last)])
    shape = tuple([extents[i] for i in axes]) or (1,) * bool(pieces)
    row = _row(pieces, share)
    if row is None or not shape or shape[-1] == row or shape[-1] % row:
        return RegisterArray(axes, shape)
    return RegisterArray(axes, (*shape[:-1], shape[-1] // row, row), row)


def _row(pieces: Sequence[Piece], share: int) -> int | None:
    """ROWS: the elements that each operand has, if all begin at a multiple of them."""
    extents = {p.extent for p in pieces}
    if len(extents) != 1:
        return None
    (extent,) = extents
    starts = [p.coords[-1] for p in pieces if p.coords]
    whole = all([not e.const % extent and not any([c % extent for _, c in e.terms]) for e in starts])
    return extent // share if whole and not extent % share else None


def word_loops(everything: Sequence[Stmt], packed: Mapping[str, int]) -> dict[Var, int]:
    """WORDS: variables that number parts of stored words, and how many of their values at most are in a word."""
    lets = {s.var: s.value for s in everything if type(s) is Let}
    found: dict[Var, int] = {}
    for s in everything:
        if type(s) is not Store or s.buffer not in packed:
            continue
        share, place = packed[s.buffer], s.coords[-1]
        while not lets.keys().isdisjoint(place.variables()):
            place = place.subs(lets)
        for v in (place - _whole_words(place, share)).variables():
            found[v] = max(found.get(v, 1), share)
    return found


def _whole_words(e: Expr, share: int) -> Expr:
    """The terms that go from a word to the same part of another one."""
    return Expr(tuple([(a, c) for a, c in e.terms if type(a) is Var and not c % share]))


def over_words(s: For, trips: int, share: int) -> For | None:
    """WORDS: the loop as one over words, around one over the parts of a word; None if it ends within a word."""
    if s.start.constant != 0 or s.step.constant != 1 or trips % share or trips == share:
        return None
    word = Var(f"{s.var.name}_word", 0, trips // share - 1)
    first = share * as_expr(word)
    parts = replace(s, start=first, stop=first + share)
    return replace(s, var=word, stop=as_expr(trips // share), body=(parts,))


def without_clearing(s: Alloc) -> Alloc | None:
    """CLEARED: the allocation without the statements that clear all of its buffer; None if it does not begin with them."""
    at = next((i for i, x in enumerate(s.body) if type(x) is not Let), None)
    if at is None or not _clears(s.body[at], s.buffer):
        return None
    return replace(s, body=s.body[:at] + s.body[at + 1 :])


def _clears(s: Stmt, buffer: Buffer) -> bool:
    loops: dict[Var, For] = {}
    while type(s) is For and len(s.body) == 1 and s.unroll == 0 and s.start.constant == 0 and s.step.constant == 1:
        loops[s.var] = s
        s = s.body[0]
    if type(s) is not Store or s.buffer != buffer.name or s.atomic:
        return False
    if type(s.value) is not Const or str(s.value.value) not in _ZEROS:
        return False
    for place, extent in zip(s.coords, buffer.shape, strict=True):
        if place.constant == 0 and extent.constant == 1:
            continue
        v = next((v for v in loops if as_expr(v) == place), None)
        if v is None or loops.pop(v).stop != extent:
            return False
    return True
