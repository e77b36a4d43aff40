"""Ops and schedules embedded in Python text: `andiron.op("...")` and `@andiron.kernel("...")`.

A mistake in such a text is shown at its line of the Python file, where that can be found out: the text must stand in the file
as it is, in the call or in a variable; an f-string counts from the line of its call on.
"""

from __future__ import annotations

import ast
import functools
import linecache
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, cast

from ..dsl.errors.run import SignatureDiffers
from ..dsl.module import Module, loads
from ..dsl.support.expected import expect
from .kernel import Kernel


def op(
    text: str,
    schedule: Any = None,
    target: str | None = None,
    threads: int | None = None,
    *,
    sizes: Mapping[str, int] | None = None,
    params: Mapping[str, int] | None = None,
    **named: int,
) -> Kernel:
    """The kernel of a text with one op, and schedules for it if any; see `andiron.compile` for the arguments."""
    from .compile import compile

    return compile(_module(text, 2), None, schedule, target, threads, sizes=sizes, params=params, **named)


class Embedded(Protocol):
    """A function whose body is an op; `kernel` is what it calls."""

    kernel: Kernel

    def __call__(self, *args: Any, out: Any = None, threads: int | None = None, **named: Any) -> Any: ...


def kernel(
    text: str,
    schedule: Any = None,
    target: str | None = None,
    threads: int | None = None,
    *,
    sizes: Mapping[str, int] | None = None,
    params: Mapping[str, int] | None = None,
    **named: int,
) -> Callable[[Callable[..., Any]], Embedded]:
    """A decorator: the function's body is replaced by the op of the text, its name and docstring stay.

        @andiron.kernel(\"\"\"
        op scale[N](X: f32[N]) -> (Y: f32[N]):
            Y[i] = 2.0 * X[i]
        \"\"\")
        def scale(X): ...

    The function's parameters are the op's inputs, by name, in any order. Arguments are passed as its signature says, by
    position or by name, so defaults work; beyond them `out` and `threads` are taken as `Kernel` takes them. The text is
    compiled at once, and so refused at once; it is built at the first call. The kernel is the function's attribute `kernel`.
    """
    from .compile import compile

    made = compile(_module(text, 2), None, schedule, target, threads, sizes=sizes, params=params, **named)

    def decorate(function: Callable[..., Any]) -> Embedded:
        import inspect

        signature = inspect.signature(function)
        _same_inputs(function.__name__, [p.name for p in signature.parameters.values()], made)

        @functools.wraps(function)
        def call(*args: Any, out: Any = None, threads: int | None = None, **named: Any) -> Any:
            bound = signature.bind(*args, **named)
            bound.apply_defaults()
            return made(out=out, threads=threads, **bound.arguments)

        embedded = cast("Embedded", call)
        embedded.kernel = made
        return embedded

    return decorate


def _same_inputs(name: str, parameters: Sequence[str], made: Kernel) -> None:
    inputs = [t.name for t in made.op.inputs]
    if sorted(parameters) != sorted(inputs):
        raise SignatureDiffers(
            f"`{name}({', '.join(parameters)})` is to be the op `{made.op.name}`, whose inputs are {', '.join(inputs)}",
            help=f"def {name}({', '.join(inputs)}): ...",
        )


def _module(text: str, depth: int) -> Module:
    """The module of an embedded text; `depth`: how many calls below the author's line this one is."""
    expect("text", text, str, "the text of an op")
    frame = sys._getframe(depth)
    file, line = frame.f_code.co_filename, frame.f_lineno
    plain = textwrap.dedent(text)
    skipped = len(plain) - len(plain.lstrip("\n"))
    start = _line_of(text, file, line)
    if start is None:
        return loads(plain.strip("\n") + "\n", base=".")
    return loads(plain.strip("\n") + "\n", file, base=".", line_offset=start - 1 + skipped)


def _line_of(text: str, file: str, call: int) -> int | None:
    """The line at which a text begins in the file of its caller: of the literal that it is, nearest to the call."""
    lines = linecache.getlines(file)
    if not lines:
        return None
    try:
        tree = ast.parse("".join(lines))
    except SyntaxError:
        return None
    same = [n.lineno for n in ast.walk(tree) if isinstance(n, ast.Constant) and n.value == text]
    if same:
        return min(same, key=lambda at: abs(at - call))
    joined = [n.lineno for n in ast.walk(tree) if isinstance(n, ast.JoinedStr) and abs(n.lineno - call) <= text.count("\n") + 1]
    return min(joined, key=lambda at: abs(at - call), default=None)
