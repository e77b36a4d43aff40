"""What an instruction computes, as statements over whole operands, and as text.

    C[m, n] += sum(k) f32(A[m, k]) * f32(B[k, n])

is, with `total` in f64,

    total[m, n] = 0;  total[m, n] += f32(A[m, k]) * f32(B[k, n]) for each k, m, n;  C[m, n] = C[m, n] + total[m, n]

The reduced indices are the outer loops, so that inner loops have no chain of sums and compilers use vectors.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from ...dsl.device import Device, Instr, Operand
from ...dsl.errors import InternalError
from ...dsl.index import Expr, Var, as_expr
from ...dsl.types import TYPES, DType
from ...dsl.values import Apply, Cast, Const, Load, Value, transform
from ..emit.code import ELEMENTS, Need, storage
from ..emit.gpu_body import GpuBody, GpuContext, GpuIndex, Spelling
from ..emit.lanes import Lanes
from ..emit.scope import Text
from ..tile import Buffer, For, Program, Stmt, Store

_COMBINE = {"sum": "add", "prod": "mul", "max": "max", "min": "min", "any": "or", "all": "and"}
_TOTAL = "total"


@dataclass(frozen=True)
class Op:
    """`arrays` hold the operands whole, row by row, in the type they compute in (copies: as they are stored)."""

    arrays: tuple[Buffer, ...]
    total: Buffer | None
    body: tuple[Stmt, ...]

    def array(self, operand: Operand) -> Buffer:
        return next(b for b in self.arrays if b.name == operand.name)


def op_of(instr: Instr, device: Device) -> Op:
    s = instr.statement
    if s.reduction is not None and s.reduction.kind not in _COMBINE:
        raise InternalError(f"the instruction {instr.name} is a {s.reduction.kind}")
    copies = isinstance(s.value, Load) and s.reduction is None and not instr.accumulate
    outer = device.memories[0].name, device.levels[0].name
    arrays = tuple(_array(o.name, o.dtype if copies else o.dtype.compute, o.shape, *outer) for o in instr.operands)
    target = instr.operand(s.target)
    at = tuple(as_expr(Var(i)) for i in s.indices)
    value = s.value if copies else transform(s.value, _computed)
    if s.reduction is None and not instr.accumulate:
        return Op(arrays, None, _nest(s, s.indices, Store(target.name, at, value)))
    kind, src = s.reduction.kind if s.reduction else "sum", s.value.dtype
    wide = TYPES["f64"] if src.kind == "float" else src
    total = _array(_TOTAL, wide, target.shape, *outer)
    sofar = Load(_TOTAL, at, wide)
    body = _nest(s, s.indices, Store(_TOTAL, at, _identity(kind, wide)))
    reduced = s.reduction.indices if s.reduction else ()
    body += _nest(s, (*reduced, *s.indices), Store(_TOTAL, at, _combined(kind, sofar, _cast(value, wide))))
    if instr.accumulate:
        before = Load(target.name, at, target.dtype.compute)
        sofar = _combined(kind, _cast(before, wide), sofar)
    body += _nest(s, s.indices, Store(target.name, at, _cast(sofar, target.dtype)))
    return Op(arrays, total, body)


def _computed(v: Value) -> Value | None:
    """Operands are read in the type they compute in."""
    return replace(v, dtype=v.dtype.compute) if isinstance(v, Load) else None


def _cast(v: Value, dtype: DType) -> Value:
    return v if v.dtype == dtype else Cast(v, dtype)


def _combined(kind: str, a: Value, b: Value) -> Value:
    return Apply(_COMBINE[kind], (a, b), a.dtype)


def _identity(kind: str, dtype: DType) -> Const:
    top = float("inf") if dtype.kind == "float" else (1 << (dtype.bits - 1)) - 1
    low = -top if dtype.kind == "float" else -top - 1
    return Const({"sum": 0, "prod": 1, "max": low, "min": top, "any": False, "all": True}[kind], dtype)


def _nest(s, indices: tuple[str, ...], body: Stmt) -> tuple[Stmt, ...]:
    """Loops over the indices, the last innermost."""
    for i in reversed(indices):
        n = s.extent(i).constant
        body = For(Var(i, 0, n - 1), as_expr(0), as_expr(n), as_expr(1), (_within(body, i, n),))
    return (body,)


def _within(body: Stmt, index: str, extent: int) -> Stmt:
    """The variable of a loop has an interval; that of a statement's subscripts has none."""
    known = {Var(index): as_expr(Var(index, 0, extent - 1))}

    def value(v: Value) -> Value | None:
        return replace(v, indices=tuple(e.subs(known) for e in v.indices)) if isinstance(v, Load) else None

    match body:
        case Store():
            return replace(body, coords=tuple(e.subs(known) for e in body.coords), value=transform(body.value, value))
        case For():
            return replace(body, body=tuple(_within(x, index, extent) for x in body.body))
    return body


def _array(name: str, dtype: DType, shape: tuple[int, ...], memory: str, level: str) -> Buffer:
    strides = tuple(as_expr(prod(shape[i + 1 :])) for i in range(len(shape)))
    return Buffer(name, dtype, "workspace", memory, level, tuple(map(as_expr, shape)), strides, as_expr(prod(shape)))


class OpText:
    """The text of an op and of the places in its arrays; `needs` gets the helper functions that it calls."""

    def __init__(self, op: Op, device: Device, spelling: Spelling, needs: dict[Need, None], taken: tuple[str, ...]) -> None:
        self.op = op
        self.text = Text(_unbound, lambda name: needs.setdefault(Need(name)), GpuIndex)
        for name in taken:
            self.text.names.fresh(name)
        program = Program("op", device, (), (), (), op.arrays, ())
        lanes = Lanes(None, 1, frozenset(), {}, frozenset())
        arrays = {b.name: b for b in (*op.arrays, *([op.total] if op.total else []))}
        self.ctx = GpuContext(program, lanes, self.text, arrays, needs)
        for name in arrays:
            self.ctx.spoken[name] = self.text.fresh(name)
        self.body = GpuBody(self.ctx, spelling, lambda s: [], lambda s: None, frozenset())

    def name(self, b: Buffer) -> str:
        return self.ctx.spoken[b.name]

    def declarations(self) -> list[str]:
        arrays = [*self.op.arrays, *([self.op.total] if self.op.total else [])]
        return [f"{ELEMENTS[storage(b.dtype)]} {self.name(b)}[{b.size}];" for b in arrays]

    def statements(self) -> list[str]:
        with self.text.block(None):
            self.body.block(self.op.body)
        return self.text.finish()

    def place(self, b: Buffer, index: tuple[Expr, ...], coords: tuple[Var, ...]) -> str:
        """The linear place of an element whose index is a map of a fragment's coordinates."""
        for v in coords:
            self.text.index.bounds[v] = v.hi  # type: ignore[attr-defined]
        total = as_expr(0)
        for e, stride in zip(index, b.strides, strict=True):
            total = total + e * stride
        return self.text.index.text(total)

    def loaded(self, text: str, operand: Operand) -> str:
        """A stored element as an array holds it."""
        dtype = self.op.array(operand).dtype
        if dtype == operand.dtype:
            return text
        return self.body.values.from_storage(text, False, operand.dtype, False).text

    def stored(self, text: str, operand: Operand) -> str:
        from ..emit.code import Code

        dtype = self.op.array(operand).dtype
        if dtype == operand.dtype:
            return text
        return self.body.values.to_storage(Code(text, dtype), operand.dtype, False).text


def _unbound(v: Var) -> str:
    return v.name  # a coordinate of a fragment: the loops over them are ours
