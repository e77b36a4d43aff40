"""Pipelining: copies made ahead and waited for. `stage_copies` starts here."""
