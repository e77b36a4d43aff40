"""Lowering of copies: their distribution over units, the width of their accesses, and their number of buffers."""
