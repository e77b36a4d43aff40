"""Emission: a tile program as source code. `printers` starts here; what all dialects share lies in this folder."""
