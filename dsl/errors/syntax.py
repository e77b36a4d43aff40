"""Mistakes of grammar, each class with malformed `examples`.

An unexpected token is matched to the class one of whose examples goes wrong in the same state of the parser
(`dsl/explain.py`). `message` may hold `{found}` (what stands there), `{before}` (what stands before it) and `{wanted}` (a small
word).
"""

from __future__ import annotations

from typing import ClassVar

from .text import SyntaxFault


def _in_op(*statements: str) -> tuple[str, ...]:
    return tuple(f"op f(A: f32[M]) -> (Y: f32[M]):\n    {line}\n" for line in statements)


def _in_schedule(*lines: str) -> tuple[str, ...]:
    return tuple(f"schedule s for f:\n    {line}\n" for line in lines)


def _in_device(*lines: str) -> tuple[str, ...]:
    return tuple(f"device d:\n    {line}\n" for line in lines)


def _in_instr(*lines: str) -> tuple[str, ...]:
    return _in_device(*(f"instr i on warp:\n        {line}" for line in lines))


class Malformed(SyntaxFault):
    """Something stands where the grammar has no place for it."""

    id = "unexpected-token"
    message: ClassVar[str] = "{found} cannot stand here"  # type: ignore[assignment]
    way: ClassVar[str] = ""
    examples: ClassVar[tuple[str, ...]] = ()


class MissingColon(Malformed):
    """The colon is missing: before a block, between a name and its type, between an index and its size."""

    id = "missing-colon"
    message = "`:` is missing before {found}"
    way = "a block follows `:`; an index and its size, a name and its type are written `m: 128`, `A: f32[M]`"
    examples = (
        "op f(A: f32[M]) -> (Y: f32[M])\n    Y[m] = A[m]\n", "op f(A f32[M]) -> (Y: f32[M]):\n",
        "op f(A = f32[M]) -> (Y: f32[M]):\n", "op f(A: f32[M]) -> (Y f32[M]):\n",
        "op f(A: f32[M]) -> (Y: f32[M]) where P = M\n    Y[m] = A[m]\n", "schedule s for f\n    auto\n",
        "schedule s for f on sm_80\n    auto\n", "schedule s for f as g\n    auto\n",
        "schedule s for f as g(A = B)\n    auto\n", "schedule s for f where M <= 4\n    auto\n",
        "strategy s(T)\n    auto\n", "device d extends e\n    level block: open\n",
        "device d\n    level block: open\n",
        *_in_schedule(
            "tile m 128", "tile m = 128", "tile m: 4 -> thread arrange u m = u",
        ),
        *_in_device(
            "level block open", "memory shared of block 16 KiB", "instr i on warp\n        await group",
            "instr i on warp in f\n        await group",
        ),
        *_in_instr(
            'emit cuda "x"', "op (A: f32[4])", "op (A: f32[4]) -> (B: f32[4])", "A in register at (r) i = r",
        ),
    )  # fmt: skip


class MissingArrow(Malformed):
    """The arrow of a `move` or of an op is missing."""

    id = "missing-arrow"
    message = "`->` is missing before {found}"
    way = "a move names its memory after an arrow: `move A -> shared`; an op its results: `op f(A: f32[M]) -> (Y: f32[M]):`"
    examples = (
        "op f[M](A: f32[M]):\n    Y[m] = A[m]\n", "op f[M](A: f32[M]) (Y: f32[M]):\n",
        *_in_schedule(
            "move A shared", "move A to shared", "move A in shared", "move A, B -> shared", "move A = shared",
            "move A - shared",
        ),
    )  # fmt: skip


class MissingIn(Malformed):
    """`in` is missing: `keep C in register`, `param BM in 64, 128`, `A in register at (lane, r)`."""

    id = "missing-in"
    message = "`in` is missing before {found}"
    way = "write `keep C in register`, `param BM in 64, 128`, `A in register at (lane, r): ...`"
    examples = (
        *_in_schedule(
            "keep C register", "keep C -> register", "param BM 64, 128", "param BM = 64, 128", "param BM: 64, 128",
            "param BM", "param BM of 64",
        ),
    )  # fmt: skip


