"""The functions that implement one instruction in an emulated text.

i__X__given      the registers and addresses of one thread; results come back in it
i__X__run        executes the instruction for all of its threads
i__X             the function that the kernel calls, with the same parameters as the device's: synchronises the threads, one of
                 which executes the instruction; or queues it, if it is asynchronous

The kernel's arrays of registers are passed by reference. EM_PLAIN keeps accesses to them from being observed.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....dsl.device import AWAITED, Device, Instr, Operand
from ....dsl.errors import InternalError
from ....dsl.fragment import REGISTER, FragmentLayout
from ....dsl.index.expr import Expr, Var, as_expr
from ....dsl.values import Value, loads
from ...analysis.register_buffers import register_memories
from ..c.c_expr import ELEMENTS, Helper, storage
from ..c.c_text import INDENT
from ..gpu.instr_wrapper import RegisterOperand, register_operand
from ..gpu.simt_statements import DialectSpelling, GpuIndex
from ..instr_operands import instr_heading, instr_name
from .instr_semantics import InstrOp, OpText, guard_of, instr_op, subscripts

_SITE = "__builtin_return_address(0)"  # of the call, in the kernel
KINDS = {kind: f"EM_{kind.upper()}" for kind in AWAITED}  # of the runtime


@dataclass(frozen=True)
class _Given:
    """One operand as a thread gives it: `registers` variables, or (None) an address of `count` elements."""

    operand: Operand
    name: str
    count: int
    registers: RegisterOperand | None

    @property
    def element(self) -> str:
        return ELEMENTS[storage(self.operand.dtype)]

    @property
    def result(self) -> bool:
        return self.registers is not None and self.operand.role != "input"

    @property
    def shared(self) -> bool:
        """Whether all threads give the same address, so that the first one's counts."""
        return self.registers is None and "lane" not in {v.name for v in self.operand.coords}

    def members(self) -> str:
        if self.registers is None:
            return f"{'const ' if self.operand.role == 'input' else ''}void* {self.name};"
        return f"{self.registers.kind} {self.name}[{self.registers.count}];"


def instr_function(instr: Instr, units: int, device: Device, spelling: DialectSpelling, needs: dict[Helper, None]) -> str:
    """`units`: threads that execute it together. Raises InternalError for instructions without a meaning."""
    given = [_given(o, device) for o in instr.operands]
    op = instr_op(instr, device)
    own = instr_name(instr)
    lines = [f"// {instr_heading(instr)}{f', of {units} threads' if units > 1 else ''}"]
    lines += [f"struct {own}__given {{", *(INDENT + g.members() for g in given), "};"]
    lines += _run(instr, units, device, spelling, needs, given, op)
    lines.append(f'static const EmInstr {own}__instr = {{"{instr.name}", {units}, {own}__run}};')
    lines += _call(instr, units, given, OpText(op, device, spelling, needs, _taken(given)))
    return "\n".join(lines) + "\n"


def _given(o: Operand, device: Device) -> _Given:
    f = FragmentLayout.of(o)
    own = o.memory in register_memories(device)
    return _Given(o, o.name.lower(), f.registers, register_operand(o, f.registers) if own else None)


# ------------------------------------------------------------ execution


def _run(instr, units: int, device, spelling, needs, given: list[_Given], op: InstrOp) -> list[str]:
    own = instr_name(instr)
    text = OpText(op, device, spelling, needs, _taken(given))
    body = text.declarations()
    if units == 1:
        body.append(f"{own}__given& t = *({own}__given*)deposits[0];")
    for g in _inputs(given):
        body += _gather(instr, g, units, text)
    body += text.statements()
    for g in given:
        if g.operand.role != "input":
            body += _scatter(instr, g, units, text)
    return [f"EM_PLAIN static void {own}__run(void* const* deposits) {{", *(INDENT + x for x in body), "}"]


def _taken(given: list[_Given]) -> tuple[str, ...]:
    """Names that the text uses already."""
    return ("deposits", "t", "lane", "r", "n", "x", "at", "same", "read", *(g.name for g in given))


def _inputs(given: list[_Given]) -> list[_Given]:
    """Registers first: which elements of memory are read may depend on them."""
    return sorted((g for g in given if g.operand.role != "output"), key=lambda g: g.registers is None)


def _guard(instr: Instr, g: _Given, text: OpText) -> str:
    """The condition under which the element is read; empty: always."""
    value = guard_of(instr, g.operand.name) if g.registers is None else None
    return "" if value is None else text.guard(value, g.operand, subscripts(instr, g.operand))


