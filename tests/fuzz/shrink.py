"""The smallest case that still fails in the same way: lines, modifiers, numbers, sizes, statements and terms go one by one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from .case import Case
from .execute import Outcome
from .model import Apply, Binary, Domain, Expr, Named, Number, Op, Read, Reduce, Statement, Tensor, reads, walk

_MODIFIERS = re.compile(
    r" (?:unroll(?: \d+| auto)?|peel|persistent|online|carry|through|vector \d+|raster \d+|within \w+|pad \d+"
    r"|pipeline \d+(?: through)?|order [\w., ]+?(?=$|:| by| unroll| peel| vector| pipeline| within)|arrange u: .*$"
    r"|swizzle(?: \([\d, ]+\))?|layout \(.*?\)|layout panels\(.*?\)|as \([\w, ]+\)|by \w+|with \w+|every \d+"
    r"|in \w+(?=:?$)|multicast \w+)",
)
_NUMBER = re.compile(r"(?<![\w.])\d+\b")
_ATTEMPTS = 1200


def shrunk(
    case: Case, run: Callable[[Case], Outcome], attempts: int = _ATTEMPTS, enough: Callable[[], bool] = lambda: False
) -> tuple[Case, Outcome]:
    """A smaller case whose outcome is of the same kind, and that outcome. `run` is called at most `attempts` times, and no more
    once `enough` says so."""
    outcome = run(case)
    assert outcome.failed, outcome
    seen: set[Case] = {case}
    left = attempts
    progress = True
    while progress and left > 0:
        progress = False
        for smaller in candidates(case):
            if smaller in seen:
                continue
            seen.add(smaller)
            left -= 1
            found = run(smaller)
            if found.same(outcome):
                case, outcome, progress = smaller, found, True
                break
            if left <= 0 or enough():
                return case, outcome
    return case, outcome


def candidates(case: Case) -> Iterator[Case]:
    """Cases that are a step smaller, the largest steps first."""
    for text in schedules(case.schedule):
        yield replace(case, schedule=text)
    for op in ops(case.op):
        yield fitted(case, op)
    for text in devices(case.device_text):
        yield replace(case, device_text=text)
    if case.spelling is not None:
        yield replace(case, spelling=None)
    if case.op.conditions:
        yield replace(case, op=replace(case.op, conditions=()))
    if case.special:
        yield replace(case, special=False)
    sizes = dict(case.sizes)
    for n, x in case.sizes:
        for y in smaller_numbers(x):
            yield replace(case, sizes=tuple((sizes | {n: y}).items()))
    if set(case.fixed) != set(sizes):
        yield replace(case, fixed=tuple(sizes))
    for n in range(1, case.cores):
        yield replace(case, cores=n)


def smaller_numbers(x: int) -> list[int]:
    return list(dict.fromkeys(y for y in (1, 2, x // 2, x - 1) if 0 < y < x))


def fitted(case: Case, op: Op) -> Case:
    """The case with another op: only its sizes are left."""
    sizes = tuple((n, x) for n, x in case.sizes if n in op.dims)
    return replace(case, op=op, sizes=sizes, fixed=tuple(n for n in case.fixed if n in op.dims))


# ---------------------------------------------------------------- schedules


def schedules(text: str) -> Iterator[str]:
    if not text:
        return
    yield from _without_strategies(text)
    yield from _without_params(text)
    lines = text.rstrip("\n").split("\n")
    for n in range(len(lines)):
        if lines[n].startswith("    "):
            rest = [*lines[:n], *lines[_block_end(lines, n) :]]
            if any(x.startswith("    ") for x in rest):
                yield from _tidy(rest)
    for n, line in enumerate(lines):
        if line.startswith("schedule"):
            for pattern in (r" on \S+?(?=:| where)", r" where .*(?=:$)"):
                if (shorter := re.sub(pattern, "", line)) != line:
                    yield "\n".join([*lines[:n], shorter, *lines[n + 1 :]]) + "\n"
        elif line.endswith(":"):  # without its block
            yield "\n".join([*lines[:n], line[:-1], *lines[_block_end(lines, n) :]]) + "\n"
    for n, line in enumerate(lines):
        for shorter in [*_fewer_axes(line), *_fewer_modifiers(line), *_smaller_tiles(line)]:
            yield "\n".join([*lines[:n], shorter, *lines[n + 1 :]]) + "\n"


def _block_end(lines: list[str], n: int) -> int:
    depth = len(lines[n]) - len(lines[n].lstrip())
    end = n + 1
    while end < len(lines) and len(lines[end]) - len(lines[end].lstrip()) > depth:
        end += 1
    return end


def _tidy(lines: list[str]) -> Iterator[str]:
    """A line whose block has gone loses its colon."""
    out = []
    for n, x in enumerate(lines):
        deeper = n + 1 < len(lines) and len(lines[n + 1]) - len(lines[n + 1].lstrip()) > len(x) - len(x.lstrip())
        out.append(x[:-1] if x.startswith("    ") and x.endswith(":") and not deeper else x)
    yield "\n".join(out) + "\n"


def _fewer_axes(line: str) -> Iterator[str]:
    found = re.match(r"(\s+tile )((?:[\w.]+: \w+(?: every \d+)?(?:, )?)+)(.*)$", line)
    if found is None or ", " not in found[2]:
        return
    axes = found[2].rstrip().split(", ")
    for n in range(len(axes)):
        rest = found[3] if found[3].startswith(" ") or not found[3] else " " + found[3]
        yield found[1] + ", ".join(axes[:n] + axes[n + 1 :]) + rest


def _fewer_modifiers(line: str) -> Iterator[str]:
    if not line.startswith("    "):
        return
    for found in _MODIFIERS.finditer(line):
        yield line[: found.start()] + line[found.end() :]


def _smaller_tiles(line: str) -> Iterator[str]:
    if not line.startswith("    "):
        return
    for found in _NUMBER.finditer(line):
        for y in smaller_numbers(int(found[0])):
            yield line[: found.start()] + str(y) + line[found.end() :]


def _without_strategies(text: str) -> Iterator[str]:
    """The lines of a strategy in the place of `apply`."""
    found = re.match(r"strategy (\w+)\((.*?)\):\n((?:    .*\n)+)\n*", text)
    if found is None:
        return
    rest = text[found.end() :]
    called = re.search(rf"( *)apply {found[1]}(?:\((.*?)\))?\n", rest)
    if called is None:
        yield rest
        return
    params = [p.split(" = ") for p in found[2].split(", ") if p]
    given = {p[0]: p[1] for p in params if len(p) > 1}
    for n, argument in enumerate(a for a in (called[2] or "").split(", ") if a):
        name, _, value = argument.rpartition(" = ")
        given[name or params[n][0]] = value
    body = found[3]
    for p, value in given.items():
        body = re.sub(rf"\b{p}\b", value, body)
    body = "".join(called[1][4:] + x + "\n" for x in body.rstrip("\n").split("\n"))
    yield rest[: called.start()] + body + rest[called.end() :]


def _without_params(text: str) -> Iterator[str]:
    found = re.search(r" *param (\w+) in (\d+)[\d, ]*(?: = (\d+))?\n", text)
    if found is not None:
        rest = text[: found.start()] + text[found.end() :]
        yield re.sub(rf"(?:2\*)?\b{found[1]}\b(?:/2)?", found[3] or found[2], rest)


def devices(text: str) -> Iterator[str]:
    """The device without an instruction, a memory or a level."""
    lines = text.rstrip("\n").split("\n")
    for n in range(1, len(lines)):
        if lines[n].startswith(("    instr", "    memory", "    level", "    units")):
            yield "\n".join([*lines[:n], *lines[_block_end(lines, n) :]]) + "\n"


# ---------------------------------------------------------------- ops


def ops(op: Op) -> Iterator[Op]:
    if len(op.outputs) > 1:
        for n in range(len(op.outputs)):
            yield pruned(replace(op, outputs=op.outputs[n : n + 1]))
        for n in range(len(op.outputs)):
            yield pruned(replace(op, outputs=op.outputs[:n] + op.outputs[n + 1 :]))
    for n, s in enumerate(op.statements):
        if s.target not in {t.name for t in op.outputs}:  # an intermediate is an input instead
            for dtype in ("f32", "i32", "f64", "bool"):
                given = Tensor(s.target, dtype, tuple(s.extent(i) for i in s.indices))
                yield pruned(replace(op, inputs=(*op.inputs, given), statements=op.statements[:n] + op.statements[n + 1 :]))
    for dim in op.dims:
        if (smaller := without(op, dim)) is not None:
            yield smaller
    for n, s in enumerate(op.statements):
        for value in simpler(s.value):
            yield pruned(replace(op, statements=(*op.statements[:n], replace(s, value=value), *op.statements[n + 1 :])))
    for n, t in enumerate(op.inputs):
        for dtype in ("f32", "i32"):
            if t.dtype not in ("f32", "i32"):
                yield replace(op, inputs=(*op.inputs[:n], replace(t, dtype=dtype), *op.inputs[n + 1 :]))
    for n, t in enumerate(op.outputs):
        for dtype in ("f32", "i32"):
            if t.dtype not in ("f32", "i32", "i64", "bool"):
                yield replace(op, outputs=(*op.outputs[:n], replace(t, dtype=dtype), *op.outputs[n + 1 :]))


def pruned(op: Op) -> Op:
    """Without the statements, inputs and sizes that no output needs."""
    needed = {t.name for t in op.outputs}
    statements: list[Statement] = []
    for s in reversed(op.statements):
        if s.target in needed:
            statements.insert(0, s)
            needed |= {r.tensor for r in reads(s.value)}
    inputs = tuple(t for t in op.inputs if t.name in needed)
    used = {x.name for t in inputs for e in t.shape for x in [e] if isinstance(x, Named)}
    ranges = {x.name for s in statements for _, e in s.ranges for x in walk(e) if isinstance(x, Named)}
    derived = tuple((n, e) for n, e in op.derived if n in ranges)
    dims = tuple(d for d in op.dims if d in used)
    left = {*dims, *(n for n, _ in derived), *(n for n, _, _ in op.params)}
    conditions = tuple(c for c in op.conditions if {x.name for x in walk(c) if isinstance(x, Named)} <= left)
    return replace(op, inputs=inputs, statements=tuple(statements), dims=dims, derived=derived, conditions=conditions)


def without(op: Op, dim: str) -> Op | None:
    """The op without the axes over a size, and without the indices that run over it; None where it is more than an extent."""
    indices = {(n, i) for n, s in enumerate(op.statements) for i, e in s.ranges if e == Named(dim)}
    if dim in dict(op.derived) or not any(len(s.ranges) > 1 for s in op.statements):
        return None
    whole = {t.name: t.shape for t in (*op.inputs, *op.outputs)} | {
        s.target: tuple(s.extent(i) for i in s.indices) for s in op.statements
    }

    def cut(e: Expr, n: int) -> Expr:
        match e:
            case Read(tensor, at, fill):
                left = tuple(cut(x, n) for x, d in zip(at, whole[tensor], strict=True) if d != Named(dim))
                return Read(tensor, left, fill if any(not isinstance(x, Named) for x in left) else None)
            case Binary(symbol, left, right):
                return Binary(symbol, cut(left, n), cut(right, n))
            case Apply(function, args):
                return Apply(function, tuple(cut(x, n) for x in args))
            case Reduce(kind, over, body, stated):
                rest = tuple(i for i in over if (n, i) not in indices)
                gone = {dim, *(i for m, i in indices if m == n)}
                if not rest:
                    return cut(body, n)
                return Reduce(kind, rest, cut(body, n), stated, conditions_left(e.domain, gone), e.inherited)
            case Named(name) if name == dim or (n, name) in indices:
                return Number(0)
        return e

    def conditions_left(domain: Domain, gone: set[str]) -> Domain:
        return tuple(c for c in domain if not any(isinstance(x, Named) and x.name in gone for x in walk(c)))

    def shape(t: Tensor) -> Tensor:
        return replace(t, shape=tuple(d for d in t.shape if d != Named(dim)))

    statements = tuple(
        Statement(
            s.target, tuple(i for i in s.indices if (n, i) not in indices), cut(s.value, n),
            tuple((i, e) for i, e in s.ranges if (n, i) not in indices),
            conditions_left(s.domain, {dim, *(i for m, i in indices if m == n)}),
        )
        for n, s in enumerate(op.statements)
    )  # fmt: skip
    return pruned(
        replace(op, inputs=tuple(map(shape, op.inputs)), outputs=tuple(map(shape, op.outputs)), statements=statements)
    )


def simpler(e: Expr) -> Iterator[Expr]:
    """Expressions with one node less."""
    match e:
        case Binary(symbol, left, right):
            yield left
            yield right
            yield from (Binary(symbol, x, right) for x in simpler(left))
            yield from (Binary(symbol, left, x) for x in simpler(right))
        case Apply(function, args):
            yield from args
            for n, a in enumerate(args):
                yield from (Apply(function, (*args[:n], x, *args[n + 1 :])) for x in simpler(a))
        case Reduce(kind, _, body):
            yield from (replace(e, body=x) for x in simpler(body))
            if not e.inherited:
                yield from (replace(e, domain=tuple(c for c in e.domain if c is not gone)) for gone in e.domain)
            if kind not in ("sum", "any", "all"):
                yield replace(e, kind="sum")
        case Read(tensor, at, fill):
            for n, a in enumerate(at):
                if not isinstance(a, Named | Number):
                    yield from (Read(tensor, (*at[:n], x, *at[n + 1 :]), fill) for x in simpler(a))
                    yield from (Read(tensor, (*at[:n], Named(x), *at[n + 1 :])) for x in _named(a))
            if fill is not None and all(isinstance(a, Named) for a in at):
                yield Read(tensor, at)


def _named(e: Expr) -> list[str]:
    if isinstance(e, Named):
        return [e.name]
    return [n for x in (e.left, e.right) for n in _named(x)] if isinstance(e, Binary) else []
