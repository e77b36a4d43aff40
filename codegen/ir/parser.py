"""The text of a tile program back to the program: `parse(show(program)) == program`, and `show(parse(text)) == text`.

The grammar is `grammar/tile.lark`; devices and their instructions are looked up by name. Index expressions are not simplified,
because simplification uses facts that a text does not show. Spans are not in the text.

Raises TileText at the place that cannot be parsed, or where a name is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Any

from lark import Lark, Token
from lark.exceptions import UnexpectedInput, UnexpectedToken

from ... import grammar
from ...dsl.device import Device, Instr
from ...dsl.errors.text import TileText
from ...dsl.index.expr import ONE, ZERO, Expr, Fn, Var, as_expr, number
from ...dsl.index.expr import rules as index_rules
from ...dsl.index.intervals import Interval
from ...dsl.source import Source, Span
from ...dsl.support.fast_replace import replace
from ...dsl.types import TYPES, DType
from ...dsl.values import Apply, Cast, Const, IndexValue, Load, Masked, Value
from . import printer
from .program import Program
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
    Needs,
    Piece,
    Staging,
    Stmt,
    Store,
    Units,
    Wait,
)
from .tile_visitors import statements

_HEAD = re.compile(r"^#[^\n]*", re.MULTILINE)  # a line of the schedule, of the program above it
_FUNCTIONS = ("min", "max", "xor")
_OPERATORS = {sign: fn for fn, sign in printer.INFIX.items()}
_TRUTH = ("lt", "le", "gt", "ge", "eq", "ne", "and", "or", "not")


def parse(text: str, device: Callable[[str], Device], name: str = "<tile program>") -> Program:
    """The program of a text. `device`: the device of a name, such as `Module.device`."""
    source = Source(name, text)
    plain = _HEAD.sub(lambda m: " " * len(m[0]), text).rstrip(" \n") + "\n"
    try:
        tree = _lark().parse(plain)
    except UnexpectedInput as fault:
        at = min(fault.pos_in_stream if fault.pos_in_stream is not None else len(text), max(0, len(text) - 1))
        found = repr(str(fault.token)) if isinstance(fault, UnexpectedToken) else repr(text[at : at + 1])
        raise TileText(f"{found} is not expected here", Span(source, at, at + 1)) from None
    reader, result = _Reader(source, device), None
    end = len(text)
    for x in reversed(list(_trees(tree, "program"))):
        begin = x.children[0].start_pos
        head = "\n".join(line[2:] for line in _HEAD.findall(text, begin, end))
        result, end = replace(reader.program(x), head=head, instead=result), begin
    assert result is not None
    return result


@lru_cache(maxsize=1)
def _lark() -> Lark:
    text = files(grammar).joinpath("tile.lark").read_text(encoding="utf-8")
    return Lark(text, parser="lalr", postlex=_Depths(), propagate_positions=True, maybe_placeholders=True)  # type: ignore[arg-type]


class _Depths:
    """Lark's postlex object: a line that stands deeper or less deep than the one before gets a token that says so."""

    always_accept = ("_NL",)

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        depths = [0]
        for token in stream:
            yield token
            if token.type != "_NL":
                continue
            depth = len(token) - token.rindex("\n") - 1
            if depth > depths[-1]:
                depths.append(depth)
                yield Token.new_borrow_pos("_INDENT", "", token)
            while depth < depths[-1]:
                depths.pop()
                yield Token.new_borrow_pos("_DEDENT", "", token)
            if depth != depths[-1]:
                raise UnexpectedToken(Token("_INDENT", "this depth", token.end_pos), set())


def _trees(tree: Any, *kinds: str) -> Iterator[Any]:
    return (x for x in tree.children if hasattr(x, "data") and x.data in kinds)


