"""Pipelining: copies are issued ahead of their use, with waits before it. `pipeline_copies` starts here."""
