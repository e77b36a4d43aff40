"""The interpreter of tile programs: their meaning in NumPy."""

from .machine import interpret

__all__ = ["interpret"]
