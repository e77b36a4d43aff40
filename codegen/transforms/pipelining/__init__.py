"""Pipelining: copies are issued ahead of their use, with waits before it. `stage_copies` starts here."""
