"""Convolutions on CPUs as products of filters and windows."""
