"""Reductions that share a loop: those that read each other's running values (`online`), and siblings."""
