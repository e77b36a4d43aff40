"""Tile programs as readable text: for `andiron emit --stage`, goldens and reports of faults. `parser` reads it back.

The text shows every part of a program that has a meaning, and is deterministic. Facts that follow from others are not shown: a
variable's interval is written after its name only if it differs from the interval of its values (`interval_of`). A literal
without a suffix is an f32 or an i32; a condition `e >= 0` is shown as in `dsl.index.condition_text`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from ...dsl.index import intervals
from ...dsl.index.condition_text import condition_text, conditions_text
from ...dsl.index.expr import Expr, Var
from ...dsl.index.intervals import Interval
from ...dsl.values import COMPARISONS, Apply, Cast, Const, IndexValue, Load, Masked, Part, Shared, Value
from .tile_ir import (
    Alloc,
    AllReduce,
    Barrier,
    Buffer,
    Call,
    Commit,
    For,
    If,
    Launch,
    Let,
    Piece,
    Staging,
    Stmt,
    Store,
    Wait,
)

if TYPE_CHECKING:
    from .program import Program

_INDENT = "    "
INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/"} | COMPARISONS
Scope = Mapping[str, Interval]


def show(program: Program) -> str:
    """The whole program as text, ending in a newline."""
    scope: dict[str, Interval] = {}
    dims = ", ".join(_declared(v, DIM, scope) for v in program.dims)
    lines = [f"program {program.name}({dims}) on {program.device.name}"]
    lines += [f"# {line}".rstrip() for line in program.head.split("\n")] if program.head else []
    lines += [f"let {_declared(var, interval_of(value, scope), scope)} = {value}" for var, value in program.lets]
    lines += [f"finite {level}: {_declared(var, TAKING_PART, scope)}" for level, var in program.finite]
    lines += [f"require {condition_text(cond)}  # {text}" for cond, text in program.conditions]
    lines += [f"{b.kind} {_buffer(b)}" for b in program.buffers]
    lines += [f"instr {i.name} on {i.level}" for i in program.instrs]
    if program.needs is not None:
        lines += [f"need {condition_text(cond)}" for cond in program.needs.conds]
        lines += [f"need {name} at a multiple of {n} bytes" for name, n in program.needs.aligned]
    for launch in program.launches:
        lines += ["", *_launch(launch, scope)]
    other = "" if program.instead is None else f"\ninstead, where a need does not hold:\n\n{show(program.instead)}"
    return "\n".join(lines) + "\n" + other


def show_barriers(program: Program) -> str:
    """Only the barriers, each inside the loops and conditions that it stands in, with its reason."""
    out: list[str] = []
    for launch in program.launches:
        inside = _skeleton(launch.body, _INDENT)
        out += [f"launch {launch.name}:", *(inside or [f"{_INDENT}no barriers"])]
    return "\n".join(out) + "\n"


def _skeleton(body: tuple[Stmt, ...], indent: str) -> list[str]:
    out: list[str] = []
    for s in body:
        if isinstance(s, Barrier):
            out += _statement(s, indent)
        elif isinstance(s, Alloc):
            out += _skeleton(s.body, indent)
        elif isinstance(s, For | If):
            inner = _skeleton(s.body, indent + _INDENT)
            other = _skeleton(s.orelse, indent + _INDENT) if isinstance(s, If) else []
            if inner or other:
                out += [next(_statement(s, indent)), *(inner or [f"{indent}{_INDENT}pass"])]
            if other:
                out += [f"{indent}else:", *other]
    return out


def show_value(value: Value) -> str:
    """A value expression on one line."""
    return _value(value)


def show_statement(stmt: Stmt) -> str:
    """The first line of a statement: all of it when it is a leaf, else its head."""
    return next(_statement(stmt, ""))


# ---------------------------------------------------------------- intervals

DIM: Interval = (0, None)
TAKING_PART: Interval = (1, None)


def interval_of(e: Expr, scope: Scope) -> Interval:
    """The interval of an expression by those of the variables in scope; by the variables' own where they are not."""

    def of_atom(atom) -> Interval:
        if isinstance(atom, Var):
            return scope.get(atom.name, atom.interval)
        square = atom.kind == "mul" and atom.args[0] == atom.args[1]
        return intervals.function(atom.kind, tuple(interval_of(a, scope) for a in atom.args), square)

    return intervals.linear([(_Within(of_atom(a)), c) for a, c in e.terms], e.const)


class _Within:
    def __init__(self, interval: Interval) -> None:
        self.interval = interval


def below(start: Expr, stop: Expr, scope: Scope) -> Interval:
    """Of what counts from `start` to `stop`, which it does not reach."""
    high = interval_of(stop, scope)[1]
    return interval_of(start, scope)[0], None if high is None else high - 1


def let_interval(s: Let, scope: Scope) -> Interval:
    return interval_of(s.value, scope) if s.extent is None else below(Expr(), s.extent, scope)


def _declared(var: Var, expected: Interval, scope: dict[str, Interval]) -> str:
    """A variable where it is bound; from here on its interval is known."""
    scope[var.name] = var.interval
    if var.interval == expected:
        return var.name
    low, high = ("" if end is None else str(end) for end in var.interval)
    return f"{var.name}: {low}..{high}"


# ---------------------------------------------------------------- statements


