"""The interactive shell: `main` is the command; a `session` takes cells and answers; `prompt` is a terminal's side of it."""
