"""Mistakes of syntax: what cannot be read at all."""

from __future__ import annotations

from .base import Label, UserError


class SyntaxFault(UserError):
    """The text does not follow the grammar."""

    id = "syntax"


class NumberTooLarge(SyntaxFault):
    """A number that 64 bits cannot hold."""

    id = "number-too-large"


class BadEscape(SyntaxFault):
    id = "bad-escape"


class ImportPath(SyntaxFault):
    id = "import-path"


class TensorDefault(SyntaxFault):
    id = "tensor-default"


class DefinedSize(SyntaxFault):
    id = "defined-size"


class TargetSubscript(SyntaxFault):
    id = "target-subscript"


class ReductionBody(SyntaxFault):
    id = "reduction-body"


class ReductionIndex(SyntaxFault):
    id = "reduction-index"


class MissingOperator(SyntaxFault):
    id = "missing-operator"


class EmptyBlock(SyntaxFault):
    id = "empty-block"


class InstructionOp(SyntaxFault):
    id = "instruction-op"


class DuplicateModifier(SyntaxFault):
    id = "duplicate-modifier"


class MisplacedView(SyntaxFault):
    id = "misplaced-view"


class PositionalAfterNamed(SyntaxFault):
    id = "positional-after-named"


class NotYet(SyntaxFault):
    id = "not-yet"


__all__ = ["Label"]
