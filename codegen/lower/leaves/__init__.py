"""Lowering of leaves: the statement or the instruction that is left when a schedule ends."""
