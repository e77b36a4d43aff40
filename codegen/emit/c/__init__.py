"""The C language: expressions with types, names, conditions, scopes of text, and rewrites of lines."""