def _gather(instr: Instr, g: _Given, units: int, text: OpText) -> list[str]:
    """Every element of the operand from a thread that has it; if several have it, they must agree."""
    b = text.op.array(g.operand)
    name = text.name(b)
    raw = text.loaded(_element(g, const=True), g.operand)
    place = text.place(b, g.operand.map, g.operand.coords)
    guard = _guard(instr, g, text)
    if FragmentLayout.of(g.operand).unique and (_lanes(g) == units or g.shared):
        return _each(instr, g, units, [f"{f'if ({guard}) ' if guard else ''}{name}[{place}] = {raw};"], const=True)
    kind = ELEMENTS[storage(b.dtype)]
    inside = [
        *([f"if (!({guard})) continue;"] if guard else []),
        f"const int at = {place};",
        f"const {kind} x = {raw};",
        f'if ({name}__had[at] && __builtin_memcmp(&x, &{name}[at], sizeof x)) em_disagree("{instr.name}", "{g.operand.name}");',
        f"{name}[at] = x;",
        f"{name}__had[at] = true;",
    ]
    return [f"bool {name}__had[{b.size}] = {{}};", *_each(instr, g, units, inside, const=True)]


def _scatter(instr: Instr, g: _Given, units: int, text: OpText) -> list[str]:
    b = text.op.array(g.operand)
    place = text.place(b, g.operand.map, g.operand.coords)
    return _each(
        instr, g, units, [f"{_element(g, const=False)} = {text.stored(f'{text.name(b)}[{place}]', g.operand)};"], False
    )


def _lanes(g: _Given) -> int:
    return FragmentLayout.of(g.operand).units


def _element(g: _Given, const: bool) -> str:
    r = "[r]" if any(v.name == REGISTER for v in g.operand.coords) else "[0]"
    if g.registers is not None and g.registers.kind == g.element:
        return f"t.{g.name}{r}"
    return f"(({'const ' if const else ''}{g.element}*)t.{g.name}){r}"


def _each(instr: Instr, g: _Given, units: int, inside: list[str], const: bool) -> list[str]:
    """For each thread that has elements of the operand (`lane`), for each of its registers (`r`)."""
    kind = f"{instr_name(instr)}__given"
    lines = inside
    if any(v.name == REGISTER for v in g.operand.coords):
        one = len(lines) == 1
        head = f"for (int r = 0; r < {g.count}; r++)"
        lines = [f"{head} {lines[0]}"] if one else [f"{head} {{", *(INDENT + x for x in lines), "}"]
    const_ = "const " if const else ""
    if units == 1:
        return lines
    lines = [f"{const_}{kind}& t = *({const_}{kind}*)deposits[{0 if g.shared else 'lane'}];", *lines]
    head = "{" if g.shared else f"for (int lane = 0; lane < {units}; lane++) {{"
    return [head, *(INDENT + x for x in lines), "}"]


# ------------------------------------------------------------ calls


def _call(instr: Instr, units: int, given: list[_Given], text: OpText) -> list[str]:
    own = instr_name(instr)
    params, members, after = [], [], []
    for g in given:
        if g.registers is None:
            params.append(f"{'const ' if g.operand.role == 'input' else ''}void* {g.name}")
            members.append(g.name)
            continue
        cells = [f"{g.name}[{i}]" for i in range(g.registers.count)]
        params.append(g.registers.parameter(g.name, g.operand.role))
        members.append(f"{{{', '.join(cells)}}}" if g.operand.role != "output" else "{}")
        after += [f"{c} = t.{c};" for c in cells if g.result]
    body = [f"{own}__given t = {{{', '.join(members)}}};", *_own_part(instr, units, given, text)]
    if instr.awaits:
        body += _issue(instr, units, given, text)
    else:
        body += [x for g in given for x in _touched(instr, g, units, text)]
        body.append(f"em_together(&{own}__instr, &t, {_SITE});" if units > 1 else f"em_alone(&{own}__instr, &t);")
    head = f"EM_PLAIN static void {own}({', '.join(params)}) {{"
    return [head, *(INDENT + x for x in (*body, *after)), "}"]


def _own_part(instr: Instr, units: int, given: list[_Given], text: OpText) -> list[str]:
    """What conditions on reading look at, as far as this thread holds it; and its number."""
    asked = {x.tensor for g in given if (v := _condition(instr, g)) is not None for x in loads(v)}
    out = text.declarations(asked)
    for g in given:
        if g.operand.name in asked:
            if units > 1 and g.operand.shape:
                raise InternalError(f"{instr.name} reads elements that depend on elements of {g.operand.name} in other threads")
            out += _gather(instr, g, 1, text)
    lanes = any("lane" in {v.name for v in g.operand.coords} for g in given if g.registers is None)
    return [*out, f"const int lane = em_thread_index() % {units};"] if units > 1 and lanes and (instr.awaits or asked) else out


def _condition(instr: Instr, g: _Given) -> Value | None:
    return guard_of(instr, g.operand.name) if g.registers is None and g.operand.role != "output" else None


