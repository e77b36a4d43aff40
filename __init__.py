"""Andiron: a hardware-agnostic scheduling language for tensor kernels."""