class MissingFor(Malformed):
    """A schedule does not say for which op it is."""

    id = "missing-for"
    message = "`for` is missing before {found}"
    way = "a schedule names its op: `schedule fast for gemm on sm_80:`"
    examples = (
        "schedule s:\n    auto\n", "schedule s gemm:\n    auto\n", "schedule s on sm_80:\n    auto\n",
        "schedule s(gemm):\n    auto\n", "schedule s\n    auto\n",
    )  # fmt: skip


class MissingAs(Malformed):
    """`as` is missing: `fuse n, p, q as m`."""

    id = "missing-as"
    message = "`as` is missing before {found}"
    way = "write `fuse n, p, q as m`"
    examples = (
        *_in_schedule(
            "fuse a, b -> m", "fuse a, b = m", "fuse a, b", "fuse a, b: m",
        ),
    )  # fmt: skip


class MissingWord(Malformed):
    """A small word of a device's line is missing: `of`, `on`, `at`."""

    id = "missing-word"
    message = "{wanted} is missing before {found}"
    way = "write `memory shared of block: ...`, `instr NAME on warp:`, `A in register at (lane, r): ...`"
    examples = (
        *_in_device(
            "memory shared: 4 KiB", "memory shared block: 4 KiB", "memory shared in block: 4 KiB",
            "instr i:\n        await x", "instr i warp:\n        await x", "instr i of warp:\n        await x",
        ),
        *_in_instr(
            "A in register (r): m = r", "A in register: m = r",
        ),
    )  # fmt: skip


class MissingName(Malformed):
    """A name is missing."""

    id = "missing-name"
    message = "a name is missing before {found}"
    way = "names are made of letters, digits and `_`, and begin with a letter or `_`"
    examples = (
        "op (A: f32[M]) -> (Y: f32[M]):\n", "op 3(A: f32[M]) -> (Y: f32[M]):\n", 'op "f"(A: f32[M]) -> (Y: f32[M]):\n',
        "op f[3](A: f32[M]) -> (Y: f32[M]):\n", "op f(A: ) -> (Y: f32[M]):\n", "op f(3) -> (Y: f32[M]):\n",
        "op f(A: f32[M]) -> (3: f32[M]):\n", "op f(A: f32[M] as) -> (Y: f32[M]):\n", "schedule for f:\n    auto\n",
        "schedule 3 for f:\n    auto\n", "schedule s for :\n    auto\n", "schedule s for f on :\n    auto\n",
        "schedule s for f on 80:\n    auto\n", "strategy (T):\n    auto\n", "strategy s(3):\n    auto\n",
        "device :\n    level block: open\n", "device 80:\n    level block: open\n",
        "device d extends :\n    level block: open\n", "import\n", "import 3\n", "import std.\n", "import std.3\n",
        *_in_schedule(
            "tile", "tile 128", "tile m: 4, 3", "tile m: 4 ->", "tile m: 4 -> 3", "move", "move 3 -> shared",
            "move A ->", "move A -> 3", "keep", "keep in register:\n        auto", "keep C in", "keep C in 3",
            "keep C, 3 in register", "inline", "inline 3", "fuse", "fuse 3", "fuse a as", "fuse a as 3",
            "compute with", "compute with 3", "apply", "apply 3", "param", "param 3", "tile m: 4 order",
            "tile m: 4 order 3", "tile m: 4 by", "tile m: 4 by 3", "tile m: 4 multicast", "tile m: 4 multicast 3",
            "tile m: 4 -> thread arrange : m = u", "move A -> shared layout", "move A -> shared layout 3",
        ),
        *_in_device(
            "level : open", "memory : open",
        ),
    )  # fmt: skip


