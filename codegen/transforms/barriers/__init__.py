"""Barriers: the places where units must wait for each other. `place_barriers` starts here."""
