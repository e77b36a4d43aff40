"""A buffer in a banked memory: its elements at their places in the tensor, each coloured by its bank, with the unit that stored
it; the elements that one subgroup reads at once have a frame.
"""

from __future__ import annotations

from collections.abc import Iterator

from .bank_accesses import StagedBuffer
from .svg import INK, picture, tag, text

WIDE, HIGH, LEFT, TOP = 26.0, 22.0, 30.0, 66.0
MOST_ROWS, MOST_COLUMNS = 16, 32

Cell = tuple[int, int, int]  # row, first column, columns: elements of one row in one word of a bank


def banks(s: StagedBuffer, rows: int = MOST_ROWS, columns: int = MOST_COLUMNS) -> str | None:
    """At most so many rows, and columns of words. None where the elements cannot be laid out in rows."""
    cells, all_rows, all_columns = _cells(s)
    if not cells:
        return None
    shown = {c: held for c, held in cells.items() if c[0] < rows}
    starts = sorted({c[1] for c in shown})[:columns]
    place = {start: n for n, start in enumerate(starts)}
    shown = {c: held for c, held in shown.items() if c[1] in place}
    read = {a + n for r in s.reads[:1] for a in r.addresses for n in range(r.width)}
    inside = list(_words(s, all_rows, all_columns, len({c[0] for c in shown}), sum({c[1]: c[2] for c in shown}.values())))
    for start, n in place.items():
        inside.append(text(LEFT + n * WIDE + WIDE / 2, TOP - 4, str(start), text_anchor="middle", font_size=8, opacity=0.6))
    for row in sorted({c[0] for c in shown}):
        inside.append(text(LEFT - 5, TOP + row * HIGH + 14, str(row), text_anchor="end", font_size=8, opacity=0.6))
    later: list[str] = []
    for (row, column, count), (address, unit) in shown.items():
        x, y = LEFT + place[column] * WIDE, TOP + row * HIGH
        inside += _cell(s, x, y, (row, column, count), address, unit)
        if address in read:  # drawn last, over the lines between cells
            later.append(
                tag("rect", x=x + 1, y=y + 1, width=WIDE - 2, height=HIGH - 2, fill="none", stroke=INK, stroke_width=1.4)
            )
    width = max(LEFT + len(starts) * WIDE + 8, 560.0)
    height = TOP + (1 + max(c[0] for c in shown)) * HIGH + 10
    return picture(width, height, *inside, *later, title=f"Banks of {s.buffer.name}")


def _cells(s: StagedBuffer) -> tuple[dict[Cell, tuple[int, int]], int, int]:
    """(row, first column, columns) -> (address, unit), and how many rows and columns there are.

    Of a source with more than two axes, the last two along which anything varies; of those before, the first.
    """
    ranks = {len(at) for at, _ in s.held.values()}
    if len(ranks) != 1:
        return {}, 0, 0
    least = [min(axis) for axis in zip(*(at for at, _ in s.held.values()), strict=True)]
    most = [max(axis) for axis in zip(*(at for at, _ in s.held.values()), strict=True)]
    varying = [d for d in range(len(least)) if most[d] > least[d]][-2:]
    if not varying:
        return {}, 0, 0
    size, word = s.buffer.dtype.bytes, s.banks[1]
    found: dict[Cell, tuple[int, int]] = {}
    begun: dict[tuple[int, int], Cell] = {}  # (row, word) -> its cell
    for address, (at, unit) in sorted(s.held.items(), key=lambda item: item[1][0]):
        if any(at[d] != least[d] for d in range(len(at)) if d not in varying):
            continue
        row, column = (0, *(at[d] - least[d] for d in varying))[-2:]
        key = row, address * size // word
        before = begun.get(key)
        if before is not None and before[1] + before[2] == column:
            held = found.pop(before)
            begun[key] = before[0], before[1], before[2] + 1
            found[begun[key]] = held
        else:
            begun[key] = row, column, 1
            found[begun[key]] = address, unit
    extents = [most[d] - least[d] + 1 for d in varying]
    rows, columns = (1, *extents)[-2:]
    return found, rows, columns


def _words(s: StagedBuffer, rows: int, columns: int, down: int, across: int) -> Iterator[str]:
    """What the picture is of: `down` of so many rows, `across` of so many columns."""
    b, (count, word) = s.buffer, s.banks
    turns = "" if s.slot is None else f", the first of {b.shape[0]}"
    of = f" of {s.source}" if s.source else ""
    parts = [f"{n} of {most} {what}" for n, most, what in ((down, rows, "rows"), (across, columns, "columns")) if n < most]
    part = f"; {' and '.join(parts)} shown" if parts else ""
    yield text(0, 14, f"{b.name}: {rows} x {columns} {b.dtype.name}{of} in {b.memory}{turns}{part}", font_weight="bold")
    lanes = f"{s.lanes} lanes" if s.lanes > 1 else "one unit"
    said = f"{count} banks of {word} bytes: the number is the bank, below it the unit that writes there."
    yield text(0, 30, said, opacity=0.75)
    for r in s.reads[:1]:
        ways = "no conflict" if r.ways <= 1 else f"{r.ways:.3g} ways"
        yield text(0, 44, f"Framed: what {lanes} read at once ({r.by}), {ways}.", opacity=0.75)


def _cell(s: StagedBuffer, x: float, y: float, cell: Cell, address: int, unit: int) -> Iterator[str]:
    row, column, count = cell
    bank, banks_ = s.bank(address), s.banks[0]
    which = f"{column}" if count == 1 else f"{column} to {column + count - 1}"
    who = f"lane {unit % s.lanes} of group {unit // s.lanes}" if s.lanes > 1 else f"unit {unit}"
    said = tag("title", f"row {row}, column {which}: byte {address * s.buffer.dtype.bytes}, bank {bank}, written by {who}")
    fill = f"hsl({360 * bank / banks_:.0f} 70% 62%)"
    yield tag("rect", said, x=x, y=y, width=WIDE, height=HIGH, fill=fill, fill_opacity=0.7, stroke=INK, stroke_opacity=0.2)
    yield text(x + WIDE / 2, y + 11, str(bank), text_anchor="middle", font_size=10)
    yield text(x + WIDE / 2, y + 19, str(unit), text_anchor="middle", font_size=7, opacity=0.7)
