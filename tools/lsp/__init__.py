"""The language server: `main` is the command, `server` speaks the protocol, `analysis` knows the text."""
