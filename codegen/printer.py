"""Tile programs as readable text: for `andiron emit --stage`, goldens and reports of faults.

The text is for people: it shows every part of a program that has a meaning, is deterministic, and is not read back.
A literal without a suffix is an f32 or an i32; a condition `e >= 0` is shown as in `dsl.condition_text`.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..dsl.condition_text import condition_text, conditions_text
from ..dsl.index import Expr
from ..dsl.values import Apply, Cast, Const, IndexValue, Load, Masked, Value
from .tile import Alloc, AllReduce, Barrier, Buffer, Call, Commit, For, If, Launch, Let, Piece, Program, Stmt, Store, Wait

_INDENT = "    "
_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}


def show(program: Program) -> str:
    """The whole program as text, ending in a newline."""
    lines = [f"program {program.name}({', '.join(v.name for v in program.dims)}) on {program.device.name}"]
    lines += [f"let {var.name} = {value}" for var, value in program.lets]
    lines += [f"finite {level}: {var.name}" for level, var in program.finite]
    lines += [f"require {condition_text(cond)}  # {text}" for cond, text in program.conditions]
    lines += [f"{b.kind} {_buffer(b)}" for b in program.buffers]
    lines += [f"instr {i.name} on {i.level}" for i in program.instrs]
    if program.needs is not None:
        lines += [f"need {condition_text(cond)}" for cond in program.needs.conds]
        lines += [f"need {name} at a multiple of {n} bytes" for name, n in program.needs.aligned]
    for launch in program.launches:
        lines += ["", *_launch(launch)]
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


def show_statements(body: tuple[Stmt, ...]) -> str:
    """The statements of a body, one a line, nested ones indented."""
    return "\n".join(line for s in body for line in _statement(s, ""))


def _launch(launch: Launch) -> Iterator[str]:
    units = ", ".join(f"{u.level} {u.var.name} < {u.count}" for u in launch.units)
    yield f"launch {launch.name} over {units or 'one unit'}:"
    for s in launch.body:
        yield from _statement(s, _INDENT)


def _buffer(b: Buffer) -> str:
    strides = f" strides {_tuple(b.strides)}" if b.strides else ""
    return f"{b.name}: {b.dtype}[{_list(b.shape)}] in {b.memory} of {b.level}{strides} size {b.size}"


def _statement(s: Stmt, indent: str) -> Iterator[str]:
    body: tuple[Stmt, ...] = ()
    match s:
        case For():
            how = "" if s.unroll == 1 else " unroll" if s.unroll == 0 else f" unroll {s.unroll}"
            step = "" if s.step.constant == 1 else f" step {s.step}"
            yield f"{indent}for {s.var.name} in {s.start} .. {s.stop}{step}{how}:"
            body = s.body
        case Let():
            yield f"{indent}let {s.var.name} = {s.value}" + ("" if s.extent is None else f"  # < {s.extent}")
        case If():
            yield f"{indent}if {conditions_text(s.conds)}:"
            body = s.body
        case Alloc():
            yield f"{indent}alloc {_buffer(s.buffer)}{' outlined' if s.outlined else ''}:"
            body = s.body
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
    for inner in body:
        yield from _statement(inner, indent + _INDENT)
    if isinstance(s, For | If | Alloc) and not body:
        yield f"{indent}{_INDENT}pass"
    if isinstance(s, If) and s.orelse:
        yield f"{indent}else:"
        for inner in s.orelse:
            yield from _statement(inner, indent + _INDENT)


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
        case Apply() if v.fn in _INFIX and len(v.args) == 2:
            text = f"{_value(v.args[0], True)} {_INFIX[v.fn]} {_value(v.args[1], True)}"
            return f"({text})" if inner else text
        case Apply():
            return f"{v.fn}({', '.join(map(_value, v.args))})"
        case Masked():
            return f"({_value(v.value)} if {conditions_text(v.conds)} else {_value(v.otherwise)})"


def _const(c: Const) -> str:
    if c.dtype.kind == "bool":
        return "true" if c.value else "false"
    number = repr(float(c.value)) if c.dtype.kind == "float" else str(int(c.value))
    return number if c.dtype.name in ("f32", "i32") else f"{number}_{c.dtype}"
