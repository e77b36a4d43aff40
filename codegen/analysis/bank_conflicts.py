"""Cycles that the banks of a memory take: a bank serves one word a cycle, and lanes that address its other words wait."""

from __future__ import annotations

import numpy as np


def access_cycles(addresses: np.ndarray, width: int, banks: tuple[int, int]) -> int:
    """Cycles to serve one access of `width` bytes at each lane's address: lanes are served in groups that fill the banks
    once."""
    count, word = banks
    turn = max(1, count * word // max(width, word))
    total = 0
    for start in range(0, len(addresses), turn):
        part = addresses[start : start + turn]
        words = np.unique((part[:, None] + np.arange(0, max(width, 1), word)) // word)
        total += int(np.bincount(words % count).max())
    return total