class _Reader:
    def __init__(self, source: Source, device: Callable[[str], Device]) -> None:
        self.source, self.device = source, device
        self.variables: dict[str, Var] = {}
        self.types: dict[str, DType] = {}  # of buffers

    def fail(self, message: str, at: Any, help: str | None = None) -> TileText:
        start, end = (at.meta.start_pos, at.meta.end_pos) if hasattr(at, "meta") else (at.start_pos, at.end_pos)
        return TileText(message, Span(self.source, start, end), help=help)

    # ------------------------------------------------------------ programs

    def program(self, tree: Any) -> Program:
        self.variables, self.types = {}, {}
        _, name, *rest = tree.children
        target = next(x for x in rest if getattr(x, "type", "") == "DEVICE")
        try:
            device = self.device(str(target))
        except Exception as error:
            raise self.fail(f"there is no device `{target}`", target, help=str(error).split("\n")[0]) from None
        dims = tuple(self.declared(x, printer.DIM) for x in _trees(tree, "declared"))
        lets, finite, conditions, buffers, instrs, conds, aligned = [], [], [], [], [], [], []
        for x in rest[len(dims) or 1 :]:
            match x.data if hasattr(x, "data") else None, x.children if hasattr(x, "children") else ():
                case "size", (_, declared, value):
                    e = self.sum(value)
                    lets.append((self.declared(declared, printer.interval_of(e, {})), e))
                case "finite", (level, declared):
                    finite.append((str(level), self.declared(declared, printer.TAKING_PART)))
                case "require", (cond, note):
                    conditions.append((self.condition(cond), _note(note)))
                case "argument", (kind, buffer):
                    buffers.append(self.buffer(buffer, str(kind)))
                case "instr", (instr, *_):
                    instrs.append(self.instr(instr, device))
                case "need", (cond,):
                    conds.append(self.condition(cond))
                case "aligned", (buffer, multiple):
                    aligned.append((str(buffer), int(multiple)))
        needs = Needs(tuple(conds), tuple(aligned)) if conds or aligned else None
        launches = tuple(self.launch(x) for x in _trees(tree, "launch"))
        return Program(
            str(name), device, dims, tuple(lets), tuple(finite), tuple(buffers), launches, tuple(instrs), tuple(conditions),
            needs=needs,
        )  # fmt: skip

    def instr(self, name: Token, device: Device) -> Instr:
        for instr in device.instrs:
            if instr.name == name:
                return instr
        raise self.fail(f"{device.name} has no instruction `{name}`", name)

    def launch(self, tree: Any) -> Launch:
        name, units, *body = tree.children
        known = dict(self.variables)
        parts = []
        for level, declared, count in (x.children for x in _trees(units, "unit")):  # type: ignore[arg-type]
            e = self.sum(count)
            parts.append(Units(str(level), self.declared(declared, printer.below(ZERO, e, {})), e))
        statements = self.body(body)
        self.variables = known
        return Launch(str(name), tuple(parts), statements)

    def buffer(self, tree: Any, kind: str) -> Buffer:
        name, dtype, shape, _, memory, level, strides, size, passing = tree.children
        self.types[str(name)] = self.dtype(dtype)
        exprs = () if strides is None else self.coords(strides)
        return Buffer(
            str(name), self.types[str(name)], kind, str(memory), str(level), self.coords(shape), exprs, self.sum(size),
            passing=passing is not None,
        )  # fmt: skip

    def dtype(self, name: Any) -> DType:
        if name not in TYPES:
            raise self.fail(f"there is no type `{name}`", name)
        return TYPES[name]

    def declared(self, tree: Any, expected: Interval) -> Var:
        """A variable where it is bound, in the interval that is written, or expected."""
        name, interval = tree.children
        if interval is not None:
            low, _, high = interval.children
            expected = tuple(None if end is None else int(end) for end in (low, high))  # type: ignore[assignment]
        var = self.variables[str(name)] = Var(str(name), *expected)
        return var

    # ------------------------------------------------------------ statements

    def body(self, trees: Sequence[Any]) -> tuple[Stmt, ...]:
        known = dict(self.variables)
        out = [self.statement(x) for x in trees if x is not None and x.data != "nothing"]
        self.variables = known
        return tuple(out)

    def statement(self, tree: Any) -> Stmt:
        parts: Any = tree.children
        match tree.data:
            case "loop":
                declared, _, start, _, stop, step, unroll, *body = parts
                first, end = self.sum(start), self.sum(stop)
                known = dict(self.variables)
                by = ONE if step is None else self.sum(step)
                var = self.declared(declared, printer.below(first, end, {}))
                inner = self.body(body)
                self.variables = known
                return For(var, first, end, by, inner, 1 if unroll is None else int(unroll.children[0] or 0))
            case "let":
                _, declared, extent, value = parts
                let = Let(Var(""), self.sum(value), None if extent is None else self.sum(extent))
                return replace(let, var=self.declared(declared, printer.let_interval(let, {})))
            case "branch":
                conds, turns, *body = parts
                last = body.pop()
                orelse = () if last is None else self.body(last.children)
                return If(self.conds(conds), self.body(body), orelse, turns=turns is not None)
            case "alloc":
                buffer, staging, outlined, *body = parts
                outer = dict(self.types)
                made = self.buffer(buffer, "local")
                inner = self.body(body)
                out = Alloc(made, inner, None, None if staging is None else self.staging(staging, inner), outlined is not None)
                self.types = outer
                return out
            case "store":
                place, atomic, value, using = parts
                name, coords = self.place(place)
                kind = None if atomic is None else str(atomic).split()[1]
                return Store(name, coords, self.value(value), kind, using=None if using is None else str(using))
            case "call":
                name, *pieces = parts
                return Call(str(name), tuple(self.piece(x) for x in pieces if x is not None))
            case "all_reduce":
                kind, *places, level, stride, count = parts
                cells = tuple(self.place(x) for x in places)
                return AllReduce(str(level), str(kind), int(stride), int(count), cells)
            case "barrier":
                return Barrier(str(parts[0]), _note(parts[1]))
            case "commit":
                return Commit(str(parts[0]))
            case "wait":
                return Wait(str(parts[0]), int(parts[1]))
        raise AssertionError(tree.data)

    def staging(self, tree: Any, body: tuple[Stmt, ...]) -> Staging:
        copy, depth, loop, through = tree.children
        # the loop is around the Alloc, or in what fills it
        known = {s.var.name: s.var for s in statements(body) if isinstance(s, For)} | self.variables
        var = None if loop is None else known.get(str(loop), Var(str(loop)))
        return Staging(int(copy), int(depth), var, through is not None)  # type: ignore[arg-type]

    def place(self, tree: Any) -> tuple[str, tuple[Expr, ...]]:
        name, coords = tree.children
        if name not in self.types:
            raise self.fail(f"there is no buffer `{name}` here", name)
        return str(name), self.coords(coords)

    def piece(self, tree: Any) -> Piece:
        place, extent = tree.children
        return Piece(*self.place(place), 1 if extent is None else int(extent))  # type: ignore[arg-type]

    def coords(self, tree: Any) -> tuple[Expr, ...]:
        return tuple(self.sum(x) for x in tree.children if x is not None)

    def conds(self, tree: Any) -> tuple[Expr, ...]:
        return tuple(self.condition(x) for x in _trees(tree, "condition"))

    # ------------------------------------------------------------ values

    def value(self, tree: Any) -> Value:
        parts: Any = tree.children
        match tree.data:
            case "number":
                return self.number(parts[0])
            case "truth":
                return Const(parts[0] == "true", TYPES["bool"])
            case "load":
                name, coords = self.place(parts[0])
                return Load(name, coords, self.types[name])
            case "padded":
                name, coords = self.place(parts[0])
                return Load(name, coords, self.types[name], self.value(parts[1]))
            case "index":
                return IndexValue(self.sum(parts[1]), self.dtype(parts[0]))
            case "masked" | "chosen":
                value, conds, other = parts
                inside = self.value(value)
                return Masked(self.conds(conds), inside, self.value(other), inside.dtype, tree.data == "chosen")
            case "infix":
                left, sign, right = parts
                return _applied(_OPERATORS[str(sign)], (self.value(left), self.value(right)))
            case "apply":
                name, *args = parts
                values = tuple(map(self.value, args))
                if name in TYPES and len(values) == 1:
                    return Cast(values[0], TYPES[name])
                return _applied(str(name), values)
        raise AssertionError(tree.data)

    def number(self, token: Token) -> Const:
        text, _, suffix = token.partition("_")
        known = [suffix] if suffix else ["f32" if re.search(r"[.ni]|e", text) else "i32"]
        dtype = TYPES.get(known[0])
        if dtype is None:
            raise self.fail(f"there is no type `{suffix}`", token)
        try:
            return Const(float(text) if dtype.kind == "float" else int(text), dtype)
        except ValueError:
            raise self.fail(f"{text} is not a value of {dtype}", token) from None

    # ------------------------------------------------------------ index expressions

    def sum(self, tree: Any) -> Expr:
        terms: list[tuple[Any, int]] = []
        const, sign = 0, 1
        for x in tree.children:
            if x is None:
                continue
            if isinstance(x, str):
                sign = -1 if x == "-" else 1
                continue
            e = self.term(x)
            terms += [(a, sign * c) for a, c in e.terms]
            const += sign * e.const
            sign = 1
        return _linear(terms, const)

    def condition(self, tree: Any) -> Expr:
        """What is not negative where the condition holds, see `dsl.index.condition_text`."""
        left, sign, right = tree.children
        low, high = self.sum(left), self.sum(right)
        if sign == "==" and high.constant != 0:
            raise self.fail("the right side of `==` must be 0", right, "`a <= b and b <= a`")
        if sign != "<=" and sign != "<":
            low, high = (high, low) if sign == ">=" else (low, ZERO)
        terms = [*((a, -c) for a, c in low.terms), *high.terms]
        variables = sorted(x for x in terms if isinstance(x[0], Var))
        functions = sorted((x for x in terms if not isinstance(x[0], Var)), key=index_rules.key_of)
        return _linear([*variables, *functions], high.const - low.const - (sign == "<"))

    def term(self, tree: Any) -> Expr:
        parts: Any = tree.children
        match tree.data:
            case "sum":
                return self.sum(tree)
            case "integer":
                return number(int(parts[0]))
            case "variable":
                if parts[0] not in self.variables:
                    raise self.fail(f"there is no variable `{parts[0]}` here", parts[0])
                return as_expr(self.variables[parts[0]])
            case "function":
                name, *args = parts
                if name not in _FUNCTIONS:
                    raise self.fail(f"`{name}` is not a function of index expressions", name, help="there are min, max and xor")
                return _atom(str(name), *map(self.sum, args))
            case "product":
                first, *rest = map(self.term, parts)
                scale = first.constant
                if scale is not None and rest:
                    first, *rest = rest
                for x in rest:
                    first = _atom("mul", first, x)
                return first if scale is None else index_rules.scale(first, scale) if rest or len(parts) > 1 else number(scale)
            case "div" | "mod":
                return _atom(tree.data, *map(self.term, parts))
        raise AssertionError(tree.data)


def _linear(terms: Sequence[tuple[Any, int]], const: int) -> Expr:
    if len(dict(terms)) < len(terms):  # nobody printed this
        return index_rules.linear_combination([(Expr((term,)), 1) for term in terms], const)
    return Expr(tuple(terms), const) if terms else number(const)


def _atom(kind: str, *args: Expr) -> Expr:
    return Expr(((Fn(kind, args), 1),))


def _applied(fn: str, args: tuple[Value, ...]) -> Apply:
    """Functions are of values of one type, which is their result's, but for what tells the truth (`dsl.values.Apply`)."""
    return Apply(fn, args, TYPES["bool"] if fn in _TRUTH else args[-1].dtype.compute)


def _note(token: Any) -> str:
    return "" if token is None else str(token).removeprefix("#").strip()
