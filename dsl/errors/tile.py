"""Mistakes in the text of a tile program."""

from __future__ import annotations

from .text import SyntaxFault


class TileText(SyntaxFault):
    """The text is no tile program.

    `andiron emit --stage program` writes tile programs, and `codegen.ir.parser` reads them back. The caret points at a word
    that no program has, or at an undeclared variable, buffer, instruction or type. Compare with printed programs.
    """

    id = "tile-text"
