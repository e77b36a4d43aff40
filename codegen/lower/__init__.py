"""Lowering: from the lines of a schedule to a tile program, by a recursion over the focus and the remaining lines."""
