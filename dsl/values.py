"""Value expressions: the typed scalar arithmetic of ops and of tile programs.

Pure trees. `Load` names a tensor (in an op) or a buffer (in a tile program). Index arithmetic is `dsl.index.expr`, not this.
Meaning (docs/numbers.md): floats narrower than f32 compute in f32, integers narrower than i32 in i32 and wrap; so `Apply` never
has a narrow type, only loads, casts and constants do. Rounding to a narrower type happens at `Cast` and at stores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import copysign
from operator import is_not

from .index.expr import Expr
from .support.cached import cached_property
from .support.fast_replace import replace
from .types import DType

# Functions of `Apply` that compare, and the sign of each.
COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}


class _Tree:
    """Immutable; what is asked of it is found once."""

    @cached_property
    def loads(self) -> tuple[Load, ...]:
        return tuple([n for n in walk(self) if type(n) is Load])  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class Const(_Tree):
    """A number of a type. 0.0 and -0.0 are two, all NaN are one."""

    value: int | float | bool
    dtype: DType

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Const) or self.dtype != other.dtype:
            return False
        a, b = self.value, other.value
        return (a != a and b != b) or (a == b and (bool(a) or copysign(1, a) == copysign(1, b)))

    def __hash__(self) -> int:
        return hash((self.value if self.value == self.value else None, self.dtype))


@dataclass(frozen=True)
class IndexValue(_Tree):
    """An index or a size used as a number (i64)."""

    expr: Expr
    dtype: DType


@dataclass(frozen=True)
class Load(_Tree):
    """The element of a tensor or buffer. `otherwise`: the value where the access leaves the tensor (ops only)."""

    tensor: str
    indices: tuple[Expr, ...]
    dtype: DType
    otherwise: Value | None = None


@dataclass(frozen=True)
class Cast(_Tree):
    """Conversion: float to integer truncates and saturates, NaN to 0; f8 saturates; integers wrap."""

    arg: Value
    dtype: DType


@dataclass(frozen=True)
class Apply(_Tree):
    """A scalar function of values of one type (`dtype` is the result's; comparisons give bool).

    fn: add sub mul div floordiv mod neg min max pow fma  lt le gt ge eq ne  and or not  where (c, a, b)
        abs exp exp2 log log2 log1p expm1 sqrt rsqrt sin cos tan tanh sinh cosh asin acos atan atan2 erf floor ceil round
        trunc sigmoid relu gelu silu
    `div` is float division, `floordiv` and `mod` are for integers and floor. Tile programs have `divide_by(x, d, r)`, too: it
    is x / d, and r is `reciprocal(d)`, computed before a loop. `scaled(x, c)` is x * c, and 0 where x is 0, whatever c is.
    `above_zero(x)` is x, and 1 where x is 0 or less.
    """

    fn: str
    args: tuple[Value, ...]
    dtype: DType


@dataclass(frozen=True)
class Masked(_Tree):
    """`value` where all `conds` (each meaning expr >= 0) hold, else `otherwise`.

    `anywhere`: evaluating `value` elsewhere does no harm, so vectors choose between the two. Without it, it may leave a tensor.
    """

    conds: tuple[Expr, ...]
    value: Value
    otherwise: Value
    dtype: DType
    anywhere: bool = False


@dataclass(frozen=True)
class Part(_Tree):
    """The value that the `Shared` around it has under that name."""

    name: str
    dtype: DType


@dataclass(frozen=True)
class Shared(_Tree):
    """`value`, in which `parts` are computed once each however often they are read; later ones may read earlier ones.

    Of what is being scheduled only: ops have intermediates, and tile programs registers.
    """

    parts: tuple[tuple[str, Value], ...]
    value: Value
    dtype: DType


Value = Const | IndexValue | Load | Cast | Apply | Masked | Part | Shared


IDENTITY: dict[str, float | int | bool] = {
    "sum": 0, "prod": 1, "max": float("-inf"), "min": float("inf"), "any": False, "all": True,
    "argmax": float("-inf"), "argmin": float("inf"),
}  # fmt: skip


def neutral_value(kind: str, dtype: DType) -> Const:
    """The value that a reduction starts from; integers have no infinity, so their extremes stand for it."""
    value = IDENTITY[kind]
    if dtype.kind in ("int", "uint") and isinstance(value, float) and value in (float("inf"), float("-inf")):
        low = 0 if dtype.kind == "uint" else -(1 << (dtype.bits - 1))
        high = (1 << (dtype.bits if dtype.kind == "uint" else dtype.bits - 1)) - 1
        value = low if value < 0 else high
    return Const(value, dtype)


def children(v: Value) -> tuple[Value, ...]:
    match v:
        case Load():
            return () if v.otherwise is None else (v.otherwise,)
        case Apply():
            return v.args
        case Cast():
            return (v.arg,)
        case Const() | IndexValue() | Part():
            return ()
        case Masked():
            return (v.value, v.otherwise)
        case Shared():
            return (*[part for _, part in v.parts], v.value)


def rebuild(v: Value, kids: tuple[Value, ...]) -> Value:
    """The same node over other children."""
    match v:
        case Const() | IndexValue() | Part():
            return v
        case Load():
            return replace(v, otherwise=kids[0]) if kids else v
        case Cast():
            return replace(v, arg=kids[0])
        case Apply():
            return replace(v, args=kids)
        case Masked():
            return replace(v, value=kids[0], otherwise=kids[1])
        case Shared():
            names = [name for name, _ in v.parts]
            return replace(v, parts=tuple(zip(names, kids[:-1], strict=True)), value=kids[-1])


def transform(v: Value, f: Callable[[Value], Value | None]) -> Value:
    """Top-down rewriting: where `f` gives a value it replaces the node (not entered again), else children are rewritten."""
    new = f(v)
    if new is not None:
        return new
    kids = children(v)
    others = tuple([transform(k, f) for k in kids])
    return rebuild(v, others) if any(map(is_not, others, kids)) else v


def rename_loads(v: Value, names: Mapping[str, str]) -> Value:
    """The value where what is loaded has other names."""
    return transform(v, lambda x: replace(x, tensor=names[x.tensor]) if isinstance(x, Load) and x.tensor in names else None)


def with_loads(v: Value, values: Mapping[str, Value]) -> Value:
    """The value where loads of these tensors are other values."""
    return transform(v, lambda x: values.get(x.tensor) if isinstance(x, Load) else None)


def walk(v: Value) -> Iterator[Value]:
    """The value and all that is in it, from the left."""
    left = [v]
    while left:
        v = left.pop()
        yield v
        left += reversed(children(v))


def copied(v: Value) -> Value:
    """The value with copies in place of what it shares."""
    parts: dict[str, Value] = {}

    def step(n: Value) -> Value | None:
        if isinstance(n, Part):
            return parts.get(n.name)
        if not isinstance(n, Shared):
            return None
        for name, part in n.parts:
            parts[name] = transform(part, step)
        return transform(n.value, step)

    return transform(v, step)


def loads(v: Value) -> tuple[Load, ...]:
    """The loads in the value, from the left."""
    return (v,) if type(v) is Load and v.otherwise is None else v.loads  # which it need not keep: it would keep itself


_CHEAP = {"add", "sub", "mul", "div", "neg", "abs", "min", "max", "fma", "floordiv", "mod", "relu", "sqrt", "rsqrt"}
_CHEAP |= {"where", "lt", "le", "gt", "ge", "eq", "ne", "and", "or", "not"}


def is_expensive(v: Value) -> bool:
    """Whether computing it again costs more than reading it from a cache."""
    return any(isinstance(x, Apply) and x.fn not in _CHEAP for x in walk(v))
