"""Algebra of reductions: how a reduction that reads the running value of another one is corrected when that value changes."""
