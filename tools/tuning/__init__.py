"""Tuning of many tasks for the command line: progress, a summary, a page."""
