"""The dialects of GPUs: one `__global__` function for each launch, and a host function that launches them all.

How a level is realised follows from its facts (`launch_geometry`). A local buffer at the level of the blocks, or below in a
memory that blocks share, lies in the block's shared memory (`shared_memory_layout`); others are registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, prod
from textwrap import wrap

from ....dsl.errors import InternalError
from ....dsl.index.expr import Expr, Var, as_expr
from ...abi import programs
from ...analysis.register_buffers import is_register
from ...ir.program import Program
from ...ir.tile_ir import Alloc, AllReduce, Barrier, Buffer, Launch, Needs, Store, Units
from ...ir.tile_visitors import statements
from ...name_mangling import mangle
from ..c.c_expr import ELEMENTS, Helper, pointer_type, storage
from ..c.c_text import INDENT, print_statements, print_texts
from ..c.c_tree import Declaration, ExprStatement, If, Statement, all_mentioned, identifiers
from ..c.dead_declarations import live_statements, remove_dead
from ..c.peephole import peephole
from ..c.program_printer import ProgramPrinter
from ..c.templates import environment
from ..c.text_builder import SourceText
from ..cpu.cpp_prelude import prelude
from ..lane_analysis import analyse_lanes
from .instr_wrapper import ExecutedInstr, executed_instrs, instr_text
from .launch_geometry import KernelSource, LaunchGeometry, launch_geometry
from .register_arrays import register_arrays, word_loops
from .shared_memory_layout import SharedMemoryLayout, divergent_statements, shared_memory_layout
from .simt_statements import DialectSpelling, GpuBody, GpuContext, GpuIndex, packed_buffers
from .tile_counts import name_tile_counts, positive_sizes

__all__ = ["Api", "DialectSpelling", "GpuPrinter"]


# blocks: of a launch, because their number is one coordinate [fact: CUDA C++ Programming Guide, "Technical Specifications"]
_MOST_BLOCKS = (1 << 31) - 1


@dataclass(frozen=True)
class Api:
    """The host's side. `opt_in`: bytes of shared memory beyond which a kernel asks for them."""

    prefix: str
    stream: str
    opt_in: int
    build: str


