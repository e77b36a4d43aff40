"""The state of the pass: buffers, instructions, known divisors of sizes, needs so far, fresh names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import gcd

from ....dsl.device import Device, Instr
from ....dsl.index.expr import Expr, Var
from ....dsl.source import Span
from ....dsl.types import DType
from ....dsl.values import Load
from ...analysis.divisibility import MOST, KnownMultiples, Needs, merged_divisors, required_divisors
from ...analysis.vector_instrs import VectorInstrs, vector_instrs
from ...ir.free_names import names_of, numbered_name
from ...ir.limits import WIDEST_ACCESS
from ...ir.program import Program
from ...ir.tile_ir import Alloc, Buffer, Let
from ...ir.tile_visitors import statements


@dataclass(frozen=True)
class AlignmentClaim:
    """What one access takes for granted: divisors of products of sizes, and of the address of an argument."""

    sizes: Needs = ()
    pointer: tuple[str, int] | None = None


@dataclass
class VectorizerState:
    """`assume`: what sizes and arguments are to be divisible by may be asked for at the call. `asks`: that is all that is to be
    found out, and what comes out of nests is not looked at."""

    program: Program
    assume: bool
    asks: bool
    known: KnownMultiples
    members: VectorInstrs
    names: set[str]
    buffers: dict[str, Buffer]
    sizes: dict[tuple[Var, ...], int] = field(default_factory=dict)
    pointers: dict[str, int] = field(default_factory=dict)
    instrs: dict[str, Instr] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def device(self) -> Device:
        return self.program.device

    def in_register(self, buffer: str) -> bool:
        return self.buffers[buffer].memory == self.members.register

    def addressed(self, buffer: str) -> bool:
        """Whether instructions of memory may reach it. (What one innermost unit alone has is in registers.)"""
        b = self.buffers[buffer]
        return not self.in_register(buffer) and not (b.kind == "local" and b.level == self.device.levels[-1].name)

    def is_inside(self, load: Load) -> bool:
        """Whether it reads an element of a tile of the program's own, whatever holds where it stands."""
        b = self.buffers[load.tensor]
        return b.kind == "local" and all(
            x.at_least(0) and (n - 1 - x).at_least(0) for x, n in zip(load.indices, b.shape, strict=True)
        )

    def claim(self, buffer: Buffer, address: Expr, bytes_: int) -> AlignmentClaim | None:
        """What makes `bytes_` divide the address of an element (elements from the buffer's beginning); None: nothing can."""
        n = bytes_ // buffer.dtype.bytes
        if n <= 1:
            return AlignmentClaim()
        begins = self._begins(buffer)
        if (begins is None and not self.assume) or (begins is not None and begins < bytes_):
            return None  # whatever the address of the element is
        needs = required_divisors(address, n, self.known)
        if needs is None or (needs and not self.assume):
            return None
        return AlignmentClaim(needs, (buffer.name, bytes_) if begins is None else None)

    def _begins(self, buffer: Buffer) -> int | None:
        """Bytes that divide the address of each instance's first element; None: that of an argument, which the call tells."""
        if buffer.kind == "workspace":
            return MOST
        if buffer.kind != "local":
            return None
        if buffer.level == self.device.memory(buffer.memory).level:
            return WIDEST_ACCESS
        return gcd(WIDEST_ACCESS, (buffer.size.constant or 1) * buffer.dtype.bytes)  # one instance after another

    def take(self, claims: list[AlignmentClaim]) -> None:
        self.sizes = merged_divisors([*self.sizes.items(), *(n for c in claims for n in c.sizes)])
        for c in claims:
            if c.pointer is not None:
                name, n = c.pointer
                self.pointers[name] = max(self.pointers.get(name, 1), n)

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def fresh(self, wish: str) -> str:
        name = numbered_name(wish, self.names)
        self.names.add(name)
        return name

    def register(self, wish: str, dtype: DType, count: int | None, span: Span | None = None) -> Buffer:
        """A buffer of `count` registers of each innermost unit; None: a single one, without coordinates."""
        shape, level, name = () if count is None else (count,), self.device.levels[-1].name, self.fresh(wish)
        made = Buffer.row_major(name, dtype, "local", self.members.register, level, shape, span, passing=True)
        self.buffers[name] = made
        return made


def state_of(program: Program, assume: bool, multiples: Mapping[tuple[Var, ...], int], asks=False) -> VectorizerState:
    everything = [s for launch in program.launches for s in statements(launch.body)]
    buffers = {b.name: b for b in (*program.buffers, *(s.buffer for s in everything if isinstance(s, Alloc)))}
    lets: dict[Var, Expr] = dict(program.lets) | {s.var: s.value for s in everything if isinstance(s, Let)}
    known = KnownMultiples(frozenset((*program.dims, *(v for v, _ in program.lets))), lets, multiples)
    instrs = {i.name: i for i in program.instrs}
    return VectorizerState(
        program, assume, asks, known, vector_instrs(program.device), names_of(program), buffers, instrs=instrs
    )
