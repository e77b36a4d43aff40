"""Findings of `andiron check`, which editors show too: mistakes, warnings, spills, results of the exactly-once checker."""
