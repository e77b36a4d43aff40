"""Pipelining: copies are issued ahead of their use, and waited for. `stage_copies` starts here."""