class GpuPrinter(ProgramPrinter):
    spelling: DialectSpelling
    api: Api

    def __init__(self, program: Program, serial_when: tuple[Expr, ...] = ()) -> None:
        super().__init__(program, ("blocks", "stream", "error", "at", "way"))  # names of the launcher
        self.ways = tuple(programs(program))
        self.executed = executed_instrs(self.ways)
        self.dialect = self.spelling.dialect  # whose templates are used
        self.kernels: list[KernelSource] = []

    # ------------------------------------------------------------ launches

    def launch(self, launch: Launch, program: Program) -> dict:
        """`program`: the one of `abi.programs` whose launch it is."""
        plan = launch_geometry(program, launch)
        known = program.call_sizes
        launch = name_tile_counts(launch, plan.blocks, frozenset(known), _MOST_BLOCKS)
        text = self.new_text(program, lambda v: self._outside(v, text, plan), GpuIndex)
        text.early.positive = positive_sizes(plan.blocks, dict(program.lets))
        short = {v: v.hi for v in (*program.dims, *(v for v, _ in program.lets)) if v.hi is not None and v.hi < 1 << 31}
        assert isinstance(text.index, GpuIndex)
        # before anything is printed: a unit's number may be multiplied by a number of 64 bits at its first use
        text.index.learn(short | {u.var: self._last(u, plan) for u in (*plan.blocks, *plan.threads)})
        # Loops over cells of arrays stay loops of the text. An array that a loop indexes at run time would lie in memory.
        lanes = analyse_lanes(program, launch, None, 1, most=inf)
        ctx = GpuContext(program, lanes, text, {b.name: b for b in program.buffers}, self.needs)
        everything = statements(launch.body)
        allocs = [s for s in everything if type(s) is Alloc]
        ctx.packed = {n: k for n, k in packed_buffers(program, everything).items() if lanes.registers[n].named}
        named = {n: r.buffer for n, r in lanes.registers.items() if r.named}
        ctx.arrays = register_arrays(everything, named, ctx.packed)
        ctx.stored = {s.buffer for s in everything if type(s) is Store}
        ctx.emitted_names.update(self.field)
        ctx.known.values.update({u.var: Expr() for u in plan.ones})
        ctx.known.values.update({v: as_expr(1) for _, v in program.finite})
        vars_of = frozenset(u.var for u in plan.threads)
        memories = {s.buffer.memory for s in allocs if self._shared(s.buffer)}
        capacity = min((c for n in memories if (c := program.device.memory(n).capacity)), default=None)
        space = shared_memory_layout(launch.body, lambda b: self._bytes(b, plan), vars_of, capacity)
        lockstep = {u.level: u.var for u in plan.threads if program.device.level(u.level).siblings == "lockstep"}
        reduced = any([type(s) is AllReduce for s in everything])  # nothing else asks where units part ways
        parts = divergent_statements(launch.body, frozenset(lockstep.values())) if reduced else frozenset()
        body = GpuBody(ctx, self.spelling, lambda s: self._barrier(s, plan), lambda s: self._local(s, ctx, plan, space), parts)
        body.units = lockstep
        body.word_loops = word_loops(everything, ctx.packed)
        body.block(launch.body)
        stmts, used = live_statements(text.finish())
        stmts = peephole(stmts)  # which mentions no fewer buffers and sizes
        text.close()
        if space.total:
            kind = "extern __shared__ __attribute__((aligned(16))) unsigned char"
            stmts.insert(0, Declaration(kind, "m_shared", sizes=("",)))
        lines = print_statements(stmts)
        name = f"{self.symbol}__{self.names.fresh(launch.name)}"
        self.bodies.append((f"{name}(", lines))
        buffers = [b for b in program.buffers if self.field[b.name] in used]
        ones = {v: as_expr(1) for _, v in program.finite}
        given = [v for v in known if self.size[v.name] in used and v not in ones]
        sizes = [(self.size[v.name], v in short) for v in given]
        passed = (*(self.field[b.name] for b in buffers), *(f"(int){n}" if cut else n for n, cut in sizes))
        grid = plan.grid.subs(ones)
        self.kernels.append(KernelSource(name, grid, plan.count, space.total, tuple(buffers), tuple(given)))
        shape = " x ".join(f"{u.count} {u.level}s" for u in plan.threads)
        return {
            "name": name,
            "threads": plan.count,
            "units": f"  // of a block: {shape}" if len(plan.threads) > 1 else "",
            "shared": space.total,
            "footprint": self._footprint(launch.name, allocs, plan),
            "parameters": [
                *(self._parameter(b, program) for b in buffers),
                *(f"{'int' if cut else 'int64_t'} {n}" for n, cut in sizes),
            ],
            "names": (*(self.field[b.name] for b in buffers), *(n for n, _ in sizes)),
            "lines": bool(lines),
            "body": "\n".join([f"{INDENT}{line.text}" for line in lines]),
            "mentioned": all_mentioned(stmts),
            "blocks": self.host.text(grid),
            "passed": passed,
            "places": self._places(allocs, plan, space),
        }

    def _places(self, allocs: list[Alloc], plan: LaunchGeometry, space: SharedMemoryLayout) -> list[tuple[Buffer, int, int]]:
        """Buffers in shared memory, with their first byte and how many there are."""
        return [(s.buffer, space.at[id(s)], self._bytes(s.buffer, plan) or 0) for s in allocs if id(s) in space.at]

    def _footprint(self, name: str, allocs: list[Alloc], plan: LaunchGeometry) -> list[str]:
        """Lines for people: the launch, the memory of a block, the memory of a thread."""
        locals_ = {s.buffer.name: s.buffer for s in allocs}
        found = [(b, self._bytes(b, plan)) for b in locals_.values()]
        shared = [f"{b.name}~{n}~bytes" for b, n in found if n is not None]
        registers = [f"{b.name}~{b.size}~x~{b.dtype}" for b, n in found if n is None and not b.passing]
        memory = next((b.memory for b, n in found if n is not None), "")
        parts = [f"{memory}: {', '.join(shared)}"] * bool(shared) + [f"registers: {', '.join(registers)}"] * bool(registers)
        return [name, *(line.replace("~", " ") for x in parts for line in wrap(x, 110, subsequent_indent="  "))]

    def _outside(self, v: Var, text: SourceText, plan: LaunchGeometry) -> str:
        """Sizes are parameters; unit numbers are digits of the block's and the thread's."""
        if v.name in self.size:
            return self.size[v.name]
        for units, number in ((plan.blocks, self.spelling.block), (plan.threads, self.spelling.thread)):
            for i, u in enumerate(units):
                if u.var != v:
                    continue
                below = as_expr(1)
                for inner in units[i + 1 :]:
                    below = below * inner.count
                shown = number
                if below.constant != 1:
                    shown += f" / {text.index.text(below, 6)}"
                if i > 0:
                    shown += f" % {text.index.text(u.count, 6)}"
                name = text.fresh(v.name, 0)
                text.scopes[0].decls.append(Declaration("int", name, shown, const=True))
                return name
        raise InternalError(f"the variable {v} is not bound")

    def _last(self, u: Units, plan: LaunchGeometry) -> int:
        """The greatest number of a unit, at most."""
        if u not in plan.blocks:
            return (u.count.constant or 1) - 1
        return _MOST_BLOCKS if u.var.hi is None else min(u.var.hi, _MOST_BLOCKS)

    # ------------------------------------------------------------ memory

    def _shared(self, b: Buffer) -> bool:
        return b.kind == "local" and not is_register(b, self.program.device)

    def _bytes(self, b: Buffer, plan: LaunchGeometry) -> int | None:
        """Of all instances of a buffer in one block; None for registers."""
        if not self._shared(b):
            return None
        depth = self.program.device.depth
        if depth(b.level) < plan.owner or self.program.device.memory(b.memory) == self.program.device.memories[0]:
            raise InternalError(f"{b.name} of {b.level} in {b.memory} is larger than a block; it should be a workspace")
        if b.size.constant is None:
            raise InternalError(f"the size of {b.name}, {b.size}, is not constant")
        return b.size.constant * b.dtype.bytes * prod(u.count.constant or 1 for u in self._slices(b, plan))

    def _slices(self, b: Buffer, plan: LaunchGeometry) -> list[Units]:
        """Levels below the block each of whose units has an instance of its own."""
        depth = self.program.device.depth
        return [u for u in plan.threads if depth(u.level) <= depth(b.level)]

    def _local(self, s: Alloc, ctx: GpuContext, plan: LaunchGeometry, space: SharedMemoryLayout) -> None:
        b = s.buffer
        text = ctx.text
        if id(s) in space.meet:
            text.add(ExprStatement(self._meeting(self.spelling.barrier), f"{b.name} lies where others were"))
        name = text.fresh(b.name, 0)
        ctx.emitted_names[b.name], ctx.buffers[b.name] = name, b
        slice_ = as_expr(0)
        for u in self._slices(b, plan):
            slice_ = slice_ * u.count + u.var
        element = ELEMENTS[storage(b.dtype)]
        base = "m_shared" + (f" + {space.at[id(s)]}" if space.at[id(s)] else "")
        shown = f"({element}*)({base})" if "+" in base else f"({element}*){base}"
        if slice_ != as_expr(0):
            shown += f" + {text.index.text(slice_ * b.size)}"
        text.declare(Declaration(f"{element}*", name, shown), 0)

    def _barrier(self, s: Barrier, plan: LaunchGeometry) -> list[Statement]:
        device = self.program.device
        depth = device.depth(s.level)
        why = " ".join(s.why.split())
        if depth < plan.owner:
            raise InternalError(f"units of {device.levels[plan.owner].name} cannot synchronise within a launch")
        below = [u for u in plan.threads if device.depth(u.level) > depth]
        if not below:
            return []
        if all(device.level(u.level).siblings == "lockstep" for u in below) and len(below) < len(plan.threads):
            return [ExprStatement(self._meeting(self.spelling.lockstep), why)]
        return [ExprStatement(self._meeting(self.spelling.barrier), why)]

    def _meeting(self, barrier: str) -> str:
        if barrier.startswith("m_"):
            self.need(barrier.partition("(")[0])
        return barrier

    def _parameter(self, b: Buffer, program: Program) -> str:
        own = " __restrict__" if _unaliased(b, program) else ""
        return f"{pointer_type(b)}{own} {self.field[b.name]}"

    # ------------------------------------------------------------ the whole

    def render(self) -> str:
        return _respelled(environment(self.dialect).get_template("kernel.j2").render(**self.parts()))

    def launched_kernels(self) -> tuple[KernelSource, ...]:
        """The launches of the program itself, not of `instead`, as a driver needs them, in order."""
        for launch in self.program.launches:
            self.launch(launch, self.program)
        return tuple(self.kernels)

    def parts(self) -> dict:
        """The variables of the templates."""
        program = self.program
        kernels = [{**self.launch(x, p), "way": n} for n, p in enumerate(self.ways) for x in p.launches]
        choice = self._choice(self.ways)
        instrs = [self._instr(n) for n in list(self.needs) if n.name.startswith("instr:")]
        bindings, sizes = self._bindings(kernels, choice)
        shown = {b.name: f"{b.dtype.bytes} * ({self.host.text(b.size)})" for b in program.buffers}
        spaces = [shown[b.name] for b in program.buffers if b.kind == "workspace"]
        helpers = [n for n in self.needs if not n.name.startswith("instr:")]
        return dict(
            program=program, name=self.symbol, title=mangle(program.name), build=self.api.build,
            head=self.head,
            prelude=self._prelude(helpers, kernels), instrs=instrs, kernels=kernels, choice=choice,
            bounds=self.spelling.bounds, api=self.api.prefix, stream=self.api.stream, opt_in=self.api.opt_in,
            arguments=[self.field[b.name] for b in program.buffers if b.kind != "workspace"],
            dims=[self.size[v.name] for v in program.dims], bindings=bindings, sizes=sizes, workspaces=spaces,
        )  # fmt: skip

    def _prelude(self, helpers: list[Helper], kernels: list[dict]) -> str:
        """The helpers, with those that `_respelled` will call first; without those that `peephole` made unused."""
        body = "\n".join(k["body"] for k in kernels)
        called = set().union(*(k["mentioned"] for k in kernels))
        packs = [n._replace(name="pack") for n in helpers if n.name == "set_part" and f"m_pack_{n.type}" in called]
        helpers = [n for n in helpers if n.name != "set_part" or f"m_set_part_{n.type}" in called]
        helpers += [n for n in packs if n not in helpers]
        whole = prelude(helpers, self.program, "", self.dialect) + body
        bits = [Helper("flt", e) for e, names in (("f32", _F32), ("f64", _F64)) if any(n in whole for n in names)]
        return prelude([*bits, *helpers], self.program, "", self.dialect)

    def _choice(self, ways: Sequence[Program]) -> str:
        """The number of the program whose needs hold; empty where there is one program."""
        out = ""
        for n, p in enumerate(ways[:-1]):
            needs = p.needs or Needs()
            parts = [f"(uintptr_t){self.field[name]} % {multiple} == 0" for name, multiple in needs.aligned]
            for e in needs.conds:
                none = not e.const and (-e).interval[0] == 0
                parts.append(f"{self.host.text(-e)} == 0" if none else f"{self.host.text(e.const - e)} <= {e.const}")
            out += f"{' && '.join(parts)} ? {n} : "
        return f"{out}{len(ways) - 1}" if out else ""

    def _bindings(self, kernels: list[dict], choice: str) -> tuple[list[str], list[str]]:
        """The beginning of the host's functions: arguments, sizes, conditions, workspaces; and the sizes alone."""
        stmts, sizes = self._known()
        kept = [b for b in self.program.buffers if b.kind == "workspace"]
        if kept:
            stmts.append(Declaration("int64_t", "at", sizes=(str(len(kept) + 1),)))
            stmts.append(ExprStatement(f"{self.symbol}__spaces(dims, at)"))
        last = sum(b.kind != "workspace" for b in self.program.buffers)
        for i, b in enumerate(kept):
            kind = pointer_type(b)
            stmts.append(Declaration(kind, self.field[b.name], f"({kind})((char*)args[{last}] + at[{i}])"))
        needed = choice + "\n" + "\n".join(k["blocks"] + " " + " ".join(k["passed"]) for k in kernels)
        spaces = "\n".join(self.host.text(b.size) for b in kept)
        return (
            print_texts(remove_dead(stmts, set(identifiers(needed)))),
            print_texts(remove_dead(sizes, set(identifiers(spaces)))),
        )

    def _known(self) -> tuple[list[Statement], list[Statement]]:
        """Arguments, sizes, conditions; and the sizes alone."""
        program = self.program
        stmts: list[Statement] = []
        for i, b in enumerate(b for b in program.buffers if b.kind != "workspace"):
            kind = pointer_type(b)
            stmts.append(Declaration(kind, self.field[b.name], f"({kind})args[{i}]"))
        known = [(v, f"dims[{i}]") for i, v in enumerate(program.dims)] + [(v, "1") for _, v in program.finite]
        known += [(v, self.host.text(e)) for v, e in program.lets]
        sizes: list[Statement] = [Declaration("int64_t", self.size[v.name], shown, const=True) for v, shown in known]
        stmts += sizes
        for i, (e, why) in enumerate(program.conditions):
            failed = ExprStatement(f"return {100 + i}", " ".join(why.split()))
            stmts.append(If(f"{self.host.text(e)} < 0", [failed], short=True))
        return stmts, sizes

    def _instr(self, need: Helper) -> str:
        return instr_text(self._called(need), self.spelling.dialect)

    def _called(self, need: Helper) -> ExecutedInstr:
        return self.executed[need.name.partition(":")[2]]


_F32 = {'__builtin_nanf("")': "flt(0x7fc00000)", "__builtin_inff()": "flt(0x7f800000)"}
_F64 = {
    '__builtin_nan("")': "flt(INT64_C(0x7ff8000000000000))",
    "__builtin_inf()": "flt(INT64_C(0x7ff0000000000000))",
}


def _unaliased(b: Buffer, program: Program) -> bool:
    """An output may be the memory of an input of its type and shape; everything else is apart."""
    if b.kind == "workspace":
        return True
    others = [x for x in program.buffers if {x.kind, b.kind} == {"input", "output"}]
    return not any(x.dtype == b.dtype and x.shape == b.shape for x in others)


def _respelled(text: str) -> str:
    """Numbers that shared text writes as compilers of C++ have them built in, as their bits."""
    for built_in, bits in (_F32 | _F64).items():
        text = text.replace(built_in, bits)
    return text
