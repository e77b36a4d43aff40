"""The line of a text that a machine address belongs to: a reader of the debug information of one shared library.

Kernels are built with `FLAGS`: ELF and DWARF 4, with only lines and inlined calls. Other tools read it too (`addr2line -i`),
but they are not everywhere, and one call of them for a fault costs more than reading everything.

Formats: "DWARF Debugging Information Format", version 4, sections 6.2 (lines), 7.5 (entries), 2.17.3 (ranges).
"""

from __future__ import annotations

import struct
import zlib
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

FLAGS = ("-gdwarf-4", "-gstrict-dwarf", "-g1")  # what a compiler is to be told; -g1 last, for -gdwarf-4 alone means -g2

_COMPRESSED = 0x800  # SHF_COMPRESSED
_SUBPROGRAM, _INLINED = 0x2E, 0x1D
_NAME, _STMT_LIST, _LOW, _HIGH, _RANGES, _CALL_FILE, _CALL_LINE = 0x03, 0x10, 0x11, 0x12, 0x55, 0x58, 0x59
_CODE_MAX = 1 << 62


@dataclass(frozen=True)
class SourceLine:
    """A line, from 1 on, of a file, by its name without folders."""

    file: str
    line: int


@dataclass(frozen=True)
class _Inlined:
    spans: tuple[tuple[int, int], ...]
    depth: int
    call: SourceLine


class LineTable:
    """The places of a library's code. `places(a)`: the line that the code at offset `a` was made from, then the line of the
    call that this was inlined at, and so on outwards. Empty when nothing is known.
    """

    def __init__(self, path: Path) -> None:
        sections = _sections(path.read_bytes())
        self._starts: list[int] = []
        self._rows: list[SourceLine | None] = []  # None: no code of ours from here on
        self._inlined: list[_Inlined] = []
        if ".debug_info" in sections and ".debug_line" in sections:
            rows: list[tuple[int, int, SourceLine | None]] = []
            for unit in _units(sections):
                table = _LineTable(sections[".debug_line"], unit.lines)
                rows += table.rows
                self._inlined += [
                    _Inlined(spans, depth, SourceLine(table.files.get(file, ""), line))
                    for spans, depth, file, line in unit.inlined
                ]
            rows.sort(key=lambda r: r[:2])
            self._starts = [r[0] for r in rows]
            self._rows = [r[2] for r in rows]

    def places(self, address: int) -> tuple[SourceLine, ...]:
        at = bisect_right(self._starts, address) - 1
        row = self._rows[at] if at >= 0 else None
        if row is None:
            return ()
        around = [x for x in self._inlined if any(lo <= address < hi for lo, hi in x.spans)]
        around.sort(key=lambda x: -x.depth)
        return (row, *(x.call for x in around))


@lru_cache(maxsize=32)
def line_table(path: Path) -> LineTable:
    return LineTable(path)


# ---------------------------------------------------------------- ELF


def _sections(data: bytes) -> dict[str, bytes]:
    """By name; nothing for what is not a 64-bit little-endian ELF file."""
    if data[:6] != b"\x7fELF\x02\x01":
        return {}
    table, size, count, names = (
        struct.unpack_from("<Q", data, 40)[0],
        *struct.unpack_from("<HHH", data, 58),
    )
    heads = [struct.unpack_from("<IIQQQQIIQQ", data, table + i * size) for i in range(count)]
    strings = data[heads[names][4] :]
    found = {}
    for name, kind, flags, _, offset, length, *_ in heads:
        label = strings[name : strings.index(b"\0", name)].decode()
        if label.startswith(".debug_") and kind != 8:
            body = data[offset : offset + length]
            found[label] = zlib.decompress(body[24:]) if flags & _COMPRESSED else body
    return found


class _Reader:
    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data, self.at = data, at

    def number(self, size: int, signed: bool = False) -> int:
        value = int.from_bytes(self.data[self.at : self.at + size], "little", signed=signed)
        self.at += size
        return value

    def uleb(self) -> int:
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def sleb(self) -> int:
        start = self.at
        value = self.uleb()
        bits = 7 * (self.at - start)
        return value - (1 << bits) if value >> (bits - 1) & 1 else value

    def string(self) -> str:
        end = self.data.index(b"\0", self.at)
        text = self.data[self.at : end].decode("utf-8", "replace")
        self.at = end + 1
        return text


# ---------------------------------------------------------------- lines (6.2)


