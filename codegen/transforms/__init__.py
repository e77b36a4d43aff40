"""Transforms of tile programs: a pass in each file or folder, and `multiversion`, which applies passes to each version."""
