"""The language server: `main` is the command, `server` implements the protocol, `analysis` answers queries about a text."""