class _LineTable:
    """`rows`: (address, order, place), the end of a sequence as None; `files` by number."""

    def __init__(self, data: bytes, at: int) -> None:
        r = _Reader(data, at)
        end = r.number(4) + r.at
        version = r.number(2)
        self.rows: list[tuple[int, int, SourceLine | None]] = []
        self.files: dict[int, str] = {}
        if version not in (2, 3, 4):
            return
        program = r.number(4) + r.at
        least = r.number(1)
        if version >= 4:
            r.number(1)
        r.number(1)
        base, span, opcodes = r.number(1, signed=True), r.number(1), r.number(1)
        lengths = [r.number(1) for _ in range(opcodes - 1)]
        while r.string():
            pass
        while name := r.string():
            self.files[len(self.files) + 1] = name.replace("\\", "/").rsplit("/", 1)[-1]
            for _ in range(3):
                r.uleb()
        r.at = program
        self._run(r, end, least, base, span, opcodes, lengths)

    def _run(self, r: _Reader, end: int, least: int, base: int, span: int, opcodes: int, lengths: list[int]) -> None:
        address, file, line, known = 0, 1, 1, 0

        def row(ended: bool = False) -> None:
            # A line of 0 is code that several lines share: the one before stands for it.
            nonlocal known
            known = line or known
            place = SourceLine(self.files.get(file, ""), known)
            self.rows.append((address, len(self.rows) + 1 if not ended else -1, None if ended else place))

        while r.at < end:
            op = r.number(1)
            if op >= opcodes:
                address += (op - opcodes) // span * least
                line += base + (op - opcodes) % span
                row()
            elif op == 0:
                after = r.uleb() + r.at
                sub = r.number(1)
                if sub == 1:
                    row(ended=True)
                    address, file, line, known = 0, 1, 1, 0
                elif sub == 2:
                    address = r.number(8)
                r.at = after
            elif op == 1:
                row()
            elif op == 2:
                address += r.uleb() * least
            elif op == 3:
                line += r.sleb()
            elif op == 4:
                file = r.uleb()
            elif op == 8:
                address += (255 - opcodes) // span * least
            elif op == 9:
                address += r.number(2)
            else:
                for _ in range(lengths[op - 1]):
                    r.uleb()


# ---------------------------------------------------------------- entries (7.5)


@dataclass(frozen=True)
class _Unit:
    lines: int
    inlined: list[tuple[tuple[tuple[int, int], ...], int, int, int]]  # spans, depth, file, line of the call


def _units(sections: dict[str, bytes]) -> Iterator[_Unit]:
    data = sections[".debug_info"]
    at = 0
    while at < len(data):
        r = _Reader(data, at)
        end = r.number(4) + r.at
        version, abbrev, size = r.number(2), r.number(4), r.number(1)
        if version == 4 and size == 8:
            yield _unit(sections, r, at, end, _abbrevs(sections[".debug_abbrev"], abbrev))
        at = end


def _abbrevs(data: bytes, at: int) -> dict[int, tuple[int, bool, list[tuple[int, int]]]]:
    r, found = _Reader(data, at), {}
    while code := r.uleb():
        tag, children = r.uleb(), bool(r.number(1))
        fields = []
        while True:
            pair = (r.uleb(), r.uleb())
            if pair == (0, 0):
                break
            fields.append(pair)
        found[code] = (tag, children, fields)
    return found


def _unit(sections: dict[str, bytes], r: _Reader, start: int, end: int, abbrevs: dict) -> _Unit:
    low = lines = depth = 0
    inlined = []
    first = True
    while r.at < end:
        code = r.uleb()
        if code == 0:
            depth -= 1
            continue
        tag, children, fields = abbrevs[code]
        values = {name: _value(r, form) for name, form in fields}
        if first:
            low, lines, first = values.get(_LOW, 0), values.get(_STMT_LIST, 0), False
        elif tag == _INLINED and _CALL_LINE in values:
            spans = _spans(sections, values, low, dict(fields))
            inlined.append((spans, depth, values.get(_CALL_FILE, 0), values[_CALL_LINE]))
        depth += children
    return _Unit(lines, inlined)


def _spans(sections: dict[str, bytes], values: dict, low: int, forms: dict) -> tuple[tuple[int, int], ...]:
    if _RANGES in values:
        r, found, base = _Reader(sections.get(".debug_ranges", b""), values[_RANGES]), [], low
        while r.at < len(r.data):
            a, b = r.number(8), r.number(8)
            if a == b == 0:
                break
            if a == (1 << 64) - 1:
                base = b
            else:
                found.append((base + a, base + b))
        return tuple(found)
    start, high = values.get(_LOW, 0), values.get(_HIGH, 0)
    return ((start, high if forms.get(_HIGH) == 0x01 else start + high),)


_SIZES = {0x01: 8, 0x05: 2, 0x06: 4, 0x07: 8, 0x0B: 1, 0x0C: 1, 0x0E: 4, 0x11: 1, 0x12: 2, 0x13: 4, 0x14: 8, 0x17: 4}
_SIZES |= {0x10: 4, 0x19: 0, 0x20: 8}


def _value(r: _Reader, form: int) -> int:
    """A field's value where it is a number; strings and blocks are passed over."""
    if form in _SIZES:
        return r.number(_SIZES[form])
    if form in (0x0F, 0x15):
        return r.uleb()
    if form == 0x0D:
        return r.sleb()
    if form == 0x08:
        r.string()
    elif form in (0x09, 0x18):
        length = r.uleb()
        r.at += length
    elif form in (0x0A, 0x03, 0x04):
        length = r.number({0x0A: 1, 0x03: 2, 0x04: 4}[form])
        r.at += length
    else:
        raise ValueError(f"debug information of form {form:#x}")
    return 0
