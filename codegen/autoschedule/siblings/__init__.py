"""Siblings: reductions of a launch that share their loop and an operand, such as the two products of a gated layer."""
