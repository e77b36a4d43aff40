"""Layouts: functions from an element's index to its address.

A layout cuts each axis into digits (value / div % extent), puts the digits in an order, pads the rows, and may XOR the
innermost coordinate with the row (a swizzle). Row-major, transposed, panelled and swizzled storage are all of this kind; the
inverse is the sum of digit * div.

    Layout.row_major((("m", 128), ("k", 32)))        address  32*m + k
    .permuted(axes, ("k", "m"))                      address  128*k + m
    .panels(axes, {"m": 6})                          digits   m/6, k, m % 6

Addresses, strides and padding are in elements. Extents are constant, except that of the outermost digit of an axis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import gcd, prod

from .fragment import FragmentLayout, read_digit
from .index.expr import ONE, ZERO, Expr, Index, as_expr, ceildiv, xor
from .support.fast_replace import replace

__all__ = ["FragmentLayout", "Layout", "LayoutDigit", "Swizzle"]

# A row of shared memory as all banks see it, and the widest access of one unit (CUDA C++ Programming Guide, "Shared memory":
# 32 banks of 4 bytes; 16-byte accesses are served in phases of 8 units).
_LINE_BYTES, _CHUNK_BYTES = 128, 16

Axes = Sequence[tuple[str, Index]]


@dataclass(frozen=True)
class LayoutDigit:
    """`axis / div % extent`; `% extent` is left out for the outermost digit of an axis."""

    axis: str
    div: int
    extent: Expr


@dataclass(frozen=True)
class Swizzle:
    """Within a row, chunks of `vector` elements change places: chunk number c becomes c XOR (row / rows % count).

    `count`, a power of two, divides the number of chunks in a row, so chunks stay in their row and whole.
    """

    vector: int
    count: int
    rows: int = 1

    def apply(self, column: Expr, row: Expr) -> Expr:
        """The stored column of `column`; its own inverse."""
        chunk = column // self.vector
        phase = row // self.rows % self.count
        moved = chunk // self.count * self.count + xor(chunk % self.count, phase)
        return moved * self.vector + column % self.vector


@dataclass(frozen=True)
class Layout:
    """`axes` name the logical index with its extents; `digits` are outermost first; `pad` is added to the stride of rows."""

    axes: tuple[tuple[str, Expr], ...]
    digits: tuple[LayoutDigit, ...]
    pad: int = 0
    swizzle: Swizzle | None = None

    # ------------------------------------------------------------ constructors

    @staticmethod
    def row_major(axes: Axes) -> Layout:
        return Layout.permuted(axes, [name for name, _ in axes])

    @staticmethod
    def permuted(axes: Axes, order: Sequence[str]) -> Layout:
        """Whole axes in another order, outermost first."""
        extents = {name: as_expr(e) for name, e in axes}
        if sorted(order) != sorted(extents):
            raise ValueError(f"the order ({', '.join(order)}) does not name each axis of the tile once")
        return Layout(tuple(extents.items()), tuple(LayoutDigit(name, 1, extents[name]) for name in order))

    @staticmethod
    def panels(axes: Axes, sizes: Mapping[str, int]) -> Layout:
        """Panel numbers first, then the axes without panels, then the positions within panels."""
        extents = {name: as_expr(e) for name, e in axes}
        if unknown := sorted(set(sizes) - set(extents)):
            raise ValueError(f"the tile has no axis `{unknown[0]}`")
        outer = [LayoutDigit(a, sizes[a], ceildiv(e, sizes[a])) for a, e in extents.items() if a in sizes]
        whole = [LayoutDigit(a, 1, e) for a, e in extents.items() if a not in sizes]
        inner = [LayoutDigit(a, 1, as_expr(sizes[a])) for a in extents if sizes.get(a, 1) > 1]  # a panel of one has no inside
        return Layout(tuple(extents.items()), (*outer, *whole, *inner))

    @staticmethod
    def written(axes: Axes, digits: Sequence[Expr]) -> Layout:
        """From digits as an author writes them, outermost first: `k/8, m, k % 8` (variables named as the axes)."""
        extents = {name: as_expr(e) for name, e in axes}
        found = []
        for e in digits:
            digit = read_digit(e)
            if digit is None:
                raise ValueError(f"`{e}` is no digit of an axis; digits look like k, k/8, k % 8, k/8 % 4")
            axis, div, extent = digit[0].name, digit[1], digit[2]
            if axis not in extents:
                raise ValueError(f"the tile has no axis `{axis}`")
            found.append(LayoutDigit(axis, div, ceildiv(extents[axis], div) if extent is None else as_expr(extent)))
        layout = Layout(tuple(extents.items()), tuple(found))
        layout._check()
        return layout

    def padded(self, elements: int) -> Layout:
        """With `elements` more from one row (position of the second-innermost digit) to the next."""
        return replace(self, pad=elements)

    def swizzled(
        self, element_bytes: int, bits: int | None = None, vector: int | None = None, rows: int | None = None
    ) -> Layout:
        """With chunks of each row permuted by XOR, so that a column of 16-byte chunks meets all banks.

        Automatic: chunks of 16 bytes; 8 of them (128 bytes, all banks) trade places, or as many as a power of two divides the
        row into. `bits` (log2 of that number), `vector` (elements of a chunk) and `rows` (rows of one phase) override. Without
        a row of two chunks this is the layout itself.
        """
        inner = self.digits[-1].extent.constant if len(self.digits) > 1 else None
        if vector is not None and (vector < 1 or inner is None or inner % vector):
            row = self.digits[-1].extent if self.digits else 1
            raise ValueError(f"a row of {row} elements does not fall into chunks of {vector}")
        vector = vector or max(1, _CHUNK_BYTES // element_bytes)
        if inner is None or inner % vector:
            return self
        chunks, line = inner // vector, max(1, _LINE_BYTES // (vector * element_bytes))
        count = gcd(chunks, line & -line) if bits is None else 1 << bits
        if chunks % count:
            raise ValueError(f"a swizzle of {bits} bits permutes {count} chunks, but a row has {chunks}")
        rows = rows or max(1, line // count)
        return replace(self, swizzle=Swizzle(vector, count, rows)) if count > 1 else self

    # ------------------------------------------------------------ questions

    @property
    def rows(self) -> int | None:
        """Rows that a swizzle tells apart: the extent of the innermost axis of several elements that a row is no part of."""
        return next((d.extent.constant for d in reversed(self.digits[:-1]) if d.extent.constant != 1), 1)

    @property
    def shape(self) -> tuple[Expr, ...]:
        """Extents of the physical coordinates."""
        return tuple(d.extent for d in self.digits)

    @property
    def strides(self) -> tuple[Expr, ...]:
        """Elements from one value of a physical coordinate to the next."""
        out: list[Expr] = []
        step = ONE
        for place, digit in enumerate(reversed(self.digits)):
            out.append(step)
            step = step * digit.extent + (self.pad if place == 0 else 0)
        return tuple(reversed(out))

    @property
    def size(self) -> Expr:
        """Elements to allocate."""
        return self.digits[0].extent * self.strides[0] if self.digits else ONE

    def coords(self, values: Mapping[str, Index]) -> tuple[Expr, ...]:
        """The physical coordinates of the element at logical index `values` (inside the extents)."""
        top = {d.axis: max(e.div for e in self.digits if e.axis == d.axis) for d in self.digits}
        out = []
        for d in self.digits:
            value = as_expr(values[d.axis]) // d.div
            out.append(value if d.div == top[d.axis] else value % d.extent)
        return self._swizzle(out)

    def address(self, values: Mapping[str, Index]) -> Expr:
        """The linear address, in elements."""
        return sum((c * s for c, s in zip(self.coords(values), self.strides, strict=True)), ZERO)

    def inverse(self, coords: Sequence[Index]) -> dict[str, Expr]:
        """The logical index stored at physical coordinates: `inverse(coords(v)) == v`."""
        out = {name: ZERO for name, _ in self.axes}
        for digit, c in zip(self.digits, self._swizzle([as_expr(c) for c in coords]), strict=True):
            out[digit.axis] = out[digit.axis] + c * digit.div
        return out

    def _swizzle(self, coords: list[Expr]) -> tuple[Expr, ...]:
        if self.swizzle is not None:
            # An axis of one element tells no rows apart.
            outer = zip(reversed(self.digits[:-1]), coords[-2::-1], strict=True)
            row = next((c for d, c in outer if d.extent.constant != 1), coords[-2])
            coords[-1] = self.swizzle.apply(coords[-1], row)
        return tuple(coords)

    def _check(self) -> None:
        """Each axis falls into digits without gap or overlap."""
        for name, extent in self.axes:
            mine = sorted((d for d in self.digits if d.axis == name), key=lambda d: d.div)
            reach = 1
            for d in mine:
                size = d.extent.constant
                if d.div != reach or (size is None and d is not mine[-1]):
                    raise ValueError(f"the digits of {name} leave a gap or overlap at {name}/{d.div}")
                reach *= size or 1
            whole = prod(d.extent.constant or 0 for d in mine)
            if not mine or (extent.constant is not None and whole and whole < extent.constant):
                raise ValueError(f"the digits of {name} do not reach its extent {extent}")
