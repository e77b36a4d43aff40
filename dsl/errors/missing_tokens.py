"""Syntax errors: a token is missing. Each class has malformed `examples`.

An unexpected token belongs to the class that has an example which fails in the same state of the parser
(`dsl/text/explain_syntax_error.py`). `message` may contain `{found}` (the token), `{before}` (the token before it) and
`{wanted}` (an expected word).
"""

from __future__ import annotations

from typing import ClassVar

from .text import SyntaxFault


def in_op(*statements: str) -> tuple[str, ...]:
    return tuple(f"op f(A: f32[M]) -> (Y: f32[M]):\n    {line}\n" for line in statements)


def _in_schedule(*lines: str) -> tuple[str, ...]:
    return tuple(f"schedule s for f:\n    {line}\n" for line in lines)


def _in_device(*lines: str) -> tuple[str, ...]:
    return tuple(f"device d:\n    {line}\n" for line in lines)


def in_instr(*lines: str) -> tuple[str, ...]:
    return _in_device(*(f"instr i on warp:\n        {line}" for line in lines))


class Malformed(SyntaxFault):
    """A word or a sign at a place where the grammar does not allow it.

    Often a word or a sign before it is missing, or there is one too many. The message lists the possible words.
    """

    id = "unexpected-token"
    message: ClassVar[str] = "{found} cannot stand here"  # type: ignore[assignment]
    way: ClassVar[str] = ""
    examples: ClassVar[tuple[str, ...]] = ()


class MissingColon(Malformed):
    """The colon is missing: before a block, between a name and its type, between an index and its size.

    Put it where the caret points.
    """

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
        *in_instr(
            'emit cuda "x"', "op (A: f32[4])", "op (A: f32[4]) -> (B: f32[4])", "A in register at (r) i = r",
        ),
    )  # fmt: skip


class MissingArrow(Malformed):
    """The arrow of a `move` or of an op is missing.

    Write `move A -> shared`, `op f(x: f32[N]) -> (y: f32[N])`.
    """

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
    """`in` is missing: `keep C in register`, `param BM in 64, 128`, `A in register at (lane, r)`.

    Put it between the names and the place or the values.
    """

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
    """A schedule does not name its op.

    Write `schedule NAME for OP:`.
    """

    id = "missing-for"
    message = "`for` is missing before {found}"
    way = "a schedule names its op: `schedule fast for gemm on sm_80:`"
    examples = (
        "schedule s:\n    auto\n", "schedule s gemm:\n    auto\n", "schedule s on sm_80:\n    auto\n",
        "schedule s(gemm):\n    auto\n", "schedule s\n    auto\n",
    )  # fmt: skip


class MissingAs(Malformed):
    """`as` is missing: `fuse n, p, q as m`.

    The new index is named after it.
    """

    id = "missing-as"
    message = "`as` is missing before {found}"
    way = "write `fuse n, p, q as m`"
    examples = (
        *_in_schedule(
            "fuse a, b -> m", "fuse a, b = m", "fuse a, b", "fuse a, b: m",
        ),
    )  # fmt: skip


class MissingWord(Malformed):
    """A small word of a device's line is missing: `of`, `on`, `at`.

    Write `memory shared of block`, `instr NAME on warp`, `A in register at (lane, r)`.
    """

    id = "missing-word"
    message = "{wanted} is missing before {found}"
    way = "write `memory shared of block: ...`, `instr NAME on warp:`, `A in register at (lane, r): ...`"
    examples = (
        *_in_device(
            "memory shared: 4 KiB", "memory shared block: 4 KiB", "memory shared in block: 4 KiB",
            "instr i:\n        await x", "instr i warp:\n        await x", "instr i of warp:\n        await x",
        ),
        *in_instr(
            "A in register (r): m = r", "A in register: m = r",
        ),
    )  # fmt: skip


class MissingName(Malformed):
    """A name is missing.

    Names begin with a letter or an underscore, and are no words of the language.
    """

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
    """A number or an expression is missing: behind an operator, `=`, `:`, or a modifier that takes one.

    Write it, or leave out the operator or modifier that needs it.
    """

    id = "missing-value"
    message = "a value is missing before {found}"
    way = "put a number, a name or an expression there"
    examples = (
        "op f(A: f32[,]) -> (Y: f32[M]):\n", "op f(A: f32[M +]) -> (Y: f32[M]):\n",
        "op f(A: f32[M *]) -> (Y: f32[M]):\n", "op f(A: int = ) -> (Y: f32[M]):\n",
        "op f(A: f32[M]) -> (Y: f32[M]) where P = :\n", "op f(A: f32[M]) -> (Y: f32[M]) where M < :\n",
        "op f(A: f32[M]) -> (Y: f32[M]) where :\n", "strategy s(T = ):\n    auto\n",
        *in_op(
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
        *in_instr(
            "await", "emit cuda:", "emit cuda: 3", "A in register at (r): m =",
        ),
    )  # fmt: skip


class MissingEquals(Malformed):
    """A statement without its `=`.

    The body of an op has only statements `T[i, j] = value`. There are no loops and no conditions. `where(c, a, b)` chooses.
    """

    id = "missing-equals"
    message = "`=` is missing before {found}"
    way = "a statement of an op is `T[i, j] = value`"
    examples = (
        "op f(A: f32[M]) -> (Y: f32[M]) where P:\n", "schedule s for f where N:\n    auto\n",
        "schedule s for f as g(A):\n    auto\n", "schedule s for f as g(A: B):\n    auto\n",
        *in_op(
            "Y[m] A[m]", "Y[m]", "Y", "Y[m]: A[m]", "return A", "f(A)", "Y[m] - = A[m]",
            "Y[m] * = A[m]", "Y * A[m]",
        ),
        *_in_schedule(
            "tile m: 4 -> thread arrange u: m",
        ),
        *in_instr(
            "A in register at (r): m",
        ),
    )  # fmt: skip


class MissingComma(Malformed):
    """Two items of a list without a comma between them.

    Put a comma between them.
    """

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
        *in_instr(
            "A in register at (lane r): m = r", "A in register at (r): m = r k = r",
            "A in register at (r): m = 3 k = r",
        ),
    )  # fmt: skip


class MissingOperator(Malformed):
    """Two values side by side with nothing between them.

    Products are written out: `2*m`, not `2 m`.
    """

    id = "missing-operator"
    message = "an operator is missing before {found}"
    way = "put `+`, `-`, `*`, `/` or `%` between two values, or `,` between two arguments"
    examples = (
        *in_op(
            "Y[m] = A[m] A[m]", "Y[m] = a b", "Y[m] = 3 b", "Y[m] = (3) b", "Y[m] = 3 * b b", "Y[m] = 3 + b b",
            "Y[m] = sum(k) A[m] A[m]", "Y[m] = (a b)", "Y[m] = A[a b]", "Y[m] = exp(a b)", "Y[m] = true b",
        ),
    )  # fmt: skip
