"""A session of the interactive shell for tests: cells go in, and what it says comes back."""

from __future__ import annotations

from andiron.tools.repl.session import Session


class Talk:
    """A session, and what it last said."""

    def __init__(self, *typed: str, **options) -> None:
        self.said: list[str] = []
        self.session = Session(self.said.append, **options)
        for cell in typed:
            self(cell)

    def __call__(self, cell: str) -> str:
        self.said.clear()
        self.session.feed(cell)
        return "\n".join(self.said)
