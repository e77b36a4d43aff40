"""Programs for users: the command line, the shell, notebooks, the language server, pictures."""
