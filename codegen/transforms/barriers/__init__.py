"""Barriers: the points at which units must wait for each other. `place_barriers` starts here."""
