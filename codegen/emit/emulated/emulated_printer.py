"""The emulated dialect: the unchanged kernels of a GPU dialect, with functions of C++ around them (docs/emulator.md).

The functions that kernels call are replaced: the dialect's own (`templates/emulate`), and each instruction (`instr_function`).
The launcher is replaced by one that has the interface of C++ kernels (`codegen.abi`) and calls the emulator's runtime.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import prod

from ....dsl.device import Device, Instr
from ....dsl.errors import InternalError
from ....dsl.index.expr import Expr
from ....dsl.source import Span
from ...abi import FLAGS
from ...ir.program import Program
from ...ir.tile_ir import Buffer, Call, Launch
from ...ir.tile_visitors import statements
from ..c.c_expr import Helper, pointer_type
from ..c.c_text import print_texts
from ..gpu import cuda, hip
from ..gpu.gpu_printer import GpuPrinter
from ..gpu.launch_geometry import launch_geometry
from .instr_function import instr_function

_BASES = {"cuda": cuda, "hip": hip}


def emulated_dialect(device: Device) -> str:
    """The dialect whose text is emulated: the one that most of the device's instructions have a text for, and for devices
    without texts the first whose exchanges reach all lanes of a unit in lockstep."""
    texts = Counter(d for i in device.instrs for d, _ in i.emits if d in _BASES)
    if texts:
        return texts.most_common(1)[0][0]
    return "cuda" if lanes_of(device, 1) <= 32 else "hip"


def lanes_of(device: Device, count: int) -> int:
    """Threads of a unit in lockstep, of which a launch has `count`."""
    inner = device.levels[-1]
    return max(inner.width or count, 1) if inner.siblings == "lockstep" else 1


@dataclass(frozen=True)
class TextDescription:
    """What reports about a text need.

    spans  for lines of it, from 1 on, the part of the schedule that they come from
    lanes  threads of a unit in lockstep, of the widest launch
    """

    spans: dict[int, Span]
    lanes: int


def describe_text(program: Program) -> TextDescription:
    """Of the text that `render` gives."""
    printer = Printer(program)
    return TextDescription(printer.line_spans(), max(printer.lanes, default=1))


class Printer(GpuPrinter):
    def __init__(self, program: Program, serial_when: tuple[Expr, ...] = ()) -> None:
        base = _BASES[emulated_dialect(program.device)]
        self.spelling, self.api = base.SPELLING, base.API
        super().__init__(program)
        self.dialect = "emulate"
        for own in ("call", "globals", "status", "way"):
            self.names.fresh(own)
        self.lanes: list[int] = []  # of a unit in lockstep, in each launch

    def launch(self, launch: Launch, program: Program) -> dict:
        out = super().launch(launch, program)
        plan = launch_geometry(self.program, launch)
        inner = plan.threads[-1].count.constant if plan.threads else 1
        out["lanes"] = lanes_of(self.program.device, inner or 1)
        self.lanes.append(out["lanes"])
        out["places"] = list({(b.name, at): _place(b, at, n) for b, at, n in out["places"]}.values())
        return out

    def parts(self) -> dict:
        out = super().parts()
        owned = [b for b in self.program.buffers if b.kind == "workspace"]
        return {
            **out,
            "base": self.spelling.dialect,
            "build": f"c++ -std=c++17 {' '.join(FLAGS)} -fno-strict-aliasing -c, linked with the emulator's runtime",
            "globals": [self._global(b) for b in self.program.buffers],
            "owned": [(pointer_type(b), self.field[b.name], self._size(b)) for b in owned],
        }

    def _bindings(self, kernels: list[dict], choice: str) -> tuple[list[str], list[str]]:
        stmts, sizes = self._known()
        return print_texts(stmts), print_texts(sizes)

    def _size(self, b: Buffer) -> str:
        return f"{b.dtype.bytes} * ({self.host.text(b.size)})"

    def _global(self, b: Buffer) -> dict:
        # an output may be the memory of an input: it is initialised then, and that input is written
        other = {"input": "output", "output": "input"}.get(b.kind)
        here = [x for x in self.program.buffers if x.kind == other and x.dtype == b.dtype]
        same = " || ".join(f"(const void*){self.field[b.name]} == {self.field[x.name]}" for x in here)
        known = {"input": "1", "output": same or "0", "workspace": "0"}
        read = f"{same} ? EM_READ | EM_WRITE : EM_READ" if same else "EM_READ"
        mode = {"input": read, "output": "EM_WRITE", "workspace": "EM_READ | EM_WRITE"}[b.kind]
        return {
            "name": b.name, "field": self.field[b.name], "bytes": self._size(b), "element": b.dtype.bytes, "mode": mode,
            "initialised": known[b.kind], "poison": poison(b),
        }  # fmt: skip

    def _instr(self, need: Helper) -> str:
        instr = self._called(need).instr
        launches = [x for p in self.ways for x in p.launches]
        units = {self._units(x, instr) for x in launches if _calls(x, instr)}
        if len(units) != 1:
            raise InternalError(f"{instr.name} is executed by {', '.join(map(str, sorted(units)))} threads together")
        return instr_function(instr, units.pop(), self.program.device, self.spelling, self.needs)

    def _units(self, launch: Launch, instr: Instr) -> int:
        depth = self.program.device.depth
        threads = launch_geometry(self.program, launch).threads
        return prod(u.count.constant or 1 for u in threads if depth(u.level) > depth(instr.level))


def poison(b: Buffer) -> str:
    """The byte that fills memory that was never written: NaN, and for integers a number far from 0."""
    return "0xff" if b.dtype.kind == "float" else "0xab"


def _place(b: Buffer, offset: int, size: int) -> dict:
    return {"name": b.name, "offset": offset, "bytes": size, "element": b.dtype.bytes, "poison": poison(b)}


def _calls(launch: Launch, instr: Instr) -> bool:
    return any(isinstance(s, Call) and s.instr == instr.name for s in statements(launch.body))
