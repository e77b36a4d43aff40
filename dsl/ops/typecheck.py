"""The types of values (docs/numbers.md), and the typed trees that follow.

COMPUTE_WIDE: floats narrower than f32 compute in f32, integers narrower than i32 in i32; f32 with f64 is f64, i32 with i64
is i64, an integer with a float is the float. LITERALS_ADAPT: a literal takes the type of the other operand, and so do sizes and
indices next to a float (`X[i] / N`, `rsqrt(D)`); among integers these are i64.
LITERALS_ARE_EXACT: `1024*1024*4096` is one literal. It has no type in which it could overflow before it takes one.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from ..errors.op import BoolArithmetic, LiteralRange, NeedsCast, WrongOperand
from ..source import Span
from ..support.fast_replace import replace
from ..support.memoised import IdentityMemo
from ..types import TYPES, DType
from ..values import Apply, Cast, Const, IndexValue, Load, Masked, Value
from .builtins import FUNCTIONS
from .declare_op import Domain
from .domains import inside_conditions
from .untyped_body import Bound, Convert, Literal, Number, Operation, Read, Reduced

BOOL, I32, I64, F32, F64 = (TYPES[n] for n in ("bool", "i32", "i64", "f32", "f64"))

# What a value without a type of its own is: a literal integer, an integer with a size or an index in it, a real.
INT, SIZE, REAL = "an integer literal", "an integer", "a real"
Kind = DType | str

_OF_INTEGERS: dict[str, Callable[..., Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda a, b: a // b if b else 0,  # docs/numbers.md, "Integers"
    "%": lambda a, b: a % b if b else 0,
    "min": min,
    "max": max,
    "abs": abs,
}

_ARITHMETIC = {"+": "add", "-": "sub", "*": "mul", "/": "div", "%": "mod", "neg": "neg"}
_COMPARISONS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}
_LIMITS = {"f32": 3.4028235677973366e38, "tf32": 3.4011621342146535e38, "bf16": 3.3961775292304e38, "f16": 65520.0}


class Typing:
    """Types the values of one op; `tensors` gives the element type of every tensor that may be read, `domains` the domain of
    those that have one."""

    def __init__(self, tensors: Mapping[str, DType], domains: Mapping[str, Domain]) -> None:
        self.tensors, self.domains = tensors, domains
        self._kinds: IdentityMemo[Bound, Kind] = IdentityMemo()

    # -- kinds

    def kind(self, b: Bound) -> Kind:
        """The type `b` has of its own, or INT, SIZE, REAL. Raises BoolArithmetic, WrongOperand."""
        return self._kinds.of(b, self._kind)

    def _kind(self, b: Bound) -> Kind:
        match b:
            case Literal(value=value):
                return BOOL if isinstance(value, bool) else INT if isinstance(value, int) else REAL
            case Number():
                return SIZE
            case Read(tensor=tensor):
                return self.tensors[tensor]
            case Convert(dtype=dtype):
                self.kind(b.arg)
                return dtype
            case Operation():
                return self._operation_kind(b)
            case Reduced():
                raise AssertionError("reductions are split before values are typed")

    def _operation_kind(self, b: Operation) -> Kind:
        fn = b.fn
        if fn in ("and", "or", "not"):
            for a in b.args:
                if self.kind(a) != BOOL:
                    raise WrongOperand(f"`{fn}` takes truth values, not {_a(self.kind(a))}", a.span, help="compare: `x != 0`")
            return BOOL
        if fn in _COMPARISONS:
            self._together(b, bools=fn in ("==", "!="))
            return BOOL
        if fn == "where":
            if self.kind(b.args[0]) != BOOL:
                message = f"the first argument of `where` is a condition, not {_a(self.kind(b.args[0]))}"
                raise WrongOperand(message, b.args[0].span, help="compare: `x != 0`")
            return self._together(b, bools=True, args=b.args[1:])
        kind = self._together(b)
        if fn in _ARITHMETIC or FUNCTIONS[fn].takes != "float":
            if fn == "%" and (kind == REAL or (isinstance(kind, DType) and kind.kind == "float")):
                raise WrongOperand("`%` is for integers", b.span, help="of floats it is `x - floor(x / y) * y`")
            return kind
        if kind in (INT, SIZE):
            return REAL
        if isinstance(kind, DType) and kind.kind != "float":
            message = f"`{fn}` takes floats, not {_a(kind)}"
            raise WrongOperand(message, b.span, help=f"say in which type: `{fn}(f32(...))`")
        return kind

    def _together(self, b: Operation, bools: bool = False, args: tuple[Bound, ...] | None = None) -> Kind:
        """The kind of operands that meet in one operation."""
        args = b.args if args is None else args
        kinds = [self.kind(a) for a in args]
        if BOOL in kinds:
            if bools and all(k == BOOL for k in kinds):
                return BOOL
            culprit = args[kinds.index(BOOL)]
            what = f"`{b.fn}`" if b.fn not in ("neg",) else "`-`"
            help = "write `i32(...)` to count truth values, or `where(c, a, b)` to choose"
            raise BoolArithmetic(f"{what} cannot take a truth value here", culprit.span or b.span, help=help)
        strong = [k.compute for k in kinds if isinstance(k, DType)]
        floats = [k for k in strong if k.kind == "float"]
        if floats:
            return F64 if F64 in floats else F32
        if strong:
            return F32 if REAL in kinds else I64 if I64 in strong or SIZE in kinds else I32
        return REAL if REAL in kinds else SIZE if SIZE in kinds else INT

    def settled(self, kind: Kind, hint: DType | None = None) -> DType:
        """The type of a value that meets nothing: f32 (f64 where `hint` is), i32 for literals, i64 for sizes."""
        if isinstance(kind, DType):
            return kind
        if hint is not None and hint.kind == "float":
            return hint.compute
        return F32 if kind == REAL else I64 if kind == SIZE or hint == I64 else I32

    # -- values

    def value(self, b: Bound, dtype: DType) -> Value:
        """`b` as a value of type `dtype`, converted where its own type is another. Raises as `kind`, LiteralRange."""
        kind = self.kind(b)
        b = _exact(b) if kind in (INT, REAL) else b
        if isinstance(b, Literal) and kind != BOOL:
            return _literal(b, dtype)
        if isinstance(kind, DType):
            own = kind
        elif kind == REAL:
            own = dtype if dtype in (F32, F64) else F32
        else:
            own = dtype if dtype in (I32, I64) and kind == INT else I64
        built = self._own(b, own)
        return built if own == dtype else Cast(built, dtype)

    def _own(self, b: Bound, dtype: DType) -> Value:
        """`b` as a value of its own type `dtype` (settled, where it had none)."""
        match b:
            case Literal(value=value):
                return Const(value, dtype)
            case Number(expr=expr):
                return IndexValue(expr, I64)
            case Read(tensor=tensor, subscripts=subscripts):
                otherwise = self._otherwise(b, dtype)
                load = Load(tensor, subscripts, dtype, otherwise)
                conds = () if otherwise is None else inside_conditions(self.domains, tensor, subscripts)
                return load if otherwise is None or not conds else Masked(conds, load, otherwise, dtype, anywhere=True)
            case Convert(arg=arg):
                return self._convert(arg, dtype)
            case Operation(fn=fn, args=args):
                return self._operation(fn, args, dtype, b)
        raise AssertionError(b)

    def _operation(self, fn: str, args: tuple[Bound, ...], dtype: DType, b: Operation) -> Value:
        if fn in ("and", "or", "not"):
            return Apply(fn, tuple(self.value(a, BOOL) for a in args), BOOL)
        if fn in _COMPARISONS:
            kind = self._together(b, bools=True)
            if kind == INT and not all(map(_fits_i32, args)):
                kind = I64
            met = self.settled(kind)
            return Apply(_COMPARISONS[fn], tuple(self.value(a, met) for a in args), BOOL)
        if fn == "where":
            return Apply("where", (self.value(args[0], BOOL), *(self.value(a, dtype) for a in args[1:])), dtype)
        values = tuple(self.value(a, dtype) for a in args)
        if fn in ("min", "max"):  # of two at a time
            out = values[0]
            for v in values[1:]:
                out = Apply(fn, (out, v), dtype)
            return out
        if fn == "/" and dtype.kind != "float":
            return Apply("floordiv", values, dtype)
        return Apply(_ARITHMETIC.get(fn, fn), values, dtype)

    def _convert(self, arg: Bound, dtype: DType) -> Value:
        kind = self.kind(arg)
        arg = _exact(arg) if kind in (INT, REAL) else arg
        if kind == REAL:  # rounded once
            own = F32 if dtype == F32 else F64 if isinstance(arg, Literal) or dtype == F64 else F32
        elif kind == INT:
            own = I32 if _fits_i32(arg) else I64
            if isinstance(arg, Literal) and dtype.kind == "float":
                return _literal(arg, dtype) if dtype.compute == dtype else Cast(_literal(arg, F64), dtype)
        else:
            own = self.settled(kind)
        value = self.value(arg, own)
        return value if own == dtype else Cast(value, dtype)

    def _otherwise(self, b: Read, dtype: DType) -> Value | None:
        """The `else` value, of the tensor's own type."""
        if b.otherwise is None:
            return None
        kind = self.kind(b.otherwise)
        fits = kind in (dtype, INT) or (kind in (REAL, SIZE) and dtype.kind == "float") or (kind == SIZE and dtype == I64)
        if fits:
            if dtype == BOOL and kind != BOOL:
                raise WrongOperand(f"`{b.tensor}` holds truth values; its `else` value is `true` or `false`", b.otherwise.span)
            return self.value(b.otherwise if isinstance(kind, DType) else _held(b.otherwise, dtype), dtype)
        help = f"write `{dtype}(...)`"
        raise NeedsCast(f"the `else` value is {_a(kind)}; `{b.tensor}` holds {dtype}", b.otherwise.span, help=help)


