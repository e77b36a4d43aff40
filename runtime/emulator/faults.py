"""The observer's findings as errors that point to the schedule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ...codegen.emit.emitted_lines import EmittedLine
from ...codegen.ir.program import Program
from ...codegen.ir.tile_ir import Alloc, Buffer, Call, Store
from ...codegen.ir.tile_visitors import statements
from ...dsl.errors import Label, UserError, UserErrors
from ...dsl.errors import emulate as errors
from ...dsl.index.expr import Atom, Expr, Fn
from .observer_records import ATOMIC, LOAD, STORE, UNDER_WAY, Fault, Reach
from .report import most_shared, most_threads
from .source_map import SourceMap, plain_name

_MOST = 12  # errors that are shown
_DOES = {LOAD: "reads", STORE: "writes", ATOMIC: "combines with"}
_DID = {LOAD: "read", STORE: "wrote", ATOMIC: "combined with"}
_MADE = {LOAD: "read here", STORE: "written here", ATOMIC: "combined here", UNDER_WAY: "the copy was issued here"}


@dataclass(frozen=True)
class KernelFacts:
    """What a message about a kernel is made of. `sizes`: those of the call, derived ones too; `lanes`: threads of a warp."""

    program: Program
    origin: SourceMap
    sizes: Mapping[str, int]
    lanes: int


def fault_error(told: KernelFacts, faults: Sequence[Fault], reaches: Sequence[Reach] = ()) -> UserError | None:
    """All that was found as one error; None when it was nothing."""
    found = [e for f in _alike(told, [*faults, *_strays(told, reaches)]) if (e := _error(told, f)) is not None]
    if not found:
        return None
    if len(found) > _MOST:
        more = f"{len(found) - _MOST} more were found; they may follow from these"
        last = found[_MOST - 1]
        last.help = f"{last.help}; {more}" if last.help else more
    return found[0] if len(found) == 1 else UserErrors(found[:_MOST])


def _alike(told: KernelFacts, faults: Sequence[Fault]) -> list[Fault]:
    """One fault of each kind, buffer and lines of the schedule, with the counts of all."""
    counted = [f for f in faults if f.thread < 0 and f.site]  # came without the rest, after the first
    first: dict[tuple, Fault] = {}
    for f in faults:
        if f in counted:
            continue
        more = sum(x.count for x in counted if (x.kind, x.buffer, x.site) == (f.kind, f.buffer, f.site))
        here, there = told.origin.of(f.site), told.origin.of(f.other_site)
        name, offset = told.origin.settled(here.line, f.buffer, f.offset)
        key = (f.kind, name, here.span or here.line, there.span or there.line)
        was = first.get(key)
        n = f.count + more
        first[key] = replace(was, count=was.count + n) if was else replace(f, buffer=name, offset=offset, count=n)
    return list(first.values())


# ---------------------------------------------------------------- one fault


def _error(told: KernelFacts, f: Fault) -> UserError | None:
    here, there = told.origin.of(f.site), told.origin.of(f.other_site)
    if f.kind == "divergent-barrier":
        if here.line == there.line:  # one barrier of the text, which the compiler has twice
            return None
        who, other = _thread(told, f.thread), _thread(told, f.other_thread)
        text = f"{who} of block {f.block} is at another barrier than {other}"
        return _placed(errors.DivergentBarrier, text, f, here, there, "a barrier", "the other barrier")
    if f.kind in _MEETINGS:
        cls = _MEETINGS[f.kind]
        notes = f"thread {f.thread} is here", f"thread {f.other_thread} is here"
        return _placed(cls, f"in block {f.block}, {f.message}", f, here, there, *notes)
    if f.kind in _LIMITS:
        of, most = _LIMITS[f.kind]
        device = told.program.device
        return errors.LimitExceeded(f"{f.buffer} has {f.offset:,} {of} in a block; {device.name} allows {most(device):,}")
    if f.kind not in _KINDS:
        return _placed(errors.EmulatorFault, f"{f.kind}: {f.message}", f, here, there, "", "")
    cls = _KINDS[f.kind]
    what = _element(told, f.buffer, f.offset)
    if f.kind == "never-written":
        text = f"{f.count} element{'s' * (f.count > 1)} of {f.buffer} {'are' if f.count > 1 else 'is'} never written"
        return errors.Uninitialised(f"{text}; the first is {what}")
    who = f"{_thread(told, f.thread)} of block {f.block}"
    does = _DOES.get(f.access, "accesses")
    text = f"{who} {does} {what}"
    if f.kind == "race":
        other = _thread(told, f.other_thread) if f.other_block == f.block else f"a thread of block {f.other_block}"
        did = _DID.get(f.other_access, "accessed")
        text += f", which {other} {did}, and nothing orders them"
    elif f.kind == "in-flight" and f.access & UNDER_WAY:
        other = _thread(told, f.other_thread)
        text = f"{other} wrote {what} while an asynchronous copy of {who} may still read it"
    elif f.kind == "in-flight":
        text += f", which an asynchronous copy of {_thread(told, f.other_thread)} may not have written yet"
    elif f.kind == "uninitialised":
        text += ", which nothing has written"
    elif f.kind == "out-of-bounds":
        text = f"{who} {does} {f.bytes} bytes {_beyond(told, f)}"
    elif f.kind == "misaligned":
        text = f"{who} {does} {f.bytes} bytes at byte {f.offset} of {f.buffer}, which is no multiple of what that needs"
    note = _MADE.get(f.access & ~UNDER_WAY, "here")
    return _placed(cls, text, f, here, there, note, _MADE.get(f.other_access, "here"))


_KINDS = {
    "race": errors.Race,
    "in-flight": errors.NotAwaited,
    "out-of-bounds": errors.OutOfBounds,
    "uninitialised": errors.Uninitialised,
    "never-written": errors.Uninitialised,
    "read-only": errors.InputWritten,
    "misaligned": errors.Misaligned,
}
_LIMITS = {"threads": ("threads", most_threads), "shared-bytes": ("bytes of shared memory", most_shared)}
_MEETINGS = {
    "deadlock": errors.DivergentBarrier,
    "divergent-call": errors.DivergentCall,
    "divergent-reduce": errors.DivergentCall,
    "replica-mismatch": errors.ReplicasDiffer,
}


def _placed(
    cls: type[UserError], text: str, f: Fault, here: EmittedLine, there: EmittedLine, note: str, other: str
) -> UserError:
    labels = []
    if there.span is not None and here.span is not None and there.span != here.span:
        labels.append(Label(there.span, other))
    shown = [f"line {w.line} of the text is `{w.text}`" for w in (here, there) if w.line]
    shown = list(dict.fromkeys(shown))
    if f.count > 1:
        shown.append(f"{f.count} times in all")
    span = here.span or there.span
    return cls(text, span, note=note if here.span else other, labels=labels, help="; ".join(shown) or None)


def _thread(told: KernelFacts, thread: int) -> str:
    if thread < 0:
        return "a thread"
    levels = told.program.device.levels
    if told.lanes <= 1 or len(levels) < 2:
        return f"thread {thread}"
    return f"thread {thread} (lane {thread % told.lanes} of {levels[-2].name} {thread // told.lanes})"


# ---------------------------------------------------------------- elements


def _buffer(told: KernelFacts, name: str) -> Buffer | None:
    local = [s.buffer for x in told.program.launches for s in statements(x.body) if isinstance(s, Alloc)]
    found = [b for b in (*told.program.buffers, *local) if plain_name(b.name) == plain_name(name)]
    return next((b for b in found if b.name == name), found[0] if found else None)


def _element(told: KernelFacts, name: str, offset: int) -> str:
    """An element by its indices where the buffer is laid out plainly, else by its number."""
    b = _buffer(told, name)
    if b is None:
        return f"byte {offset} of {name or 'memory that is no buffer'}"
    number = offset // b.dtype.bytes
    coords = _coordinates(told, b, number)
    return f"{name}[{', '.join(map(str, coords))}]" if coords is not None else f"element {number} of {name}"


def _coordinates(told: KernelFacts, b: Buffer, number: int) -> tuple[int, ...] | None:
    try:
        shape = [int(e.evaluate(told.sizes)) for e in b.shape]
        strides = [int(e.evaluate(told.sizes)) for e in b.strides]
    except (KeyError, ValueError):
        return None
    if number < 0 or _swizzled(told.program, b.name):
        return None
    coords, rest = [0] * len(shape), number
    for i in sorted(range(len(shape)), key=lambda i: -strides[i]):
        if strides[i] > 0:
            coords[i], rest = divmod(rest, strides[i])
    inside = all(0 <= c < n for c, n in zip(coords, shape, strict=True))
    return tuple(coords) if rest == 0 and inside else None


def _swizzled(program: Program, name: str) -> bool:
    """Whether some access of the buffer permutes its elements, so that a number says nothing of indices."""
    for launch in program.launches:
        for s in statements(launch.body):
            if isinstance(s, Call):
                if any(p.buffer == name and any(map(_permutes, p.coords)) for p in s.pieces):
                    return True
            elif isinstance(s, Store) and s.buffer == name and any(map(_permutes, s.coords)):
                return True
    return False


def _permutes(e: Expr) -> bool:
    return any(_xor(a) for a, _ in e.terms)


def _xor(a: Atom) -> bool:
    return isinstance(a, Fn) and (a.kind == "xor" or any(_permutes(e) for e in a.args))


def _beyond(told: KernelFacts, f: Fault) -> str:
    b = _buffer(told, f.buffer)
    if b is None:
        return f"at byte {f.offset} of {f.buffer}" if f.buffer else "far from every buffer"
    number = f.offset // b.dtype.bytes
    try:
        size = int(b.size.evaluate(told.sizes))
    except (KeyError, ValueError):
        return f"at element {number} of {f.buffer}"
    return f"at element {number} of {f.buffer}, which has {size}"


# ---------------------------------------------------------------- the wrong buffer


def _strays(told: KernelFacts, reaches: Sequence[Reach]) -> list[Fault]:
    """RIGHT_BUFFER: buffers of shared memory lie side by side, so an address that leaves one may be inside of another. The
    text of the line says which one is meant; only places that reached several are asked about."""
    groups: dict[tuple[int, bool], dict[int, Reach]] = {}
    together: dict[int, set[str]] = {}
    for r in reaches:
        groups.setdefault((r.site, r.access == LOAD), {}).setdefault(r.group, r)
        together.setdefault(r.group, set()).add(plain_name(r.buffer))
    found = []
    for (site, _), by_group in groups.items():
        if len(by_group) < 2:
            continue
        meant = {plain_name(x) for x in told.origin.meant(told.origin.of(site).line)}
        for group, r in by_group.items():
            if meant and not meant & together[group]:
                rest = {"other_block": r.block, "other_thread": -1, "other_site": 0, "other_access": 0, "count": 1}
                place = {"thread": r.thread, "site": r.site, "bytes": r.bytes, "access": r.access}
                found.append(Fault("out-of-bounds", "", r.buffer, r.offset, r.block, **place, **rest))
    return found
