"""Cliffs of performance: what a tile program does that is right and slow, found without running it."""
