"""Transforms of tile programs: each file or folder is one pass."""
