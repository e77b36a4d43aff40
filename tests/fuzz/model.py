"""An op as a tree of frozen dataclasses that writes itself as text. `formula` says what it means."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import TypeAlias

FLOATS = ("f64", "f32", "bf16", "f16", "f8e4m3", "f8e5m2")
INTS = ("i64", "i32", "i16", "i8", "u8", "i4")
NARROW = {"bf16": "f32", "f16": "f32", "f8e4m3": "f32", "f8e5m2": "f32", "tf32": "f32", "i16": "i32", "i8": "i32", "u8": "i32"}
NARROW["i4"] = "i32"


def computes_in(dtype: str) -> str:
    """The type that arithmetic on this type is done in."""
    return NARROW.get(dtype, dtype)


@dataclass(frozen=True)
class Number:
    value: float


@dataclass(frozen=True)
class Named:
    """An index, or a size."""

    name: str


@dataclass(frozen=True)
class Read:
    """`tensor[at else fill]`."""

    tensor: str
    at: tuple[Expr, ...] = ()
    fill: Expr | None = None


@dataclass(frozen=True)
class Binary:
    symbol: str
    left: Expr
    right: Expr


@dataclass(frozen=True)
class Apply:
    """A function, a cast by the name of a type, `where`, `not`, or `-` before a value."""

    function: str
    args: tuple[Expr, ...]


Domain: TypeAlias = "tuple[tuple[Expr, str, Expr], ...]"


@dataclass(frozen=True)
class Reduce:
    """`over`: the reduced indices; `stated`: those of them whose range the text must state; `domain`: comparisons that hold for
    the terms that count; `inherited`: what it reads has them."""

    kind: str
    over: tuple[str, ...]
    body: Expr
    stated: tuple[str, ...] = ()
    domain: Domain = ()
    inherited: bool = False


Expr = Number | Named | Read | Binary | Apply | Reduce


@dataclass(frozen=True)
class Tensor:
    name: str
    dtype: str
    shape: tuple[Expr, ...]


@dataclass(frozen=True)
class Statement:
    """`ranges`: each index, free and reduced, with its extent, an expression of sizes. `domain`: comparisons that hold where
    there are elements; a reduction that reads them states them too, and its text leaves them out (`inherited`). `stated`: the
    free indices whose range the text has."""

    target: str
    indices: tuple[str, ...]
    value: Expr
    ranges: tuple[tuple[str, Expr], ...]
    domain: Domain = ()
    stated: tuple[str, ...] = ()

    def extent(self, index: str) -> Expr:
        return dict(self.ranges)[index]


@dataclass(frozen=True)
class Op:
    """`nonempty`: sizes that must not be 0 (an argmax runs over them); `least`: the smallest legal values of others. `params`:
    the name of each, the number that it is given, and the default that the text has for it; `conditions`: of `where`."""

    name: str
    dims: tuple[str, ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    statements: tuple[Statement, ...]
    derived: tuple[tuple[str, Expr], ...] = ()
    nonempty: frozenset[str] = frozenset()
    least: tuple[tuple[str, int], ...] = ()
    params: tuple[tuple[str, int, int | None], ...] = ()
    conditions: Domain = ()

    @property
    def text(self) -> str:
        params = [f"{n}: int" + (f" = {default}" if default is not None else "") for n, _, default in self.params]
        given = ", ".join(x for x in (_tensors(self.inputs), *params) if x)
        head = f"op {self.name}[{', '.join(self.dims)}]({given}) -> ({_tensors(self.outputs)})"
        where = [f"{n} = {bare(written(e))}" for n, e in self.derived]
        where += [f"{bare(written(a))} {symbol} {bare(written(b))}" for a, symbol, b in self.conditions]
        if where:
            head += " where " + ", ".join(where)
        return head + ":\n" + "".join(f"    {_statement(s)}\n" for s in self.statements)


def _tensors(tensors: tuple[Tensor, ...]) -> str:
    return ", ".join(f"{t.name}: {t.dtype}[{', '.join(bare(written(e)) for e in t.shape)}]" for t in tensors)


def _statement(s: Statement) -> str:
    at = ", ".join(f"{i}: {bare(written(s.extent(i)))}" if i in s.stated else i for i in s.indices)
    at = f"[{at}]" if s.indices else ""
    at += f" where {_conditions(s.domain)}" if s.domain else ""
    return f"{s.target}{at} = {bare(written(s.value, dict(s.ranges)))}"


def _conditions(domain: Domain) -> str:
    return ", ".join(f"{bare(written(a))} {sign} {bare(written(b))}" for a, sign, b in domain)


def bare(text: str) -> str:
    """The text without parentheses around all of it."""
    if not text.startswith("("):
        return text
    depth = 0
    for n, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if depth == 0:
            return text[1:-1] if n == len(text) - 1 else text
    return text


def written(e: Expr, ranges: dict[str, Expr] | None = None) -> str:
    """The text of an expression, in parentheses where it is more than an operand."""
    match e:
        case Number(bool() as value):
            return str(value).lower()
        case Number(value):
            return f"(-{-value})" if value < 0 else str(value)
        case Named(name):
            return name
        case Read(tensor, at, fill):
            if not at:
                return tensor
            more = f" else {bare(written(fill, ranges))}" if fill is not None else ""
            return f"{tensor}[{', '.join(bare(written(x, ranges)) for x in at)}{more}]"
        case Binary(symbol, left, right):
            return f"({written(left, ranges)} {symbol} {written(right, ranges)})"
        case Apply("not", (x,)):
            return f"(not {written(x, ranges)})"
        case Apply("-", (x,)):
            return f"(-{written(x, ranges)})"
        case Apply(function, args):
            return f"{function}({', '.join(bare(written(x, ranges)) for x in args)})"
        case Reduce(kind, over, body, stated):
            head = ", ".join(f"{i}: {written((ranges or {})[i])}" if i in stated else i for i in over)
            if e.domain and not e.inherited:
                head += f" where {_conditions(e.domain)}"
            inner = written(body, ranges)
            if isinstance(body, Binary) and body.symbol == "*" and not inner.startswith("((-"):
                inner = bare(inner)  # a reduction takes the product to its right
            return f"({kind}({head}) {inner})"
    raise AssertionError(e)


def walk(node: object) -> Iterator[Expr]:
    """Every expression in a tree of dataclasses and tuples."""
    if isinstance(node, Number | Named | Read | Binary | Apply | Reduce):
        yield node
    if isinstance(node, tuple):
        for x in node:
            yield from walk(x)
    elif is_dataclass(node):
        for f in fields(node):
            yield from walk(getattr(node, f.name))


def reads(node: object) -> Iterator[Read]:
    return (x for x in walk(node) if isinstance(x, Read))
