"""Lowering: from a schedule tree to a tile program, by a recursion over the focus and the nodes of the tree."""
