"""Kernels: compilers, the cache, arrays, calling, measuring and tuning."""
