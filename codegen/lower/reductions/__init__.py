"""Lowering of reductions: elements, partial results of units, and launches that combine them."""
