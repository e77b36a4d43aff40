"""Schedules before lowering: names, roles, parameters, strategies, the next candidate after a failure; and back to text."""
