"""Programs that people start: the command line, the shell, notebooks, the language server, pictures."""
