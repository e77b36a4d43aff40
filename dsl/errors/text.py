"""Mistakes of the text itself: characters, numbers, strings, brackets, indentation."""

from __future__ import annotations

from .base import UserError


class SyntaxFault(UserError):
    """The text cannot be read as declarations, statements and lines.

    The other mistakes of this page are kinds of it.
    """

    id = "syntax"


class NotUtf8(SyntaxFault):
    """The file is not UTF-8.

    A `.sched` file is text in UTF-8. Save it so, or remove characters of an older encoding.
    """

    id = "not-utf8"


class NotText(SyntaxFault):
    """The file is no text: it has a byte 0.

    A program, an archive or an image was named instead of a `.sched` file, or a text was saved as UTF-16.
    """

    id = "not-text"


class NotSched(SyntaxFault):
    """The text is not a `.sched` file: none of its lines begins a declaration, and most cannot be read.

    A file is made of `op`, `device`, `schedule`, `strategy` and `import`, each at the beginning of a line.
    """

    id = "not-sched"


class TextTooLarge(SyntaxFault):
    """The text is far larger than a program can be.

    It may be another file, or the output of a faulty generator. Split a long text into files that import each other.
    """

    id = "text-too-large"


class LineTooLong(SyntaxFault):
    """A line is far longer than anyone can read. Break it inside brackets."""

    id = "line-too-long"


class StrangeCharacter(SyntaxFault):
    """A character that the language does not use.

    Names are made of A-Z, a-z, 0-9 and _. Text that is copied from a page or a paper often has similar characters of other
    alphabets. Type the plain ones.
    """

    id = "strange-character"


class TabIndent(SyntaxFault):
    """A line is indented with tabs.

    Indentation defines blocks, and a tab has no agreed width. Use spaces, four for each level.
    """

    id = "tab-indent"


class BadIndent(SyntaxFault):
    """A line stands between two levels of indentation.

    A line that closes a block stands exactly under a line before that block.
    """

    id = "bad-indent"


class UnexpectedIndent(SyntaxFault):
    """A line stands deeper than the one above, which opens no block.

    Only a line that ends with `:` opens a block.
    """

    id = "unexpected-indent"


class NestedTooDeep(SyntaxFault):
    """Brackets, blocks or operators are nested too deeply.

    Give a part of the expression a name of its own. An op may have any number of statements.
    """

    id = "nested-too-deep"


class UnclosedBracket(SyntaxFault):
    """A bracket is never closed. Newlines inside brackets do not count, so everything below became part of it.

    Close it where the list ends.
    """

    id = "unclosed-bracket"


class MismatchedBracket(SyntaxFault):
    """A closing bracket of another kind than the opening one, or one that closes nothing.

    Each `(` is closed by `)`, each `[` by `]`, the innermost first.
    """

    id = "mismatched-bracket"


class UnclosedString(SyntaxFault):
    """A string does not end. `"..."` ends on its line; a longer text stands in triple quotes."""

    id = "unclosed-string"


class BadEscape(SyntaxFault):
    """An unknown escape in a string: there are `\\n`, `\\t`, `\\"` and `\\\\`. A text in triple quotes is taken as it is."""

    id = "bad-escape"


class BadNumber(SyntaxFault):
    """A malformed number: `12ab`, `1.`, `.5`, `0x10`.

    Numbers are decimal, with digits on both sides of the point. A product needs its `*`.
    """

    id = "bad-number"


class NumberTooLarge(SyntaxFault):
    """A number that 64 bits cannot hold.

    Integers are below 2^63.
    """

    id = "number-too-large"


class ReservedWord(SyntaxFault):
    """A reserved word where a name must stand. Reserved are: and or not else auto inf nan true false."""

    id = "reserved-word"


class TileText(SyntaxFault):
    """The text is no tile program.

    `andiron emit --stage program` writes tile programs, and `codegen.ir.parser` reads them back. The caret points at a word
    that no program has, or at an undeclared variable, buffer, instruction or type. Compare with printed programs.
    """

    id = "tile-text"
