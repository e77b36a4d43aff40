"""Passes over tile programs: each file is one, with one exported function."""