def _in_runs(guard: str, count: int, body: str) -> list[str]:
    """`body` for each run of n elements from r on that are all read, or all not (`read`)."""
    return [
        f"const auto read_at = [&](int r) {{ (void)r; return {guard}; }};",
        f"for (int r = 0, n; r < {count}; r += n) {{",
        f"{INDENT}const bool read = read_at(r);",
        f"{INDENT}for (n = 1; r + n < {count} && read_at(r + n) == read;) n++;",
        f"{INDENT}{body}",
        "}",
    ]


def _touched(instr: Instr, g: _Given, units: int, text: OpText) -> list[str]:
    """Accesses to memory, reported to the observer by the threads whose addresses count: for each element, the first one."""
    if g.registers is not None:
        return []
    size, align = g.operand.dtype.bytes, g.operand.alignment
    first = 1 if g.shared else _speakers(g, units)
    only = f"if (em_thread_index() % {units} < {first}) " if first < units else ""
    guard = _guard(instr, g, text) if g.operand.role != "output" else ""
    if guard:
        touch = f"if (read) em_touch((const {g.element}*)t.{g.name} + r, n * {size}, r ? 1 : {align}, 0, 0, {_SITE});"
        return [f"{only}{{", *(INDENT + x for x in _in_runs(guard, g.count, touch)), "}"]
    modes = {"input": (0,), "output": (1,), "inout": (0, 1)}[g.operand.role]
    return [f"{only}em_touch(t.{g.name}, {g.count * size}, {align}, {w}, 0, {_SITE});" for w in modes]


def _speakers(g: _Given, units: int) -> int:
    """The number of threads, the first ones, that have the whole operand."""
    places = FragmentLayout.of(g.operand).linear()
    held: set[int] = set()
    for lane in range(len(places)):
        if {int(x) for x in places[lane:].ravel()} <= held:
            return lane
        held |= set(places[lane].tolist())
    return units


def _issue(instr: Instr, units: int, given: list[_Given], text: OpText) -> list[str]:
    """An asynchronous copy: this thread's part of it, then the copy. The accesses themselves happen when it completes."""
    assert instr.awaits
    source, to = _copied(instr, given)
    lines = []
    for g, write in ((source, 0), (to, 1)):
        if g.operand.alignment > 1:
            lines.append(f"em_align(t.{g.name}, {g.count * g.operand.dtype.bytes}, {g.operand.alignment}, {write}, {_SITE});")
    lane, r = Var("lane", 0, units - 1), Var(REGISTER, 0, source.count - 1)
    at = _offset(instr, source, to, lane, r)
    first = at.subs({r: as_expr(0)})
    guard, size = _guard(instr, source, text), source.operand.dtype.bytes
    where, what = f"({to.element}*)t.{to.name} + {_plain(at)}", f"(const {source.element}*)t.{source.name} + r"
    if at != first + r:
        one = f"{guard} ? {what} : nullptr" if guard else what
        lines.append(f"for (int r = 0; r < {source.count}; r++) em_part({where}, {one}, {size}, {_SITE});")
    elif guard:
        lines += _in_runs(guard, source.count, f"em_part({where}, read ? {what} : nullptr, n * {size}, {_SITE});")
    else:
        where = f"({to.element}*)t.{to.name} + {_plain(first)}" if first != as_expr(0) else f"t.{to.name}"
        lines.append(f"em_part({where}, t.{source.name}, {source.count * size}, {_SITE});")
    return [*lines, f"em_asynchronous(&{instr_name(instr)}__instr, &t, sizeof t, {KINDS[instr.awaits[0]]}, {_SITE});"]


def _copied(instr: Instr, given: list[_Given]) -> tuple[_Given, _Given]:
    """From memory to memory; registers may say which part of it."""
    target = instr.statement.target
    here = [g for g in given if g.registers is None]
    to = next((g for g in here if g.operand.name == target), None)
    if len(here) != 2 or to is None or instr.statement.reduction is not None or instr.accumulate:
        raise InternalError(f"{instr.name} is asynchronous, but not a copy from memory to memory")
    return next(g for g in here if g is not to), to


def _offset(instr: Instr, source: _Given, to: _Given, lane: Var, r: Var) -> Expr:
    """Which element, from the address that the thread gives as destination, its r-th source element goes to."""
    f = FragmentLayout.of(source.operand)
    index = tuple(e.subs({v: lane if v.name == "lane" else r for v in f.coords}) for e in f.map)
    found = FragmentLayout.of(to.operand).inverse(index)
    if found is None or found.get("lane", as_expr(lane)) != as_expr(lane):
        raise InternalError(f"{instr.name} copies for other threads than the one with the address")
    return found.get(REGISTER, as_expr(0))


def _plain(e: Expr) -> str:
    index = GpuIndex(lambda v: v.name, lambda name: None)
    index.bounds = {v: v.hi or 0 for v in e.variables()}
    return index.text(e, 5)
