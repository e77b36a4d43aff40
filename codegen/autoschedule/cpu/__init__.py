"""Choosing schedules for CPUs: matrix products, loop nests, and the closed forms of their cost."""
