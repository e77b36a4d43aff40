"""Lowering: the recursion over (focus, lines) and its rooms."""
