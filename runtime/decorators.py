"""Ops and schedules embedded in Python text: `andiron.op("...")` and `@andiron.kernel("...")`.

An error in such a text is shown at its line of the Python file, if that can be found: the text must stand in the file
unchanged, in the call or in a variable; the lines of an f-string count from the line of its call.
"""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import os
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, cast

from ..dsl.errors.run import SignatureDiffers
from ..dsl.module import Module, loads
from ..dsl.support.expected import expect
from .compile import compile
from .kernel import Kernel


def op(
    text: str,
    schedule: Any = None,
    target: str | None = None,
    threads: int | None = None,
    *,
    tuned: str | os.PathLike[str] | None = None,
    sizes: Mapping[str, int] | None = None,
    params: Mapping[str, int] | None = None,
    **named: int,
) -> Kernel:
    """Compiles a text with one op, and schedules for it if any. The arguments are those of `andiron.compile`.

    A mistake in the text is shown at its line of the Python file, where that line can be found.

    Returns a `Kernel`.

    Raises what `andiron.compile` raises.
    """
    return compile(_module(text, 2), None, schedule, target, threads, tuned=tuned, sizes=sizes, params=params, **named)


class Embedded(Protocol):
    """A function whose body is an op, as `andiron.kernel` makes it.

    kernel  the kernel that a call runs
    """

    kernel: Kernel

    def __call__(self, *args: Any, out: Any = None, threads: int | None = None, **named: Any) -> Any:
        """Calls the kernel with the arguments that the function's own signature takes.

        args     the inputs, in the order of the function's parameters
        out      as in a call of a kernel
        threads  as in a call of a kernel
        named    inputs by name

        Returns the outputs, as a call of the kernel does.

        Raises what a call of the kernel raises. Raises TypeError for arguments that the signature does not take.
        """
        ...


def kernel(
    text: str,
    schedule: Any = None,
    target: str | None = None,
    threads: int | None = None,
    *,
    tuned: str | os.PathLike[str] | None = None,
    sizes: Mapping[str, int] | None = None,
    params: Mapping[str, int] | None = None,
    **named: int,
) -> Callable[[Callable[..., Any]], Embedded]:
    """Decorates a function: the op of the text replaces its body. Its name and its docstring stay.

        @andiron.kernel(\"\"\"
        op scale[N](X: f32[N]) -> (Y: f32[N]):
            Y[i] = 2.0 * X[i]
        \"\"\")
        def scale(X): ...

    The function's parameters are the inputs of the op, by name, in any order. Arguments are passed as its signature says, by
    position or by name, and defaults work. A call also takes `out` and `threads`, as `Kernel` does. The text is compiled at
    once. Native code is built at the first call. The other arguments are those of `andiron.compile`.

    Returns a decorator. The decorator returns an `Embedded`: a function with the attribute `kernel`.

    Raises what `andiron.compile` raises. The decorator raises SignatureDiffers if the parameters of the function are not the
    inputs of the op.
    """
    made = compile(_module(text, 2), None, schedule, target, threads, tuned=tuned, sizes=sizes, params=params, **named)

    def decorate(function: Callable[..., Any]) -> Embedded:
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