class MissingValue(Malformed):
    """A number or an expression is missing: behind an operator, `=`, `:`, or a modifier that takes one."""

    id = "missing-value"
    message = "a value is missing before {found}"
    way = "put a number, a name or an expression there"
    examples = (
        "op f(A: f32[,]) -> (Y: f32[M]):\n", "op f(A: f32[M +]) -> (Y: f32[M]):\n",
        "op f(A: f32[M *]) -> (Y: f32[M]):\n", "op f(A: int = ) -> (Y: f32[M]):\n",
        "op f(A: f32[M]) -> (Y: f32[M]) where P = :\n", "op f(A: f32[M]) -> (Y: f32[M]) where M < :\n",
        "op f(A: f32[M]) -> (Y: f32[M]) where :\n", "strategy s(T = ):\n    auto\n",
        *_in_op(
            "Y[m] =", "Y[m] = A[m] *", "Y[m] = A[m] +", "Y[m] = -", "Y[m] = * A[m]", "Y[m] = ()", "Y[m] = f(,)",
            "Y[m] = f(A[m],,)", "Y[m] = A[,]", "Y[m] = A[m else ]", "Y[m] = A[m] <", "Y[m] = A[m] and",
            "Y[m] = A[m] or", "Y[m] = not", 'Y[m] = A[m] + "x"',
        ),
        *_in_schedule(
            "tile m: -> block", "tile m:", "tile m: 4 every", "tile m: 4 pipeline", "tile m: 4 vector",
            "move A -> shared swizzle()", "move A -> shared layout ()", "move A -> shared layout panels(n:)",
            "param BM in", "param BM in 64 =", "apply g(,)", "apply g(d = )",
        ),
        *_in_device(
            "level block:", "memory m of block:", "units 4,",
        ),
        *_in_instr(
            "await", "emit cuda:", "emit cuda: 3", "A in register at (r): m =",
        ),
    )  # fmt: skip


class MissingEquals(Malformed):
    """A statement without its `=`.

    The body of an op has statements `T[i, j] = value` only: there are no loops and no conditions; `where(c, a, b)` chooses.
    """

    id = "missing-equals"
    message = "`=` is missing before {found}"
    way = "a statement of an op is `T[i, j] = value`"
    examples = (
        "op f(A: f32[M]) -> (Y: f32[M]) where P:\n", "schedule s for f where N:\n    auto\n",
        "schedule s for f as g(A):\n    auto\n", "schedule s for f as g(A: B):\n    auto\n",
        *_in_op(
            "Y[m] A[m]", "Y[m]", "Y", "Y[m] == A[m]", "Y[m]: A[m]", "return A", "f(A)", "Y[m] - = A[m]",
            "Y[m] * = A[m]", "Y * A[m]",
        ),
        *_in_schedule(
            "tile m: 4 -> thread arrange u: m",
        ),
        *_in_instr(
            "A in register at (r): m",
        ),
    )  # fmt: skip


class MissingComma(Malformed):
    """Two things of a list without a comma between them."""

    id = "missing-comma"
    message = "`,` is missing before {found}"
    way = "the parts of a list are separated by commas"
    examples = (
        "op f(A: f32[M] B: f32[M]) -> (Y: f32[M]):\n", "op f(A: f32 B: f32[M]) -> (Y: f32[M]):\n",
        "op f(A: f32[M]) -> (Y: f32[M] Z: f32[M]):\n", "op f(A: f32[M] as csr B: f32[M]) -> (Y: f32[M]):\n",
        "op f(n: int = 4 m: int = 3) -> (Y: f32[M]):\n", "op f[M N](A: f32[M]) -> (Y: f32[M]):\n",
        "op f(A: f32[M N]) -> (Y: f32[M]):\n", "op f(A: f32[4 N]) -> (Y: f32[M]):\n", "strategy s(T U):\n    auto\n",
        "strategy s(T = 3 U):\n    auto\n", "schedule s for f as g(A = X B = Y):\n    auto\n",
        *_in_schedule(
            "keep C D in register\n    auto", "inline C D", "fuse a b as m", "param BM in 64 128", "apply g(a b)",
            "apply g(3 b)", "move A -> shared layout (k m)", "move A -> shared layout panels(k: 4 m: 3)",
            "move A as (k m) -> shared",
        ),
        *_in_instr(
            "A in register at (lane r): m = r", "A in register at (r): m = r k = r",
            "A in register at (r): m = 3 k = r",
        ),
    )  # fmt: skip


class MissingOperator(Malformed):
    """Two values side by side with nothing between them."""

    id = "missing-operator"
    message = "an operator is missing before {found}"
    way = "put `+`, `-`, `*`, `/` or `%` between two values, or `,` between two arguments"
    examples = (
        *_in_op(
            "Y[m] = A[m] A[m]", "Y[m] = a b", "Y[m] = 3 b", "Y[m] = (3) b", "Y[m] = 3 * b b", "Y[m] = 3 + b b",
            "Y[m] = sum(k) A[m] A[m]", "Y[m] = (a b)", "Y[m] = A[a b]", "Y[m] = exp(a b)", "Y[m] = true b",
        ),
    )  # fmt: skip


