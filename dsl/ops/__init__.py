"""Resolving ops: names, ranges, types, split reductions."""
