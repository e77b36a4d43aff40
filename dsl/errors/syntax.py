"""Syntax errors: a word or a sign is missing, or stands where the grammar has no place for it."""

from __future__ import annotations

from .missing_tokens import (
    Malformed,
    MissingArrow,
    MissingAs,
    MissingColon,
    MissingComma,
    MissingEquals,
    MissingFor,
    MissingIn,
    MissingName,
    MissingOperator,
    MissingValue,
    MissingWord,
    in_instr,
    in_op,
)
from .text import SyntaxFault

__all__ = [
    "ChainedComparison",
    "DefinedSize",
    "DuplicateModifier",
    "EmptyBlock",
    "ImportPath",
    "InstructionLine",
    "InstructionOp",
    "IntResult",
    "LanguageTwice",
    "LanguageVersion",
    "LooseElse",
    "Malformed",
    "MisplacedLanguage",
    "MisplacedRange",
    "MisplacedView",
    "MissingArrow",
    "MissingAs",
    "MissingColon",
    "MissingComma",
    "MissingEquals",
    "MissingFor",
    "MissingIn",
    "MissingName",
    "MissingOperator",
    "MissingValue",
    "MissingWord",
    "NewerLanguage",
    "NotYet",
    "OneLineEach",
    "PositionalAfterNamed",
    "ReductionBody",
    "ReductionIndex",
    "TargetSubscript",
    "TensorDefault",
    "UnknownDeclaration",
    "UnknownLine",
    "UnknownModifier",
]


class ChainedComparison(Malformed):
    """`a < b < c`: a comparison compares two values.

    Write `a < b and b < c`.
    """

    id = "chained-comparison"
    message = "a comparison compares two values"
    way = "write `a < b and b < c`; in a `where` line, `a < b, b < c`"
    examples = (
        "op f(A: f32[M]) -> (Y: f32[M]) where 0 < M < 3:\n",
        *in_op(
            "Y[m] = where(0 < m < 3, 1, 2)", "Y[m] = 0 < m < 3",
        ),
    )  # fmt: skip


class EmptyBlock(Malformed):
    """A line opens a block, but the block is empty.

    Write its lines one level deeper, or remove the colon if the block is optional. A block may be just `auto`.
    """

    id = "empty-block"
    message = "the block under this line is empty"
    way = "indent its lines below it; in a schedule, `auto` leaves them to the compiler"
    optional = "indent its lines below it, or leave the `:` out; `auto` leaves them to the compiler"


class UnknownDeclaration(Malformed):
    """A line at the left edge that begins no declaration: `import`, `op`, `device`, `schedule`, `strategy`.

    Correct the word, or indent the line if it belongs to the block above.
    """

    id = "unknown-declaration"
    message = "{found} begins no declaration"
    way = "a file has `import`, `op`, `device`, `schedule` and `strategy`"


class UnknownLine(Malformed):
    """A line of a schedule, or of a device, with an unknown first word.

    The lines of a schedule are `tile`, `move`, `keep`, `inline`, `fuse`, `compute`, `apply`, `param` and `auto`; those of a
    device `level`, `memory`, `instr` and figures.
    """

    id = "unknown-line"
    message = "{found} begins no line of a schedule"
    way = "lines begin with tile, move, keep, inline, fuse, compute, apply, param or auto"


class UnknownModifier(Malformed):
    """An unknown modifier behind a line of a schedule.

    Correct the word, or leave it out. Modifiers stand at the end of the line that they modify.
    """

    id = "unknown-modifier"
    message = "{found} is no modifier"
    way = (
        "modifiers are unroll, vector, pipeline, order, raster, arrange, within, pad, swizzle, layout, peel, online, carry, by "
        "and with"
    )


class OneLineEach(Malformed):
    """Two lines on one. Each line of a schedule, and each statement of an op, ends with its line."""

    id = "one-line-each"
    message = "{found} begins a line of its own"
    way = "put it on the next line"


class LooseElse(Malformed):
    """`else` outside an access. It gives the value of an access that leaves its tensor: `X[i + 1 else 0]`."""

    id = "loose-else"
    message = "`else` belongs inside the brackets of an access"
    way = "write `X[i + 1 else 0]` for an access that may leave X; to choose between values, `where(c, a, b)`"
    examples = (
        *in_op(
            "Y[m] = A[m] else 0", "Y[m] = A[m + 1] else 0", "Y[m] = (A[m] else 0)", "Y[m] = exp(A[m] else 0)",
        ),
    )  # fmt: skip


class EarlyElse(Malformed):
    """A subscript after `else`. An access has one `else`, after its last subscript: `X[i + 1, j else 0]`."""

    id = "early-else"
    message = "{found} after the value of `else`, which ends an access"
    way = "write `else` once, after the last subscript: `X[i + 1, j else 0]`"
    examples = in_op("Y[m] = A[m else 0, m]", "Y[m] = A[m + 1 else b, m]", "Y[m] = A[m else -1.0, m]")


