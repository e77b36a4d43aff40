"""Schedules before lowering: names, roles, parameters, strategies, lines as trees, the next candidate; and back to text."""
