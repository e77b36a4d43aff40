"""The meaning of ops: NumPy evaluation, numerics, error bounds."""
