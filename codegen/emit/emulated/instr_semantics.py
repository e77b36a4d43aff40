"""The meaning of an instruction, as statements over whole operands, and as text.

    C[m, n] += sum(k) f32(A[m, k]) * f32(B[k, n])

is, with `total` in f64,

    total[m, n] = 0;  total[m, n] += f32(A[m, k]) * f32(B[k, n]) for each k, m, n;  C[m, n] = C[m, n] + total[m, n]

The reduced indices are the outer loops: inner loops have no chain of sums, so compilers vectorize them.

BYTES  a copy that fills with zeros what it does not read moves bytes: storing an f8 would make an infinity the largest number.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from ....dsl.device import Device, Instr, Operand
from ....dsl.errors import InternalError
from ....dsl.index.expr import Expr, Var, as_expr
from ....dsl.types import TYPES, DType
from ....dsl.values import Apply, Cast, Const, IndexValue, Load, Value, children, loads, transform
from ...ir.program import Program
from ...ir.tile_ir import Buffer, For, Stmt, Store
from ..c.c_expr import BOOL, ELEMENTS, CExpr, Helper, storage
from ..c.c_text import print_texts
from ..c.text_builder import SourceText
from ..gpu.simt_statements import DialectSpelling, GpuBody, GpuContext, GpuIndex
from ..lane_analysis import LaneInfo

_COMBINE = {"sum": "add", "prod": "mul", "max": "max", "min": "min", "any": "or", "all": "and"}
_TOTAL = "total"
_BYTE = TYPES["u8"]


@dataclass(frozen=True)
class InstrOp:
    """`arrays` contain whole operands, row by row, in the type they compute in (copies: as they are stored)."""

    arrays: tuple[Buffer, ...]
    total: Buffer | None
    body: tuple[Stmt, ...]

    def array(self, operand: Operand) -> Buffer:
        return next(b for b in self.arrays if b.name == operand.name)


def instr_op(instr: Instr, device: Device) -> InstrOp:
    s = instr.statement
    if s.reduction is not None and s.reduction.kind not in _COMBINE:
        raise InternalError(f"the instruction {instr.name} is a {s.reduction.kind}")
    assigns = s.reduction is None and not instr.accumulate
    copies = assigns and isinstance(s.value, Load)
    outer = device.memories[0].name, device.levels[0].name
    target = instr.operand(s.target)
    moved = _moved_bytes(s.value, target.dtype) if assigns else None

    def held(o: Operand) -> DType:
        if copies:
            return o.dtype
        return _BYTE if moved is not None and o.dtype == target.dtype else o.dtype.compute

    arrays = tuple(Buffer.row_major(o.name, held(o), "workspace", *outer, o.shape) for o in instr.operands)
    at = tuple(as_expr(Var(i)) for i in s.indices)
    value = s.value if copies else moved or transform(s.value, _computed)
    if assigns:
        return InstrOp(arrays, None, _nest(s, s.indices, Store(target.name, at, value)))
    kind, src = s.reduction.kind if s.reduction else "sum", s.value.dtype
    wide = TYPES["f64"] if src.kind == "float" else src
    total = Buffer.row_major(_TOTAL, wide, "workspace", *outer, target.shape)
    sofar = Load(_TOTAL, at, wide)
    body = _nest(s, s.indices, Store(_TOTAL, at, _identity(kind, wide)))
    reduced = s.reduction.indices if s.reduction else ()
    body += _nest(s, (*reduced, *s.indices), Store(_TOTAL, at, _combined(kind, sofar, _cast(value, wide))))
    if instr.accumulate:
        before = Load(target.name, at, target.dtype.compute)
        sofar = _combined(kind, _cast(before, wide), sofar)
    body += _nest(s, s.indices, Store(target.name, at, _cast(sofar, target.dtype)))
    return InstrOp(arrays, total, body)


def _moved_bytes(v: Value, dtype: DType) -> Value | None:
    """BYTES: the value that is stored as the type, of bytes; None where it is no choice between an element of an f8 and 0."""
    if not (isinstance(v, Apply) and v.fn == "where" and dtype.kind == "float" and dtype.bytes == 1):
        return None
    condition, element, zero = v.args[0], *map(_without_casts, v.args[1:])
    if not (isinstance(element, Load) and element.dtype == dtype and isinstance(zero, Const) and zero.value == 0):
        return None
    return Apply("where", (transform(condition, _computed), replace(element, dtype=_BYTE), Const(0, _BYTE)), _BYTE)


def _without_casts(v: Value) -> Value:
    while isinstance(v, Cast):
        v = v.arg
    return v


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

    match body:
        case Store():
            return replace(body, coords=tuple(e.subs(known) for e in body.coords), value=_put(body.value, known))
        case For():
            return replace(body, body=tuple(_within(x, index, extent) for x in body.body))
    return body


def _put(v: Value, known: Mapping[Var, Expr]) -> Value:
    """A value whose index variables stand for something else."""

    def one(v: Value) -> Value | None:
        match v:
            case Load():
                return replace(v, indices=tuple(e.subs(known) for e in v.indices))
            case IndexValue():
                return replace(v, expr=v.expr.subs(known))
        return None

    return transform(v, one)


def guard_of(instr: Instr, operand: str) -> Value | None:
    """READ_WHAT_IS_TAKEN: the condition under which an element of an operand is read, as a value over the statement's indices;
    None: always.

    It is read on the taken side of a `where`, and may be outside all buffers otherwise.
    """
    found: list[Value | None] = []

    def visit(v: Value, here: Value | None) -> None:
        match v:
            case Load() if v.tensor == operand:
                found.append(here)
            case Apply(fn="where", args=(cond, one, other)):
                visit(cond, here)
                known = operand not in {x.tensor for x in loads(cond)}
                visit(one, _both(here, cond) if known else here)
                visit(other, _both(here, Apply("not", (cond,), BOOL)) if known else here)
            case _:
                for child in children(v):
                    visit(child, here)

    visit(instr.statement.value, None)
    out = found[0] if found else None
    for v in found:
        if v is None or out is None:
            return None
        out = out if v is out else Apply("or", (out, v), BOOL)
    return out


def subscripts(instr: Instr, operand: Operand) -> tuple[str, ...]:
    """The indices of the statement that subscript an operand, one an axis."""
    s = instr.statement
    if operand.name == s.target:
        return s.indices
    load = next(x for x in loads(s.value) if x.tensor == operand.name)
    return tuple(next(iter(e.variables())).name for e in load.indices)


def _both(a: Value | None, b: Value) -> Value:
    return b if a is None else Apply("and", (a, b), BOOL)


class OpText:
    """The text of an op and of the places in its arrays; `needs` gets the helper functions that it calls."""

    def __init__(
        self, op: InstrOp, device: Device, spelling: DialectSpelling, needs: dict[Helper, None], taken: tuple[str, ...]
    ) -> None:
        self.op = op
        self.text = SourceText(_unbound, lambda name: needs.setdefault(Helper(name)), GpuIndex)
        for name in taken:
            self.text.names.fresh(name)
        program = Program("op", device, (), (), (), op.arrays, ())
        lanes = LaneInfo(None, 1, frozenset(), {}, frozenset())
        arrays = {b.name: b for b in (*op.arrays, *([op.total] if op.total else []))}
        self.ctx = GpuContext(program, lanes, self.text, arrays, needs)
        for name in arrays:
            self.ctx.emitted_names[name] = self.text.fresh(name)
        self.body = GpuBody(self.ctx, spelling, lambda s: [], lambda s: None, frozenset())

    def name(self, b: Buffer) -> str:
        return self.ctx.emitted_names[b.name]

    def declarations(self, only: Collection[str] | None = None) -> list[str]:
        """Of all arrays, or of those of some operands."""
        arrays = [*self.op.arrays, *([self.op.total] if self.op.total else [])]
        arrays = [b for b in arrays if only is None or b.name in only]
        return [f"{ELEMENTS[storage(b.dtype)]} {self.name(b)}[{b.size}];" for b in arrays]

    def guard(self, value: Value, operand: Operand, indices: tuple[str, ...]) -> str:
        """A condition of `guard_of`, for the element that a place of the operand's fragment holds. `indices` subscript it."""
        known = {Var(i): e for i, e in zip(indices, operand.map, strict=True)}
        shown = _put(transform(value, _computed), known)
        self._learn(operand.coords)
        return self.body.values.value(shown).text

    def statements(self) -> list[str]:
        self.text.begin()
        self.body.block(self.op.body)
        return print_texts(self.text.finish())

    def _learn(self, coords: tuple[Var, ...]) -> None:
        self.text.index.learn({v: v.hi for v in coords})  # type: ignore[attr-defined]

    def place(self, b: Buffer, index: tuple[Expr, ...], coords: tuple[Var, ...]) -> str:
        """The linear place of an element whose index is a map of a fragment's coordinates."""
        self._learn(coords)
        total = as_expr(0)
        for e, stride in zip(index, b.strides, strict=True):
            total = total + e * stride
        return self.text.index.text(total)

    def loaded(self, text: str, operand: Operand) -> str:
        """A stored element in the form of an array's elements."""
        dtype = self.op.array(operand).dtype
        if dtype in (operand.dtype, _BYTE):
            return text
        return self.body.values.from_storage(text, False, operand.dtype, False).text

    def stored(self, text: str, operand: Operand) -> str:
        dtype = self.op.array(operand).dtype
        if dtype in (operand.dtype, _BYTE):
            return text
        return self.body.values.to_storage(CExpr(text, dtype), operand.dtype, False).text


def _unbound(v: Var) -> str:
    return v.name  # a coordinate of a fragment: the loops over them are ours
