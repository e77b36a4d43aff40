"""The lane that is being printed, where lanes are printed one at a time and all is scalar."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from .c.c_tree import Assign, Block, Declaration, Statement


@dataclass
class LaneLoop:
    """A loop over lanes; with `fixed` no loop, but this one lane.

    A vector that is indexed by a variable must live in memory, for gcc through its whole life; so lanes are read and
    written in copies, and the vectors proper stay in registers.

    unset    vectors without a value before the loop, which every lane writes
    copies   of vectors: name and type          written   vectors whose copies are written
    """

    fixed: int | None = None
    unset: set[str] = field(default_factory=set)
    copies: dict[str, tuple[str, str]] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)

    def element(self, vector: str, kind: str, lane: str, write: bool) -> str:
        """The lane's element of a vector variable."""
        if self.fixed is not None:
            return f"{vector}[{lane}]"
        copy, _ = self.copies.setdefault(vector, (f"{vector}_l", kind))
        if write:
            self.written.add(vector)
        return f"{copy}[{lane}]"

    def declare(self, vectors: Collection[str]) -> None:
        """Registers whose life is inside the loop: the copies are all there is of them."""
        self.unset.update(vectors)
        self.written.difference_update(vectors)

    def with_copies(self, body: list[Statement]) -> list[Statement]:
        """The statements of the loop between those that make copies and those that write them back."""
        if not self.copies:
            return body
        before = [Declaration(kind, copy, None if v in self.unset else v) for v, (copy, kind) in self.copies.items()]
        after = [Assign(v, copy) for v, (copy, _) in self.copies.items() if v in self.written]
        return [Block([*before, *body, *after])]
