"""The C++ dialect: a CPU's cores as threads, its lanes as vectors.

How a level is realised follows from its facts, never from its name (`realise`):

    innermost, lockstep   vector lanes: each statement once for all of them
    finite, with barrier  OS threads, each of which runs the launch's function
    others                a loop in each thread, unless there is only one unit
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from textwrap import dedent, indent

from ....dsl.device import Instr
from ....dsl.errors import InternalError
from ....dsl.errors.schedule import CannotMeet
from ....dsl.errors.target import NoEmittedText
from ....dsl.index.expr import Expr, Var
from ....dsl.support.fast_replace import replace
from ...abi import FLAGS, GCC_FLAGS, MAX_THREADS, arguments
from ...analysis.register_buffers import is_register, register_memories
from ...ir.program import Program
from ...ir.tile_ir import Alloc, Barrier, Buffer, Call, Launch, Units
from ...ir.tile_visitors import statements
from ...name_mangling import mangle
from ...targets import MACHINES, NATIVE
from ..c.c_expr import ELEMENTS, SUM, Helper, pointer_type, storage
from ..c.c_text import print_statements
from ..c.c_tree import Declaration, ExprStatement, For, Statement, all_mentioned
from ..c.program_printer import ProgramPrinter
from ..c.templates import environment
from ..c.text_builder import Around, SourceText
from ..emission_context import EmissionContext
from ..instr_operands import instr_heading, instr_name
from ..lane_analysis import analyse_lanes, has_lane, sub_vector_count
from ..statements import StatementPrinter
from ..streaming_stores import fence
from .arena_layout import ArenaSlot, arena_slots
from .cpp_prelude import prelude
from .reconverge import sink_divergent_guards
from .work_sharing import shares_all_work

_PARAMETERS = (("const Args*", "args"), ("int", "core"), ("int", "member"))  # the call, a unit's number, which thread it is
MOST_LANES = 64  # lanes: of a vector, because masks have 64 bits and numbers of lanes are i8 [fact: the prelude]


@dataclass(frozen=True)
class CpuLaunchPlan:
    """How the levels of a launch run: `loops` outermost first, then the threads' number, then lanes."""

    loops: tuple[Units, ...]
    threads: Units | None
    lanes: Units | None


def plan_cpu_launch(program: Program, launch: Launch) -> CpuLaunchPlan:
    loops: list[Units] = []
    threads = lanes = None
    innermost = program.device.levels[-1]
    for u in launch.units:
        level = program.device.level(u.level)
        if level == innermost and level.siblings == "lockstep":
            if u.count.constant is None:
                raise InternalError(f"the number of units of {u.level} is {u.count}, not a constant")
            if u.count.constant & (u.count.constant - 1) or u.count.constant > MOST_LANES:
                raise InternalError(f"{u.count} units of {u.level}: a vector has a power of two, at most {MOST_LANES}")
            lanes = u if u.count.constant > 1 else None
            if lanes is None:
                loops.append(u)
        elif level.units == "finite" and level.siblings == "barrier":
            if threads is not None:
                raise InternalError(f"two levels of {program.device.name} are finite: {threads.level} and {u.level}")
            threads = u
        else:
            loops.append(u)
    return CpuLaunchPlan(tuple(loops), threads, lanes)