class RangeByIn(Malformed):
    """A range written with `in`. An index that no shape gives a range runs over `INDEX: SIZE`, from 0."""

    id = "range-by-in"
    message = "an index and its range are not joined by `in`"
    way = "write `sum(r: size)`: r runs from 0 to size - 1; leave the size out where an axis gives it"


class MisplacedRange(Malformed):
    """A range that is written after no index, a second time, or where an index is used.

    A range stands once, after the index that a left side or a reduction binds: `D[i, p: H] = sum(r: 3) ...`.
    """

    id = "misplaced-range"
    message = "a range cannot stand here"
    way = "write it once, after the index that a left side or a reduction binds: `D[i, p: H] = sum(r: 3) ...`"


class InstructionLine(Malformed):
    """A line of an instruction, or a statement of its op, that the grammar does not know.

    An instruction has `op`, one place for each operand, `emit`, `cost`, `latency`, `error`, `align`, `least` and `await`.
    """

    id = "instruction-line"
    message = "{found} cannot stand in an instruction here"
    way = 'an instruction has `op (...):`, `A in MEMORY at (...): ...`, `emit DIALECT: "..."`, facts, and `await KIND`'
    examples = (
        *in_instr(
            "(A: f32)", "op f(A: f32[4]):\n            A[i] = 3", "op [M](A: f32[4]):\n            A[i] = 3",
            "op A: f32", '"text"', "cost: 8", "cost = 8", 'emit: "text"', 'emit "text"',
        ),
    )  # fmt: skip


# Below: what the grammar lets pass and the builder refuses.


class ImportPath(Malformed):
    """An import that is neither `import std.x.y` nor `import "file.sched"`.

    Quote the path of a file, relative to this one; `std` modules are written without quotes.
    """

    id = "import-path"
    message = "this import is not a module or a file"
    way = 'write `import std.ops.gemm` for the standard library, `import "file.sched"` for a file'
    examples = ("import std\n", "import gemm\n", "import std/ops\n", "import gemm,\n", "import std:ops\n")


class TensorDefault(SyntaxFault):
    """A default value on a tensor. Only `int` parameters, which are constants, have one."""

    id = "tensor-default"


class IntResult(SyntaxFault):
    """A result declared `int`. `int` is for parameters; a result is a tensor, a scalar one `i32[]`."""

    id = "int-result"


class DefinedSize(SyntaxFault):
    """`where EXPRESSION = ...`: a size is defined by its name alone, a comparison is written `==`.

    Write the name alone on the left, or `==` for a condition.
    """

    id = "defined-size"


class TargetSubscript(SyntaxFault):
    """The left side of a statement has something else than plain indices in its brackets.

    A statement defines its target at plain indices, each once; move the arithmetic to the right side.
    """

    id = "target-subscript"


class ReductionBody(SyntaxFault):
    """A reduction with nothing to reduce, often because its body begins with a minus.

    Put a body that begins with a sign into parentheses: `sum(k) (-A[k])`.
    """

    id = "reduction-body"


class ReductionIndex(SyntaxFault):
    """A reduction over something else than names of indices.

    Write the names of the indices alone: `sum(i, j) A[i, j]`. Their ranges follow from the shapes.
    """

    id = "reduction-index"


class InstructionOp(SyntaxFault):
    """An instruction has two `op` or `await` lines, or no `op`.

    Write each once.
    """

    id = "instruction-op"


class DuplicateModifier(SyntaxFault):
    """The same modifier twice on a line.

    Keep one of them.
    """

    id = "duplicate-modifier"


class MisplacedView(SyntaxFault):
    """`as (...)` on another line than a `move`.

    A view says how a `move` stages a tensor; leave it out elsewhere.
    """

    id = "misplaced-view"


class PositionalAfterNamed(SyntaxFault):
    """A positional argument behind a named one.

    Write positional arguments first.
    """

    id = "positional-after-named"


class NewerLanguage(SyntaxFault):
    """The text is written in a newer version of the language than this compiler knows.

    A newer Andiron reads it. The message names no other mistake, since an older compiler cannot judge the text.
    """

    id = "newer-language"


class LanguageVersion(SyntaxFault):
    """The argument of `language` is not a version.

    A version is a positive whole number, alone on the line: `language 1`.
    """

    id = "language-version"


class MisplacedLanguage(SyntaxFault):
    """`language` stands below an import or a declaration.

    It is the first statement of a text. Only comments and blank lines may stand above it.
    """

    id = "misplaced-language"


class LanguageTwice(SyntaxFault):
    """A text states the version of the language twice.

    Keep the first. A text that is put together from several keeps one.
    """

    id = "language-twice"


class NotYet(SyntaxFault):
    """A part of the language that the compiler does not support yet.

    The message says what to write instead. A schedule line can be left out: it changes speed, never results.
    """

    id = "not-yet"
