"""A whole schedule: the head with its bounds and roles, `fuse`, parameters and strategies around what `schedules` writes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from random import Random

from andiron.codegen.schedule.roles import contractions_of
from andiron.dsl.device import Device
from andiron.dsl.op import Op
from andiron.dsl.values import loads

from .facts import Facts, facts_of, fused, narrowed
from .schedules import Line, Spot, Writer

_SIZE = re.compile(r"(?<=: )(\d+)(?= |,|$)")


def random_schedule(rng: Random, op: Op, device: Device, sizes: Mapping[str, int], name: str = "s") -> str:
    """The text of schedule `s` for `op`, whose fixed sizes are numbers already; `sizes`: what those left open will be."""
    bounds, where = _bounds(rng, op, sizes)
    facts = facts_of(op, bounds)
    facts = of_one_statement(rng, op, facts, 0.75, 0.9)
    what, lines = op.name, []
    if rng.random() < 0.06 and (found := contraction_facts(op, facts)) is not None:
        facts, what = found, "contraction"
    elif rng.random() < 0.1 and (mine := fusable(rng, facts)):
        facts = fused(facts, mine, "f")
        lines.append(Line(f"fuse {', '.join(mine)} as f"))
    writer = Writer(rng, facts, device)
    lines += one_pass(writer) or prefixes(writer) or writer.body()
    head = f"schedule {name} for {what}"
    if rng.random() < 0.15:
        head += f" on {device.name}"
    strategies = ""
    if rng.random() < 0.08:
        strategies, lines = _strategy(rng, lines)
    if rng.random() < 0.08:
        lines = _param(rng, lines)
    body = "\n".join(x for line in lines for x in line.lines(1))
    return f"{strategies}{head}{where}:\n{body}\n"


def of_one_statement(rng: Random, op: Op, facts: Facts, share: float, largest: float) -> Facts:
    """For a share of the ops that have several, the facts of one statement, which for another share is the largest."""
    if len(op.statements) <= 1 or rng.random() >= share:
        return facts
    most = max(range(len(op.statements)), key=lambda n: (len(op.statements[n].ranges), n))
    return narrowed(facts, op, most if rng.random() < largest else rng.randrange(len(op.statements)))


def _bounds(rng: Random, op: Op, sizes: Mapping[str, int]) -> tuple[dict[str, int], str]:
    """Bounds of sizes that are open, and the text that states them."""
    bounds: dict[str, int] = {}
    if rng.random() < 0.35:
        for v in op.dims:
            if v.name in sizes and rng.random() < 0.6:
                bounds[v.name] = max(1, sizes[v.name] + rng.choice((0, 0, 1, 3, 7, sizes[v.name])))
    texts = [f"{n} <= {x}" if rng.random() < 0.8 else f"{n} < {x + 1}" for n, x in bounds.items()]
    if rng.random() < 0.05 and op.dims:
        n = rng.choice(op.dims).name
        texts.append(f"{n} >= {rng.randint(0, sizes[n])}")
    return bounds, f" where {', '.join(texts)}" if texts else ""


def fusable(rng: Random, facts: Facts) -> tuple[str, ...]:
    """Two or three indices that one statement has, all free or all reduced."""
    pools = [x for nest in facts.nests for x in nest if len(x) > 1]
    if not pools:
        return ()
    pool = rng.choice(pools)
    return tuple(rng.sample(pool, rng.choice((2, 2, 3)) if len(pool) > 2 else 2))


def contraction_facts(op: Op, facts: Facts) -> Facts | None:
    """The facts in the words of `for contraction`, where the op has one contraction and nothing else."""
    found = contractions_of(op)
    if len(found) != 1 or len(op.statements) != 1 or found[0].reduction is None:
        return None
    s = found[0]
    assert s.reduction is not None
    left, right = ({str(v.name) for e in ld.indices for v in e.variables()} for ld in loads(s.value))
    over = s.reduction.indices
    groups = {
        "b": [i for i in s.indices if i in left and i in right], "m": [i for i in s.indices if i in left and i not in right],
        "n": [i for i in s.indices if i in right and i not in left], "k": list(over),
    }  # fmt: skip
    extents: dict[str, int | None] = {}
    for g, mine in groups.items():
        if mine:
            known = [facts.extents[i] for i in mine]
            total: int | None = 1
            for n in known:
                total = None if n is None or total is None else total * n
            extents[g] = total
    free = tuple(g for g in "bmn" if g in extents)
    sides = {"left": tuple(g for g in "bmk" if g in extents), "right": tuple(g for g in "bnk" if g in extents)}
    nests = ((free, ("k",)),)
    return Facts(
        free, ("k",), extents, {"result": free}, dict(sides), dict(sides), (), ("result",), nests, {"result": "sum"},
        kept=("result",), staged=("left", "right"),
    )  # fmt: skip


def _param(rng: Random, lines: list[Line]) -> list[Line]:
    """A size of a tile is a parameter."""
    found = [n for n, x in enumerate(lines) if x.text.startswith("tile") and _SIZE.search(x.text)]
    if not found:
        return lines
    n = rng.choice(found)
    size = _SIZE.search(lines[n].text)
    assert size is not None
    known = [size[1], *(str(rng.choice((2, 4, 8, 16))) for _ in range(rng.randint(0, 2)))]
    chosen = f" = {size[1]}" if rng.random() < 0.5 else ""
    if chosen:
        rng.shuffle(known)
    word = rng.choice(("R0", "R0", "2*R0/2"))
    text = lines[n].text[: size.start()] + word + lines[n].text[size.end() :]
    lines = [*lines[:n], Line(text, lines[n].block), *lines[n + 1 :]]
    at = rng.randint(0, n)
    return [*lines[:at], Line(f"param R0 in {', '.join(dict.fromkeys(known))}{chosen}"), *lines[at:]]


def _strategy(rng: Random, lines: list[Line]) -> tuple[str, list[Line]]:
    """Some lines are a strategy, and what they say of sizes, levels, memories and tensors its parameters."""
    a = rng.randint(0, len(lines) - 1)
    b = rng.randint(a + 1, len(lines))
    text = "\n".join(x for line in lines[a:b] for x in line.lines(1))
    given: dict[str, str] = {}
    for pattern in (r"(?<=: )(\d+)(?= |,|$)", r"(?<=-> )(\w+)", r"(?<=move )(\w+)(?= )", r"(?<=keep )(\w+)(?= )"):
        for found in re.findall(pattern, text, re.MULTILINE):
            if rng.random() < 0.5 and found not in given.values() and found != "auto":
                given[f"p{len(given)}"] = found
    for p, value in given.items():
        around = r"(?<=: ){}(?= |,|$)" if value.isdigit() else r"(?<=-> ){0}\b|(?<=move ){0}(?= )|(?<=keep ){0}(?= )"
        text = re.sub(around.format(value), p, text, flags=re.MULTILINE)
    defaults = [p for p, v in given.items() if v.isdigit() and p == f"p{len(given) - 1}" and rng.random() < 0.5]
    head = ", ".join(p + (f" = {given[p]}" if p in defaults else "") for p in given)
    arguments = [v if rng.random() < 0.8 or n < len(given) - 1 else f"{p} = {v}" for n, (p, v) in enumerate(given.items())]
    if defaults and rng.random() < 0.5:
        arguments.pop()
    called = f"apply piece({', '.join(arguments)})" if arguments or rng.random() < 0.5 else "apply piece"
    return f"strategy piece({head}):\n{text}\n\n", [*lines[:a], Line(called), *lines[b:]]


def prefixes(writer: Writer) -> list[Line]:
    """Lines for a reduction of which each row has the terms of the row before, and more; none without one."""
    facts, rng = writer.facts, writer.rng
    if not facts.prefixes or writer.maybe(0.3):
        return []
    (result, row, index), spot = rng.choice(facts.prefixes), Spot(0, dict(facts.extents))
    others = tuple(i for i in facts.results[result] if i != row)
    out = writer.deal(spot, others) if others and writer.maybe(0.6) else []
    out += [x for j in others for x in writer.bounding(spot, j, 8)]
    spot.extents[row] = n = rng.choice((1, 2, 4, 8, 8, 16, 5))
    spot.extents[index] = n
    out.append(Line(f"tile {row}: {n}" + rng.choice(("", "", " peel", " unroll 2")) + " carry"))
    scores = [n for n, axes in facts.results.items() if axes == (row, index) and n != result]
    out += [Line(f"keep {n} in {rng.choice(writer.device.memories[1:]).name}") for n in scores if writer.maybe(0.7)]
    if writer.maybe(0.3):
        out.append(Line(f"keep {result} in {writer.device.memories[-1].name}"))
    for _ in range(rng.choice((0, 0, 1, 2))):
        pool = (row, index) if writer.maybe(0.6) else facts.results[result]
        out += writer.loop(spot, pool) if writer.maybe(0.4) else writer.deal(spot, pool)
    return out + writer.end(spot)


def one_pass(writer: Writer) -> list[Line]:
    """Lines for an extreme and a sum over its index that reads it; none without these."""
    facts, rng = writer.facts, writer.rng
    found = [(a, b, i) for a, b in facts.pairs for i in sorted({*facts.over(a)} & {*facts.over(b)})]
    if not found or writer.maybe(0.3):
        return []
    (a, b, i), spot, register = rng.choice(found), Spot(0, dict(facts.extents)), writer.device.memories[-1].name
    out = writer.deal(spot, facts.free) if writer.maybe(0.8) else []
    out += [x for j in facts.free for x in writer.bounding(spot, j, 8)]
    if writer.maybe(0.4):  # units that a later launch combines have parts
        level = next(x.name for x in writer.device.levels[1:] if x.units in ("open", "finite"))
        spot.level = max(spot.level, writer.device.depth(level))
        out.append(Line(f"tile {i}: {rng.choice((8, 16, 24, 64))} -> {level} online by workspace"))
    out += [Line(f"keep {x} in {register}") for x in (a, b) if writer.maybe(0.95)]
    spot.extents[i] = n = rng.choice((8, 8, 12, 16, 32, 64, 4))
    out.append(Line(f"tile {i}: {n}" + rng.choice(("", "", " peel", " unroll 2")) + " online"))
    out += [Line(f"keep {x} in {register}") for x in facts.pointwise if writer.maybe(0.4)]
    for _ in range(rng.choice((0, 0, 1, 2))):
        out += writer.loop(spot, writer.pool(0.5)) if writer.maybe(0.5) else writer.deal(spot, (*facts.free, i))
    return out + writer.end(spot)
