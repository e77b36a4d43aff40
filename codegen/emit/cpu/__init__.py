"""Emission for CPUs: cores as threads, lanes as vectors."""
