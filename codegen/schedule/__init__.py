"""Schedules before lowering: names, roles, parameters, strategies, schedule trees, the next candidate; and back to text."""