def _launch(launch: Launch, scope: Scope) -> Iterator[str]:
    inner = dict(scope)
    units = ", ".join(f"{u.level} {_declared(u.var, below(Expr(), u.count, inner), inner)} < {u.count}" for u in launch.units)
    yield f"launch {launch.name} over {units or 'one unit'}:"
    yield from _body(launch.body, _INDENT, inner)


def _buffer(b: Buffer) -> str:
    strides = f" strides {_tuple(b.strides)}" if b.strides else ""
    passing = " passing" if b.passing else ""
    return f"{b.name}: {b.dtype}[{_list(b.shape)}] in {b.memory} of {b.level}{strides} size {b.size}{passing}"


def _body(body: tuple[Stmt, ...], indent: str, scope: dict[str, Interval] | None) -> Iterator[str]:
    inner = None if scope is None else dict(scope)
    for s in body:
        yield from _statement(s, indent, inner)
    if not body:
        yield f"{indent}pass"


def _statement(s: Stmt, indent: str, scope: dict[str, Interval] | None = None) -> Iterator[str]:
    """`scope`: the variables bound so far, to which a `let` adds its own; None: intervals are not shown."""
    match s:
        case For():
            name = s.var.name if scope is None else _declared(s.var, below(s.start, s.stop, scope), scope := dict(scope))
            how = "" if s.unroll == 1 else " unroll" if s.unroll == 0 else f" unroll {s.unroll}"
            step = "" if s.step.constant == 1 else f" step {s.step}"
            yield f"{indent}for {name} in {s.start} .. {s.stop}{step}{how}:"
        case Let():
            name = s.var.name if scope is None else _declared(s.var, let_interval(s, scope), scope)
            yield f"{indent}let {name}{'' if s.extent is None else f' < {s.extent}'} = {s.value}"
        case If():
            yield f"{indent}if {conditions_text(s.conds)}{' of turns' if s.turns else ''}:"
        case Alloc():
            staging = "" if s.staging is None else _staging(s.staging)
            yield f"{indent}alloc {_buffer(s.buffer)}{staging}{' outlined' if s.outlined else ''}:"
        case Store():
            sign = "=" if s.atomic is None else f"atomic {s.atomic}="
            yield f"{indent}{s.buffer}[{_list(s.coords)}] {sign} {_value(s.value)}{f' using {s.using}' if s.using else ''}"
        case Call():
            yield f"{indent}{s.instr}({', '.join(map(_piece, s.pieces))})"
        case AllReduce():
            cells = ", ".join(f"{name}[{_list(coords)}]" for name, coords in s.cells)
            yield f"{indent}allreduce {s.kind} {cells} over {s.level} / {s.stride} % {s.count}"
        case Barrier():
            yield f"{indent}barrier {s.level}" + (f"  # {s.why}" if s.why else "")
        case Commit():
            yield f"{indent}commit {s.kind}"
        case Wait():
            yield f"{indent}wait {s.kind} until {s.pending} pending"
    if isinstance(s, For | If | Alloc):
        yield from _body(s.body, indent + _INDENT, scope)
    if isinstance(s, If) and s.orelse:
        yield f"{indent}else:"
        yield from _body(s.orelse, indent + _INDENT, scope)


def _staging(s: Staging) -> str:
    along = "" if s.loop is None else f" along {s.loop.name}"
    return f" staging {s.copy} deep {s.depth}{along}{' through' if s.through else ''}"


def _piece(p: Piece) -> str:
    return f"{p.buffer}[{_list(p.coords)}]" + (f" x {p.extent}" if p.extent != 1 else "")


def _list(exprs: tuple[Expr, ...]) -> str:
    return ", ".join(map(str, exprs))


def _tuple(exprs: tuple[Expr, ...]) -> str:
    return f"({_list(exprs)})"


def _value(v: Value, inner: bool = False) -> str:
    """`inner`: as an operand of an infix operator, where an infix expression needs parentheses."""
    match v:
        case Const():
            return _const(v)
        case IndexValue():
            return f"{v.dtype}<{v.expr}>"
        case Load():
            text = f"{v.tensor}[{_list(v.indices)}]"
            return text if v.otherwise is None else f"({text} else {_value(v.otherwise)})"
        case Cast():
            return f"{v.dtype}({_value(v.arg)})"
        case Apply() if v.fn in INFIX and len(v.args) == 2:
            text = f"{_value(v.args[0], True)} {INFIX[v.fn]} {_value(v.args[1], True)}"
            return f"({text})" if inner else text
        case Apply():
            return f"{v.fn}({', '.join(map(_value, v.args))})"
        case Masked():
            word = "where" if v.anywhere else "if"
            return f"({_value(v.value)} {word} {conditions_text(v.conds)} else {_value(v.otherwise)})"
        case Part():
            return v.name
        case Shared():
            parts = ", ".join(f"{name} = {_value(part)}" for name, part in v.parts)
            return f"({_value(v.value)} with {parts})"


def _const(c: Const) -> str:
    if c.dtype.kind == "bool":
        return "true" if c.value else "false"
    number = repr(float(c.value)) if c.dtype.kind == "float" else str(int(c.value))
    return number if c.dtype.name in ("f32", "i32") else f"{number}_{c.dtype}"
