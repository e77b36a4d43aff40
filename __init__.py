"""Andiron: a hardware-agnostic scheduling language for tensor kernels."""

__version__ = "0.1.0"
