"""Kernels on this CPU: its features, a C++ compiler, building, loading and calling."""
