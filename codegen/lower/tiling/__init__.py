"""Lowering of `tile`: loops, and units."""
