"""Choosing schedules for devices of blocks and threads: contractions, elementwise and row reductions, and their cost."""
