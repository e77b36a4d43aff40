"""Lowering of stores: of elements, by instructions, and of accumulators when they close."""
