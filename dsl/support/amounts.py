"""Bytes, seconds and counts as text, for people."""

from __future__ import annotations

_BYTES = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
_SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))


def bytes_text(n: float, digits: int = 4) -> str:
    """`96 KiB`, `1.5 MiB`, `300 B`."""
    for size, unit in _BYTES:
        if n >= size:
            return f"{n / size:.{digits}g} {unit}"
    return f"{n:.0f} B"


def counted(n: int, what: str) -> str:
    """`1 row`, `2,000 rows`."""
    return f"{n:,} {what if n == 1 else what + 's'}"


def seconds_text(seconds: float) -> str:
    """`1.25 s`, `13.4 us`, `800 ns`."""
    for size, unit in _SECONDS:
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