def check_store(kind: Kind, dtype: DType, target: str, span: Span | None) -> None:
    """CAST_TO_LOSE: a float does not become an integer, nor anything a truth value, without a cast. Raises NeedsCast."""
    source = "float" if kind == REAL else "int" if kind in (INT, SIZE) else kind.kind if isinstance(kind, DType) else ""
    family = {"float": "float", "int": "int", "uint": "int", "bool": "bool"}
    have, want = family[source], family[dtype.kind]
    if have == want or (have, want) == ("int", "float"):
        return
    why = "truncates" if have == "float" and want == "int" else "is never implied"
    help = f"write `{dtype}(...)`" if want != "bool" else "compare: `... != 0`"
    raise NeedsCast(f"`{target}` holds {dtype}, its value is {_a(kind)}: the conversion {why}", span, help=help)


def _exact(b: Bound) -> Bound:
    """LITERALS_ARE_EXACT: arithmetic on nothing but integer literals as the literal that it is, and a real with its sign."""
    if not isinstance(b, Operation):
        return b
    values = [a.value for a in map(_exact, b.args) if isinstance(a, Literal) and not isinstance(a.value, bool)]
    if len(values) != len(b.args):
        return b
    if b.fn == "neg":
        return Literal(-values[0], b.span)
    if b.fn not in _OF_INTEGERS or not all(isinstance(x, int) for x in values):
        return b
    return Literal(_OF_INTEGERS[b.fn](*values), b.span)


