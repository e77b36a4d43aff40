"""The language: syntax tree, types, ops, devices, index expressions, and the meaning of all of them."""
