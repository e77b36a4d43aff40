"""Resolving devices and instructions."""
