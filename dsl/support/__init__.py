"""Helpers that Python itself lacks, or has in another form. Nothing here knows the language."""
