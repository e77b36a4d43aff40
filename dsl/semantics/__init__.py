"""What an op means: NumPy evaluation, numerics, error bounds."""
