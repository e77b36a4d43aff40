"""Findings of `andiron check`, which editors show too: errors, warnings, spills, results of the exactly-once checker."""
