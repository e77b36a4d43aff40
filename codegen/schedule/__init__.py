"""Schedules before lowering: names, roles, parameters, completion; and back to text."""