class ChainedComparison(Malformed):
    """`a < b < c`: a comparison compares two values."""

    id = "chained-comparison"
    message = "a comparison compares two values"
    way = "write `a < b and b < c`; in a `where` line, `a < b, b < c`"
    examples = (
        "op f(A: f32[M]) -> (Y: f32[M]) where 0 < M < 3:\n",
        *_in_op(
            "Y[m] = where(0 < m < 3, 1, 2)", "Y[m] = 0 < m < 3",
        ),
    )  # fmt: skip


class EmptyBlock(Malformed):
    """Nothing stands under a line that opens a block."""

    id = "empty-block"
    message = "nothing stands under this line"
    way = "indent its lines below it; in a schedule, `auto` leaves them to the compiler"


class UnknownDeclaration(Malformed):
    """A line at the left edge that begins no declaration: `import`, `op`, `device`, `schedule`, `strategy`."""

    id = "unknown-declaration"
    message = "{found} begins no declaration"
    way = "a file has `import`, `op`, `device`, `schedule` and `strategy`"


class UnknownLine(Malformed):
    """A line of a schedule that begins with no word it knows."""

    id = "unknown-line"
    message = "{found} begins no line of a schedule"
    way = "lines begin with tile, move, keep, inline, fuse, compute, apply, param or auto"


class UnknownModifier(Malformed):
    """A word behind a line of a schedule that modifies nothing."""

    id = "unknown-modifier"
    message = "{found} is no modifier"
    way = "modifiers are unroll, vector, pipeline, order, raster, arrange, pad, swizzle, layout, peel, by and with"


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
        *_in_op(
            "Y[m] = A[m] else 0", "Y[m] = A[m + 1] else 0", "Y[m] = (A[m] else 0)", "Y[m] = exp(A[m] else 0)",
        ),
    )  # fmt: skip


class InstructionLine(Malformed):
    """A line of an instruction, or a statement of its op, that the grammar does not know."""

    id = "instruction-line"
    message = "{found} cannot stand in an instruction here"
    way = 'an instruction has `op (...):`, `A in MEMORY at (...): ...`, `emit DIALECT: "..."`, facts, and `await KIND`'
    examples = (
        *_in_instr(
            "(A: f32)", "op f(A: f32[4]):\n            A[i] = 3", "op [M](A: f32[4]):\n            A[i] = 3",
            "op A: f32", '"text"', "cost: 8", "cost = 8", 'emit: "text"', 'emit "text"',
        ),
    )  # fmt: skip


# Below: what the grammar lets pass and the builder refuses.


class ImportPath(Malformed):
    """An import that is neither `import std.x.y` nor `import "file.sched"`."""

    id = "import-path"
    message = "this import names nothing"
    way = 'write `import std.ops.gemm` for the standard library, `import "file.sched"` for a file'
    examples = ("import std\n", "import gemm\n", "import std/ops\n", "import gemm,\n", "import std:ops\n")


class TensorDefault(SyntaxFault):
    """A default value on a tensor. Only `int` parameters, which are constants, have one."""

    id = "tensor-default"


class IntResult(SyntaxFault):
    """A result declared `int`. `int` is for parameters; a result is a tensor, a scalar one `i32[]`."""

    id = "int-result"


class DefinedSize(SyntaxFault):
    """`where EXPRESSION = ...`: a size is defined by its name alone, a comparison is written `==`."""

    id = "defined-size"


class TargetSubscript(SyntaxFault):
    """The left side of a statement has something else than plain indices in its brackets."""

    id = "target-subscript"


class ReductionBody(SyntaxFault):
    """A reduction with nothing to reduce, often because its body begins with a minus."""

    id = "reduction-body"


class ReductionIndex(SyntaxFault):
    """A reduction over something else than names of indices."""

    id = "reduction-index"


class InstructionOp(SyntaxFault):
    """An instruction says twice, or never, what it computes or how it is awaited."""

    id = "instruction-op"


class DuplicateModifier(SyntaxFault):
    """The same modifier twice on a line."""

    id = "duplicate-modifier"


class MisplacedView(SyntaxFault):
    """`as (...)` on another line than a `move`."""

    id = "misplaced-view"


class PositionalAfterNamed(SyntaxFault):
    """A positional argument behind a named one."""

    id = "positional-after-named"


class NotYet(SyntaxFault):
    """What the language is meant to say, and the compiler cannot do yet."""

    id = "not-yet"
