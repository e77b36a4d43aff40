"""Choosing schedules: completion of what an author left open, the space of candidates, and their ranking."""
