"""The tile program: its grammar, visitors, printer and parser."""