class Printer(ProgramPrinter):
    """One program in C++. Names of tensors and sizes are fields of the arguments' struct as well."""

    def __init__(self, program: Program, serial_when: tuple[Expr, ...] = ()) -> None:
        super().__init__(program)
        self.serial_when = serial_when
        kept = [b for b in program.buffers if b.kind == "workspace"]
        self.kept = [ArenaSlot(b, self.names.fresh(f"at_{b.name}"), "top", False) for b in kept]
        self.slots: list[ArenaSlot] = []
        self.threaded = False

    def size_name(self, v: Var) -> str:
        return f"call.{super().size_name(v)}"

    # ------------------------------------------------------------ launches

    def launch(self, launch: Launch) -> dict:
        program, plan = self.program, plan_cpu_launch(self.program, launch)
        self.threaded |= plan.threads is not None
        lane, width = (plan.lanes.var, plan.lanes.count.constant or 1) if plan.lanes else (None, 1)
        shares = sub_vector_count(launch, program.device.levels[-1], width)
        lanes = analyse_lanes(program, launch, lane, width, shares)
        if lane is not None and (body := sink_divergent_guards(launch.body, lanes.varying)) != launch.body:
            launch = replace(launch, body=body)
            lanes = analyse_lanes(program, launch, lane, width, shares)
        text = self.new_text(program, lambda v: self._outside(v, text, plan))
        ctx = EmissionContext(program, lanes, text, {b.name: b for b in program.buffers}, self.needs)
        ctx.emitted_names.update(self.field)
        ctx.known.values.update({u.var: Expr() for u in plan.loops if u.count.constant == 1})
        slots = self._slots(launch, plan)
        body = StatementPrinter(ctx, lambda s: self._barrier(s, plan, ctx), lambda s: self._local(s, ctx, slots[id(s)]))
        self._loops(list(u for u in plan.loops if u.count.constant != 1), text, lambda: body.block(launch.body))
        stmts = text.finish()
        if ctx.stream_limits:
            stmts.append(fence(ctx))
        used = all_mentioned(stmts)
        bases = [self._base(b) for b in program.buffers if self.field[b.name] in used]
        # a parameter that nothing reads has no name
        named = used | all_mentioned(bases)
        head = ", ".join(f"{kind} {name}" if name in named else kind for kind, name in _PARAMETERS)
        name, lines = f"launch__{self.names.fresh(launch.name)}", print_statements([*bases, *stmts])
        self.bodies.append((f"static void {name}(", lines))
        return {
            "name": name,
            "head": head,
            "lines": [line.text for line in lines],
            "threads": plan.threads is not None,
            "meets": (meets := self._meets(launch, plan)),
            "shares": "" if meets else self._shares(launch, plan),
        }

    def _loops(self, units: list[Units], text: SourceText, body) -> None:
        if not units:
            return body()
        u = units[0]

        def head() -> Around:
            return partial(For, "int64_t", text.index.atom(u.var, 0), "0", text.index.text(u.count), "1")

        with text.block(head, u.var.name, u.var):
            self._loops(units[1:], text, body)

    def _outside(self, v: Var, text: SourceText, plan: CpuLaunchPlan) -> str:
        """Sizes come from the call; the thread's number from the code that runs the launch."""
        if v.name in self.size:
            size = self.size[v.name]
            text.scopes[0].decls.append(Declaration("int64_t", size, f"args->{size}", const=True))
            return size
        if plan.threads and v == plan.threads.var:
            return "core"
        raise InternalError(f"the variable {v} is not bound")

    def _base(self, b: Buffer) -> Declaration:
        return Declaration(pointer_type(b), self.field[b.name], f"args->{self.field[b.name]}")

    def _slots(self, launch: Launch, plan: CpuLaunchPlan) -> dict[int, ArenaSlot]:
        device = self.program.device
        threads = None if plan.threads is None else device.depth(plan.threads.level)
        found = arena_slots(
            launch.body,
            lambda b: not is_register(b, device),
            lambda b: threads is not None and device.depth(b.level) >= threads,
            None if threads is None else lambda s, b: device.depth(s.level) <= device.depth(b.level),
            self.names.fresh,
        )
        self.slots += found.values()
        return found

    def _local(self, s: Alloc, ctx: EmissionContext, slot: ArenaSlot) -> None:
        """A slice of the space that was allocated at the call."""
        b = s.buffer
        name = ctx.text.fresh(b.name, 0)
        ctx.emitted_names[b.name], ctx.buffers[b.name] = name, b
        base = "args->private_at + member * args->private_step + " if slot.private else ""
        start = f"({_element(b)}*)(args->space + {base}args->{slot.where})"
        ctx.text.scopes[0].decls.append(Declaration(f"{_element(b)}*", name, start))

    def _barrier(self, s: Barrier, plan: CpuLaunchPlan, ctx: EmissionContext) -> list[Statement]:
        """Only threads can be apart; lanes move together. Units that are a loop run to their end one by one: none can wait."""
        depth = self.program.device.depth
        for u in plan.loops:
            if u.count.constant != 1 and depth(u.level) > depth(s.level):
                raise CannotMeet(
                    f"a barrier of `{s.level}` is needed among the units of `{u.level}`, which run one after another on a CPU",
                    s.span,
                    help=f"keep results apart from each other's reads, or leave `{u.level}` out of the device",
                )
        if plan.threads is None or depth(s.level) >= depth(plan.threads.level):
            return []
        if ctx.in_lane:
            raise InternalError(f"a barrier of {s.level} in divergent control flow")
        return [ExprStatement(f"m_barrier({self._finite(plan.threads)})", " ".join(s.why.split()))]

    def _finite(self, u: Units) -> str:
        return f"args->{self.size[next(v.name for level, v in self.program.finite if level == u.level)]}"

    def _meets(self, launch: Launch, plan: CpuLaunchPlan) -> str:
        """The barrier of the threads: a member with their number if fewer may come, because nothing else depends on it; or
        NULL."""
        depth, threads, program = self.program.device.depth, plan.threads, self.program
        body = list(statements(launch.body))
        if threads is None or not any(isinstance(s, Barrier) and depth(s.level) < depth(threads.level) for s in body):
            return ""
        counts = threads.count.variables()
        buffers = [*program.buffers, *(s.buffer for s in body if isinstance(s, Alloc))]
        if len(program.launches) > 1 or any(counts & b.size.variables() for b in buffers):
            return "NULL"
        return "&call." + self._finite(threads).removeprefix("args->")

    def _shares(self, launch: Launch, plan: CpuLaunchPlan) -> str:
        """Of each thread (`templates/cpp/threads.j2`), where none waits for another: any of them may do any unit's part.

        If such a launch does nothing but deal out turns of loops, there may be more units than threads.
        """
        if plan.threads is None:
            return ""
        return "SHARES" if shares_all_work(launch.body, plan.threads) else "1"

    def _counted(self, launches: list[dict]) -> None:
        """`counts`: the number of units, in launches before which it changes."""
        names = [self.size[v.name] for level, v in self.program.finite if self._together(level)]
        many = False
        for x in launches:
            x["counts"] = names[0] if many != (x["shares"] == "SHARES") else ""
            many = x["shares"] == "SHARES"

    def _together(self, level: str) -> bool:
        """Whether the units of a finite level are threads; of other finite levels there is one."""
        return self.program.device.level(level).siblings == "barrier"

    # ------------------------------------------------------------ instructions

    def _instrs(self) -> list[str]:
        """Those that are needed; the text of one may need more: vectors, and other instructions."""
        texts: dict[Helper, str] = {}
        while todo := [n for n in self.needs if n.name.startswith("instr:") and n not in texts]:
            texts |= {n: self.instr(n) for n in todo}
        return list(texts.values())

    def instr(self, need: Helper) -> str:
        """The inline function of one instruction: operands by their lower-case names, results by reference."""
        instr = next(i for i in self.program.instrs if i.name == need.name.partition(":")[2])
        emit = dict(instr.emits).get("cpp")
        if emit is None:
            raise NoEmittedText(f"`{instr.name}` has no text for C++", instr.span, help="add `emit cpp:` to the instruction")
        params = self._parameters(instr, need.lanes)
        what = " ".join(instr_heading(instr).split())
        body = indent(dedent(emit).strip("\n"), "    ")
        text = f"// {what}\nm_inline void {instr_name(instr)}({', '.join(params)}) {{\n{body}\n}}\n"
        return text + self._put(instr, need.lanes) if need._replace(name=f"put:{instr.name}") in self.needs else text

    def _put(self, instr: Instr, lanes: int) -> str:
        """The instruction where the bits `never` of an address are 0, else a plain store."""
        target = instr.operand(instr.statement.target)
        element = storage(target.dtype)
        args = ", ".join({"input": "x"}.get(o.role, "p") for o in instr.operands)
        head = f"m_inline void put_{instr.name}({ELEMENTS[element]}* p, {element}x{lanes} x, uintptr_t never)"
        return f"{head} {{\n    if (((uintptr_t)p & never) == 0) {instr_name(instr)}({args});\n    else store(p, x);\n}}\n"

    def _parameters(self, instr: Instr, lanes: int) -> list[str]:
        extents: dict[str, int] = {}
        in_memory: dict[str, bool] = {}
        registers = register_memories(self.program.device)
        for launch in self.program.launches:
            body = statements(launch.body)
            allocs = [s.buffer for s in body if isinstance(s, Alloc)]
            held = {b.name for b in allocs if is_register(b, self.program.device)}
            for s in body:
                if isinstance(s, Call) and s.instr == instr.name:
                    for p, o in zip(s.pieces, instr.operands, strict=True):
                        extents[o.name] = p.extent
                        in_memory[o.name] = p.buffer not in held and not (o.memory in registers and o.role == "input")
        params = []
        for o in instr.operands:
            name, element = o.name.lower(), storage(o.dtype)
            if in_memory.get(o.name, o.memory not in registers):
                params.append(f"{'const ' if o.role == 'input' else ''}{ELEMENTS[element]}* {name}")
                continue
            vector = has_lane(o) and lanes > 1
            if vector:
                self.needs[Helper("vector", element, lanes)] = None
            kind = f"{element}x{lanes}" if vector else ELEMENTS[element]
            by = "" if o.role == "input" else "&"
            count = extents.get(o.name, 1)
            params += [f"{kind}{by} {name}{r if count > 1 else ''}" for r in range(count)]
        return params

    # ------------------------------------------------------------ the whole

    def render(self) -> str:
        program = self.program
        launches = [self.launch(x) for x in program.launches]
        self._counted(launches)
        instrs = self._instrs()
        fma_users = "\n".join(instrs)
        slots = [*self.kept, *(s for s in self.slots if not s.private), *(s for s in self.slots if s.private)]
        sizes = {s.where: f"{s.buffer.dtype.bytes} * ({self.host.text(s.buffer.size)})" for s in slots}
        named = {s.start for s in slots}  # ends that others begin at
        lets = [(self.size[v.name], self.host.text(e)) for v, e in program.lets]
        conditions = [(self.host.text(e), " ".join(text.split())) for e, text in program.conditions]
        serial_when = [self.host.text(e, SUM) for e in self.serial_when]
        # Last: what is printed above may need helpers.
        helpers = [n for n in self.needs if not n.name.startswith(("instr:", "put:"))]
        args = arguments(program)
        fields = [f"{pointer_type(b)} {self.field[b.name]};" for b in program.buffers]
        return (
            environment()
            .get_template("kernel.cpp.j2")
            .render(
                program=program,
                name=self.symbol,
                title=mangle(program.name),
                head=self.head,
                flags=" ".join((*FLAGS, *MACHINES.get(program.device.name, NATIVE).flags)),
                gcc_flags=" ".join(GCC_FLAGS),
                prelude=prelude(helpers, program, fma_users),
                instrs=instrs,
                launches=launches,
                fields=fields,
                arguments=[(self.field[b.name], pointer_type(b)) for b in args],
                workspaces=[(b, self.field[b.name], _element(b)) for b in program.buffers if b.kind == "workspace"],
                sizes=list(self.size.values()),
                dims=[self.size[v.name] for v in program.dims],
                finite=[(self.size[v.name], "threads" if self._together(level) else "1") for level, v in program.finite],
                lets=lets,
                conditions=conditions,
                kept=self.kept,
                slots=slots,
                room=sizes,
                named=named,
                threaded=self.threaded,
                serial_when=serial_when,
                field_at={self.field[s.buffer.name]: s.where for s in self.kept},
                max_threads=MAX_THREADS,
            )
        )


def _element(b: Buffer) -> str:
    return ELEMENTS[storage(b.dtype)]