def _held(b: Bound, dtype: DType) -> Bound:
    """A value without a type of its own whose literals, where they are what it chooses, are rounded once to the type that holds
    it. Raises LiteralRange."""
    b = _exact(b)
    if isinstance(b, Literal):
        value = _literal(b, dtype).value
        if not isinstance(b.value, float):
            return b
        from ..semantics.numerics import constant

        return Literal(float(constant(value, dtype)), b.span)
    if not isinstance(b, Operation) or b.fn not in ("where", "min", "max"):
        return b
    first = 1 if b.fn == "where" else 0
    return replace(b, args=(*b.args[:first], *(_held(a, dtype) for a in b.args[first:])))


def _fits_i32(b: Bound) -> bool:
    """Of a value of integer literals. One that is chosen by data may have any size."""
    b = _exact(b)
    return isinstance(b, Literal) and abs(b.value) < 2**31


def _literal(b: Literal, dtype: DType) -> Const:
    value = b.value
    if dtype.kind == "float":
        x = float(value)
        if math.isfinite(x) and abs(x) >= _LIMITS.get(dtype.name, math.inf):
            raise LiteralRange(f"`{value:g}` is too large for {dtype}", b.span, help="infinity is `inf`")
        if dtype.name == "f8e4m3" and math.isinf(x):
            raise LiteralRange("f8e4m3 has no infinity", b.span)
        return Const(x, dtype)
    if isinstance(value, float):
        raise NeedsCast(f"`{value:g}` is no {dtype}", b.span, help=f"write `{dtype}(...)`")
    if dtype == BOOL:
        raise WrongOperand(f"`{value}` is no truth value; they are `true` and `false`", b.span)
    low = 0 if dtype.kind == "uint" else -(1 << (dtype.bits - 1))
    high = (1 << (dtype.bits - (dtype.kind != "uint"))) - 1
    if not low <= value <= high:
        wide = -(1 << 63) <= value < 1 << 63 and dtype != I64
        help = "convert what it meets to a wider type: `i64(...)`" if wide else "write it as a float"
        raise LiteralRange(f"`{value}` does not fit {dtype}, which holds {low} to {high}", b.span, help=help)
    return Const(value, dtype)


def _a(kind: Kind) -> str:
    if isinstance(kind, str):
        return kind
    return "a truth value" if kind == BOOL else f"{'an' if kind.name[0] in 'if' else 'a'} {kind}"
