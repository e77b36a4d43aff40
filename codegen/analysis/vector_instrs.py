"""The vector instructions of a device, found by their meaning: `D[i] = S[i]` on contiguous elements, executed by one unit.

    load    from a memory to registers        copy      from a memory to a memory, synchronous or not
    store   from registers to a memory        filled    a copy of the first `n` elements; the rest of the target is zero

No instruction is known by its name. Element r of a register operand is in register r; of a memory operand it is r elements
after the address.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...dsl.device import Device, Instr, Operand
from ...dsl.index.expr import Var, as_expr
from ...dsl.types import DType
from ...dsl.values import Apply, Cast, Const, IndexValue, Load, Value


@dataclass(frozen=True)
class VectorInstr:
    """`count` elements from `source` to `target`; `live`: the operand that says how many are to be read, of a filled copy.

    `align`: by operand, the bytes that must divide its address."""

    instr: Instr
    kind: str
    count: int
    dtype: DType
    source: Operand
    target: Operand
    live: Operand | None = None

    @property
    def align(self) -> int:
        """Bytes that must divide both addresses."""
        return max(self.source.alignment, self.target.alignment, 1)


class VectorInstrs:
    """The vector instructions of one device."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.register = device.memories[-1].name
        self._all = tuple(m for i in device.instrs if (m := self._member(i)) is not None)
        self._by_name = {m.instr.name: m for m in self._all}
        self._widest: dict[tuple, tuple[VectorInstr, ...]] = {}

    def of(self, instr: Instr) -> VectorInstr | None:
        return self._by_name.get(instr.name)

    def fitting(
        self, kind: str, source: str, target: str, dtype: DType, awaits: tuple[str, ...] | None = None
    ) -> tuple[VectorInstr, ...]:
        """Those between two memories for a type, the widest first; `awaits` as the instruction has it."""
        key = kind, source, target, dtype.name, awaits
        if key not in self._widest:
            found = (
                m
                for m in self._all
                if (m.kind, m.source.memory, m.target.memory, m.dtype, m.instr.awaits) == (kind, source, target, dtype, awaits)
            )
            self._widest[key] = tuple(sorted(found, key=lambda m: -m.count))
        return self._widest[key]

    def __iter__(self) -> Iterator[VectorInstr]:
        return iter(self._all)

    def _member(self, instr: Instr) -> VectorInstr | None:
        s = instr.statement
        if instr.level != self.device.levels[-1].name or instr.accumulate or s.reduction is not None or len(s.indices) != 1:
            return None
        (i,) = s.indices
        count = s.ranges[0][1].constant
        target = instr.operand(s.target)
        read = _copied(s.value, i)
        if read is None or count is None:
            return None
        source, live = instr.operand(read[0]), instr.operand(read[1]) if read[1] else None
        if source.dtype != target.dtype or not (_straight(source, count) and _straight(target, count)):
            return None
        ends = source.memory == self.register, target.memory == self.register
        kind = {(False, True): "load", (True, False): "store", (False, False): "copy"}.get(ends)
        if kind is None or (live is not None and kind != "copy") or len(instr.operands) != (2 if live is None else 3):
            return None
        return VectorInstr(instr, "filled" if live is not None else kind, count, source.dtype, source, target, live)


def vector_instrs(device: Device) -> VectorInstrs:
    """The vector instructions of a device, cached: each copy and each variant of a program needs them."""
    return device.__dict__.get("_members") or device.__dict__.setdefault("_members", VectorInstrs(device))


def _copied(value: Value, i: str) -> tuple[str, str | None] | None:
    """(source, operand that says how many are live) of `S[i]` and of `where(i < n, S[i], 0)`."""
    match value:
        case Load(tensor=tensor, indices=(at,)) if at == as_expr(Var(i)):
            return tensor, None
        case Apply(fn="where", args=(Apply(fn="lt", args=(index, limit)), taken, other)) if _is_index(index, i) and _is_zero(
            other
        ):
            inner = _copied(_stripped(taken), i)
            limit = _stripped(limit)
            if inner is not None and isinstance(limit, Load) and not limit.indices:
                return inner[0], limit.tensor
    return None


def _is_index(v: Value, i: str) -> bool:
    v = _stripped(v)
    return isinstance(v, IndexValue) and v.expr == as_expr(Var(i))


def _is_zero(v: Value) -> bool:
    v = _stripped(v)
    return isinstance(v, Const) and v.value == 0


def _stripped(v: Value) -> Value:
    """The value without conversions: functions take values in the type they compute in, and stores round them back."""
    while isinstance(v, Cast):
        v = v.arg
    return v


def _straight(o: Operand, count: int) -> bool:
    """Element r of a unit is the r-th, whichever unit it is."""
    return o.shape == (count,) and len(o.coords) <= 1 and o.map == (as_expr(o.coords[0]) if o.coords else as_expr(0),)
