"""Lowering of copies: which unit copies what, how wide, and how many buffers there are."""
