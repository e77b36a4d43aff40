"""Mistakes in the text of a tile program."""

from __future__ import annotations

from .text import SyntaxFault


class TileText(SyntaxFault):
    """The text is no tile program.

    Tile programs are written by `andiron emit --stage program` and read back by `codegen.ir.parser`. At the caret stands
    what no program says, or the name of a variable, a buffer, an instruction or a type that is not there: compare with what is
    printed.
    """

    id = "tile-text"
